"""Which cells can be trained side by side."""

from fedaudit.training.base.cell import Cell, is_client_by_client
from fedaudit.training.mechanisms.registry import training_mechanism


def stack_key(cell: Cell) -> tuple[object, ...]:
    """Cells with equal keys can be trained side by side.

    Seeds, noise multipliers, radii, clips, budgets, deltas, rounds and patience may differ between
    them. A cell that is computed client by client has nothing to gain from others and is always
    alone.
    """
    training, mechanism = cell.spec.training, training_mechanism(cell.spec.privacy)
    return (
        id(cell) if is_client_by_client(cell) else None,
        cell.shape,
        (cell.federation.longest, cell.federation.width),
        tuple((attribute.name, attribute.values) for attribute in cell.federation.attributes),
        cell.federation.clients,
        cell.federation.classes,
        cell.federation.target_scale,
        cell.spec.federation.validation_fraction,
        cell.spec.federation.scoring,
        training.loss,
        training.hypotheses,
        training.cohort,
        training.local,
        training.clustering,
        training.stopping.validate_every,
        training.stopping.validation_clients,
        mechanism.name,
        mechanism.stack_key(),
        cell.spec.privacy.noise,
        cell.spec.fairness.model_dump_json(),
    )
