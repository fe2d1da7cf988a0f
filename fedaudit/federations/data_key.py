"""What of a spec the loaded data depend on: specs with equal keys share their data."""

from fedaudit.spec.experiment import ExperimentSpec

DataKey = tuple[object, ...]


def data_key(spec: ExperimentSpec) -> DataKey:
    """Hashable; the files themselves, and who may read them, are not in it."""
    return (
        spec.federation.model_dump_json(),
        spec.seed if spec.draws_data else None,
        tuple(spec.fairness.sensitive),
        repr(spec.fairness.edges),
        repr(spec.fairness.intersections),
        spec.training.loss,
        spec.model.kind,
        spec.privacy.budget_column,
        spec.privacy.draws_by_record,
    )
