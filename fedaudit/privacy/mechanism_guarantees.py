"""What the mechanism of a spec guarantees, and what the ledger records of it.

Each mechanism answers in a file of its own (`fedaudit.privacy.mechanisms`).
"""

from collections.abc import Sequence

from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind, MechanismParameters
from fedaudit.privacy.guarantees.guarantee import Guarantee
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.plan import ObserverEpsilon, SpendingPlan
from fedaudit.spec.experiment import ExperimentSpec


def guarantee_kind(spec: ExperimentSpec) -> GuaranteeKind:
    """How far the figures of the spec's mechanism are proven."""
    return mechanism_of(spec).guarantee_kind


def mechanism_parameters(
    spec: ExperimentSpec,
    *,
    n: int,
    plan: SpendingPlan | None = None,
    layers: Sequence[int] = (),
) -> MechanismParameters:
    """What the ledger records of the spec's mechanism, for a model of `n` parameters.

    `plan`: the spending plan of a mechanism with an epsilon and a delta; `layers`: parameters of
    each layer, for noise layer by layer. Leaving one out where it is needed is a ValueError, and so
    are layers that do not add up to `n`.
    """
    return mechanism_of(spec).inputs(n=n, plan=plan, layers=layers)


def guarantee_statement(
    spec: ExperimentSpec,
    n: int,
    *,
    epsilons: Sequence[ObserverEpsilon] = (),
    planned: Sequence[ObserverEpsilon] = (),
    layers: Sequence[int] = (),
) -> Guarantee:
    """The guarantee of the spec's mechanism for a model of `n` parameters, in plain language.

    For mechanisms with an epsilon and a delta, `epsilons`: what a run spent; `planned`: what all
    its rounds would have spent, where it ended early by what its models showed. For noise layer by
    layer, `layers`: parameters of each; leaving them out there is a ValueError.
    """
    return mechanism_of(spec).guarantee(n=n, epsilons=epsilons, planned=planned, layers=layers)
