"""The spending plan of an experiment, and the subjects of its ledger. No torch."""

from fedaudit.federations.federation import Federation
from fedaudit.federations.split import training_clients
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.base.record_sources import record_use_of


def spending_of(spec: ExperimentSpec, federation: Federation) -> SpendingPlan | None:
    """The plan of a spec over its data; None where nothing is counted as an epsilon with a delta.

    Raises InvalidInputError where no noise is enough for the records' budgets, or none of the
    records can be used.
    """
    return mechanism_of(spec).spending_plan(
        training_clients=training_clients(federation.clients, spec.federation),
        client_names=federation.client_names,
        records=record_use_of(spec, federation),
    )
