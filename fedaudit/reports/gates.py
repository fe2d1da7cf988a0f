"""Whether a report meets conditions: pass, fail, or not enough evidence to say.

This is the only place where gates are decided: for reports, for the service's evaluations, and by
whoever verifies a bundle.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.reports.earlier_versions import metric_of
from fedaudit.spec.gates import Gate
from fedaudit.spec.metrics import NOT_IN_REPORT

PASS, FAIL, INSUFFICIENT = "pass", "fail", "insufficient_evidence"

_UTILITY = ("validation_loss", "accuracy")
# These rest on the guarantee; participations are counted, whatever the mechanism.
_GUARANTEED = ("leakage_max", "leakage_median", "epsilon_max")
_PROVEN = {False: "use a fixed radius", True: "use exact rates without a baseline"}
_SIGNS = {"le": "at most", "ge": "at least"}
_EARLY_END = (
    ", for the rounds that were played; validation losses ended the run early, and what is proven "
    "is the larger epsilon of all planned rounds, which the guarantee's statement tells"
)


def evaluate(gates: Sequence[Gate], report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each gate's figure, attribute, op, bound, value, outcome and reason.

    `report` is the JSON document. A figure that is null, a privacy figure without a guarantee, or
    one with a heuristic guarantee that the gate does not allow, is insufficient evidence.
    """
    return [_evaluate(gate, report) for gate in gates]


def without_report(gates: Sequence[Gate], reason: str) -> list[dict[str, Any]]:
    """The same of an experiment that has no report: insufficient evidence, for that reason."""
    return [_found(gate, None, INSUFFICIENT, reason) for gate in gates]


def overall(evaluated: Sequence[Mapping[str, Any]]) -> str | None:
    """The worst outcome: a failure before missing evidence before a pass; None without gates."""
    outcomes = {gate["outcome"] for gate in evaluated}
    return next((one for one in (FAIL, INSUFFICIENT, PASS) if one in outcomes), None)


def _evaluate(gate: Gate, report: Mapping[str, Any]) -> dict[str, Any]:
    value, reason = _look_up(gate, report)
    outcome, why = _judge(gate, value, reason, report)
    return _found(gate, value, outcome, why)


def _found(gate: Gate, value: float | None, outcome: str, reason: str) -> dict[str, Any]:
    return {
        "figure": gate.figure,
        "attribute": gate.attribute,
        "op": gate.op,
        "bound": gate.value,
        "value": value,
        "outcome": outcome,
        "reason": reason,
    }


def _judge(
    gate: Gate, value: float | None, reason: str | None, report: Mapping[str, Any]
) -> tuple[str, str]:
    guarantee = report["guarantee"]
    kind = guarantee["kind"]
    if value is None:
        return INSUFFICIENT, reason or NOT_IN_REPORT
    if gate.figure in _GUARANTEED and kind == "none":
        return INSUFFICIENT, "there is no guarantee, so the figure bounds nothing"
    if gate.figure in _GUARANTEED and kind == "heuristic" and not gate.allow_heuristic:
        return INSUFFICIENT, (
            "the guarantee is heuristic and the gate does not allow that; set allow_heuristic, or "
            + _PROVEN[gate.figure == "epsilon_max"]
        )
    met = value <= gate.value if gate.op == "le" else value >= gate.value
    relation = "is" if met else "is not"
    shown, bound = _apart(value, gate.value)
    sentence = f"{shown} {relation} {_SIGNS[gate.op]} {bound}"
    if gate.figure == "epsilon_max":
        sentence += f", at delta = {guarantee['delta']:g} under {guarantee['adjacency']}"
        sentence += _EARLY_END * (report["utility"]["stopped_by"] == "patience")
    return (PASS if met else FAIL), sentence if reason is None else f"{sentence} ({reason})"


def _apart(value: float, bound: float) -> tuple[str, str]:
    """Both in few digits, or in all of them where few would make different numbers alike."""
    shown = f"{value:.6g}", f"{bound:.6g}"
    return (str(value), str(bound)) if shown[0] == shown[1] and value != bound else shown


def _look_up(gate: Gate, report: Mapping[str, Any]) -> tuple[float | None, str | None]:
    if gate.compares_groups:
        return _fairness_figure(gate, report["fairness"])
    section = report["utility" if gate.figure in _UTILITY else "privacy"]
    return section.get(gate.figure), section["reasons"].get(gate.figure)


def _fairness_figure(
    gate: Gate, sections: Sequence[Mapping[str, Any]]
) -> tuple[float | None, str | None]:
    fitting = [one for one in sections if gate.attribute in (None, one["attribute"])]
    if len(fitting) != 1:
        which = "no attribute" if gate.attribute is None else f"{gate.attribute!r}"
        return None, f"{which} names {len(fitting)} of the report's attributes; name exactly one"
    metric = metric_of(fitting[0], gate.figure)
    return metric["value"], metric["reason"]
