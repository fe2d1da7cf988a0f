"""The figures of one round, each that is missing with its reason."""

import math
from collections.abc import Mapping, Sequence
from typing import assert_never

from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.mechanisms.registry import why_unbounded
from fedaudit.privacy.metric.cluster_leakage import ClusterLeakage
from fedaudit.privacy.planning.cost_projection import NO_EPSILON, NO_LEAKAGE
from fedaudit.reports.sections.noised_fairness import WITHHELD
from fedaudit.runs.figures import FairnessFigures, RoundFigures
from fedaudit.runs.run import Run
from fedaudit.spec.metrics import ROUND_METRICS
from fedaudit.training.base.round_records import RoundRecord

_OF_HELD_OUT = ("selection_loss", "validation_loss", "accuracy")
_NOT_VALIDATED = "this round was not validated"
_NOT_FINITE = "the loss is not finite"
_NO_ACCURACY = "the target is a number, so there is no accuracy"
_NOT_FINITE_HYPOTHESIS = "a hypothesis is not finite"
_NO_SEPARATION = "needs two or more hypotheses, and uploads to compare"
_NO_ATTRIBUTE = "fairness.sensitive names no attribute"
_SEVERAL = "fairness.sensitive names several attributes; see the fairness of the round"


def round_figures(
    run: Run, record: RoundRecord, fairness: Mapping[str, FairnessFigures]
) -> RoundFigures:
    """The figures of the round that the run's ledger has recorded last.

    `fairness`: by attribute, of this round; empty where it was not validated.
    """
    reasons: dict[str, str] = {}
    ledger = run.ledger
    values: dict[str, float | None] = {
        "selection_loss": _finite(record.selection_loss),
        "validation_loss": _finite(record.validation_loss),
        "accuracy": _finite(record.accuracy),
        "separation": _finite(record.separation),
        "leakage_median": ledger.spending.leakage_median(ledger.inputs),
        "leakage_max": ledger.spending.max_leakage(ledger.inputs),
        "epsilon_max": ledger.epsilon_max(),
    }
    values |= _gaps_of_round(run, record, fairness, reasons)
    if run.spec.fairness.noise is not None and record.selection_loss is not None:
        # Whoever was validated is protected, whatever was measured of them.
        values |= dict.fromkeys(_OF_HELD_OUT)
        reasons |= dict.fromkeys(_OF_HELD_OUT, WITHHELD)
    by_cluster = _by_cluster(run)
    if by_cluster is None:
        reasons["leakage_by_cluster"] = _why_no_cost(ledger.inputs)
    if record.plane is None:
        reasons["plane"] = _plot_unavailable_reason(run, record)
    for name, value in values.items():
        if value is None and name not in reasons:
            reasons[name] = _why_missing(name, record, ledger.inputs)
    return RoundFigures(
        round=record.round,
        cluster_sizes=record.cluster_sizes,
        collapsed=record.collapsed,
        leakage_by_cluster=by_cluster,
        plane=record.plane,
        reasons=reasons,
        **values,
    )


def _gaps_of_round(
    run: Run,
    record: RoundRecord,
    fairness: Mapping[str, FairnessFigures],
    reasons: dict[str, str],
) -> dict[str, float | None]:
    """The gaps of the only attribute, where there is just one; reasons go into `reasons`."""
    attributes = list(run.groups)
    common = None
    if len(attributes) != 1:
        common = _SEVERAL if attributes else _NO_ATTRIBUTE
    elif not record.fairness:
        common = _NOT_VALIDATED
    if common is not None:
        reasons |= dict.fromkeys(ROUND_METRICS, common)
        return dict.fromkeys(ROUND_METRICS)
    found = {figure["metric"]: figure for figure in fairness[attributes[0]].figures}
    reasons |= {name: why for name in ROUND_METRICS if (why := found[name]["reason"])}
    return {name: found[name]["value"] for name in ROUND_METRICS}


def _by_cluster(run: Run) -> Sequence[ClusterLeakage] | None:
    if run.by_cluster is None:
        return None
    return run.by_cluster.leakage(run.ledger.inputs.leakage)


def _plot_unavailable_reason(run: Run, record: RoundRecord) -> str:
    if record.selection_loss is None:
        return _NOT_VALIDATED
    return run.plot_unavailable_reason or _NOT_FINITE_HYPOTHESIS


def _why_missing(name: str, record: RoundRecord, inputs: MechanismParameters) -> str:
    if name.startswith(("leakage", "epsilon")):
        return _why_no_cost(inputs)
    if name == "separation":
        return _NO_SEPARATION
    if record.selection_loss is None:
        return _NOT_VALIDATED
    return _NO_ACCURACY if name == "accuracy" else _NOT_FINITE


def _why_no_cost(inputs: MechanismParameters) -> str:
    match inputs.cost_kind:
        case "epsilon":
            return NO_LEAKAGE
        case "leakage":
            return NO_EPSILON
        case "unbounded":
            return why_unbounded(inputs)
        case _:
            assert_never(inputs.cost_kind)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
