"""The figures of rounds, each that is missing with its reason."""

import math
from collections.abc import Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.leakage import ClusterLeakage
from fedaudit.privacy.mechanisms.registry import why_unbounded
from fedaudit.privacy.planning.cost_projection import NO_EPSILON, NO_LEAKAGE
from fedaudit.reports.sections.noised_counts import WITHHELD
from fedaudit.runs.figures import FairnessFigures, RoundFigures
from fedaudit.runs.ledger_writer import RecordedRounds
from fedaudit.runs.run import Run
from fedaudit.spec.metrics import ROUND_METRICS
from fedaudit.training.base.round_records import RoundColumns

_OF_HELD_OUT = ("selection_loss", "validation_loss", "accuracy")
_NOT_VALIDATED = "this round was not validated"
_NOT_FINITE = "the loss is not finite"
_NO_ACCURACY = "the target is a number, so there is no accuracy"
_NOT_FINITE_HYPOTHESIS = "a hypothesis is not finite"
_NO_SEPARATION = "needs two or more hypotheses, and uploads to compare"
_NO_ATTRIBUTE = "fairness.sensitive names no attribute"
_SEVERAL = "fairness.sensitive names several attributes; see the fairness of the round"


def figures_of_rounds(
    run: Run,
    played: RoundColumns,
    recorded: RecordedRounds,
    fairness: Sequence[FairnessFigures],
    *,
    by_cluster: Sequence[Sequence[ClusterLeakage]] | None,
) -> list[RoundFigures]:
    """The figures of rounds that the run's ledger has `recorded`.

    `fairness`: of each attribute in those that were validated; `by_cluster`: by round, None where
    the cost is no leakage.
    """
    inputs, groups = run.ledger.inputs, list(run.groups)
    of_attribute = {one.round: one for one in fairness} if len(groups) == 1 else {}
    noised = run.spec.fairness.noise is not None
    sizes, separated = played.cluster_sizes.tolist(), played.separation.tolist()
    medians, most = recorded.median.tolist(), recorded.most.tolist()
    in_leakage = inputs.cost_kind == "leakage"
    columns = zip(
        played.round.tolist(), played.place.tolist(), played.collapsed.tolist(), strict=True
    )
    found = []
    for at, (round_, place, collapsed) in enumerate(columns):
        reasons: dict[str, str] = {}
        values: dict[str, float | None] = {
            "selection_loss": _at(played.selection_losses, place),
            "validation_loss": _at(played.validation_losses, place),
            "accuracy": _at(played.accuracies, place),
            "separation": _finite(separated[at]),
            "leakage_median": inputs.leakage(medians[at]) if in_leakage else None,
            "leakage_max": inputs.leakage(most[at]) if in_leakage else None,
            "epsilon_max": run.ledger.largest_epsilon(most[at]),
        }
        values |= _gaps_of_round(groups, of_attribute.get(round_), reasons)
        if noised and place >= 0:
            # Whoever was validated is protected, whatever was measured of them.
            values |= dict.fromkeys(_OF_HELD_OUT)
            reasons |= dict.fromkeys(_OF_HELD_OUT, WITHHELD)
        if by_cluster is None:
            reasons["leakage_by_cluster"] = _why_no_cost(inputs)
        plane = played.plane(at)
        if plane is None:
            reasons["plane"] = _plot_unavailable_reason(run, place)
        for name, value in values.items():
            if value is None and name not in reasons:
                reasons[name] = _why_missing(name, place, inputs)
        found.append(
            RoundFigures(
                round=round_,
                cluster_sizes=tuple(sizes[at]),
                collapsed=collapsed,
                leakage_by_cluster=None if by_cluster is None else by_cluster[at],
                plane=plane,
                reasons=reasons,
                **values,
            )
        )
    return found


def _gaps_of_round(
    groups: Sequence[str], fairness: FairnessFigures | None, reasons: dict[str, str]
) -> dict[str, float | None]:
    """The gaps of the only attribute, where there is just one; reasons go into `reasons`."""
    if fairness is None:
        common = _NOT_VALIDATED
        if len(groups) != 1:
            common = _SEVERAL if groups else _NO_ATTRIBUTE
        reasons |= dict.fromkeys(ROUND_METRICS, common)
        return dict.fromkeys(ROUND_METRICS)
    found = {figure["metric"]: figure for figure in fairness.figures}
    reasons |= {name: why for name in ROUND_METRICS if (why := found[name]["reason"])}
    return {name: found[name]["value"] for name in ROUND_METRICS}


def _plot_unavailable_reason(run: Run, place: int) -> str:
    if place < 0:
        return _NOT_VALIDATED
    return run.plot_unavailable_reason or _NOT_FINITE_HYPOTHESIS


def _why_missing(name: str, place: int, inputs: MechanismParameters) -> str:
    if name.startswith(("leakage", "epsilon")):
        return _why_no_cost(inputs)
    if name == "separation":
        return _NO_SEPARATION
    if place < 0:
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


def _at(values: NDArray[np.float64] | None, place: int) -> float | None:
    """The figure at a place; None where there is none, or none that is finite."""
    return None if values is None or place < 0 else _finite(float(values[place]))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
