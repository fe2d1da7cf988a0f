"""The spending plan of a spec, and the names of its parts.

How a mechanism's events are composed is in its own file (`fedaudit.privacy.mechanisms`), the
methods of a plan in `fedaudit.privacy.planning.plan`.
"""

from collections.abc import Sequence

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.plan import (
    EVERYONE,
    ObserverEpsilon,
    PlanAccountant,
    SpendingPlan,
    SubjectKind,
)
from fedaudit.privacy.records.record_use import RecordUse
from fedaudit.spec.experiment import ExperimentSpec

__all__ = [
    "EVERYONE",
    "ObserverEpsilon",
    "PlanAccountant",
    "SpendingPlan",
    "SubjectKind",
    "spending_plan",
]


def spending_plan(
    spec: ExperimentSpec,
    *,
    training_clients: int,
    client_names: Sequence[str] = (),
    records: RecordUse | None = None,
) -> SpendingPlan | None:
    """The plan of a spec; None where nothing is counted as an epsilon with a delta.

    `client_names`: all clients of the federation, the ledger's subjects of `gaussian-local`; a
    projection needs none. `records`: for `record-personalised`, where leaving it out is a
    ValueError; its baseline without noise, `privacy-free`, has no plan. Raises InvalidInputError
    where no record can be used.
    """
    return mechanism_of(spec).spending_plan(
        training_clients=training_clients, client_names=client_names, records=records
    )
