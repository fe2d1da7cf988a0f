"""Whether a report meets conditions: pass, fail, or insufficient evidence.

This is the only place where gates are decided: for reports, for the service's evaluations, and when
a bundle is verified.
"""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from fedaudit.reports.document.earlier_versions import metric_of
from fedaudit.reports.document.endings import chosen_by_losses, known_ending
from fedaudit.reports.document.outcomes import FAIL, INSUFFICIENT, PASS, GateOutcome
from fedaudit.reports.gates.gate_evidence import doubt
from fedaudit.reports.gates.noised_gates import is_noised, noise_doubt, sections_of
from fedaudit.spec.gates import Gate, GateOp
from fedaudit.spec.metrics import NOT_IN_REPORT

_SIGNS: dict[GateOp, str] = {"le": "at most", "ge": "at least"}
_EARLY_END = (
    ", for the rounds that were played; validation losses ended the run early, and what is proven "
    "is the larger epsilon of all planned rounds, which the guarantee's statement gives"
)


def evaluate(gates: Sequence[Gate], report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each gate's figure, attribute, op, bound, value, outcome and reason.

    `report` is the JSON document. A figure that is null, or that its guarantee does not make
    evidence (`gate_evidence.doubt`), is insufficient evidence.
    """
    return [_evaluate(gate, report) for gate in gates]


def without_report(gates: Sequence[Gate], reason: str) -> list[dict[str, Any]]:
    """Like `evaluate`, for an experiment without a report: insufficient evidence, for that
    reason."""
    return [_found(gate, None, INSUFFICIENT, reason) for gate in gates]


def overall(evaluated: Sequence[Mapping[str, Any]]) -> GateOutcome | None:
    """The worst outcome: a failure before missing evidence before a pass; None without gates."""
    outcomes = {gate["outcome"] for gate in evaluated}
    worst_first: tuple[GateOutcome, ...] = (FAIL, INSUFFICIENT, PASS)
    return next((one for one in worst_first if one in outcomes), None)


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
    if value is None:
        return INSUFFICIENT, reason or NOT_IN_REPORT
    figure = gate.plain_figure
    why_not = (
        noise_doubt(gate, report["fairness"], noised=is_noised(report), meets=_is_met)
        if figure is None
        else doubt(gate, figure, report)
    )
    if why_not is not None:
        return INSUFFICIENT, why_not
    met = _is_met(value, gate)
    relation = "is" if met else "is not"
    shown, bound = _apart(value, gate.value)
    sentence = f"{shown} {relation} {_SIGNS[gate.op]} {bound}"
    if figure is not None and figure.has_delta:
        sentence += _at_delta(report)
    return (PASS if met else FAIL), sentence if reason is None else f"{sentence} ({reason})"


def _is_met(value: float, gate: Gate) -> bool:
    match gate.op:
        case "le":
            return value <= gate.value
        case "ge":
            return value >= gate.value
        case _:
            assert_never(gate.op)


def _at_delta(report: Mapping[str, Any]) -> str:
    guarantee = report["guarantee"]
    sentence = f", at delta = {guarantee['delta']:g} under {guarantee['adjacency']}"
    early = chosen_by_losses(known_ending(report["utility"]["stopped_by"]))
    return sentence + _EARLY_END if early else sentence


def _apart(value: float, bound: float) -> tuple[str, str]:
    """Both numbers in few digits, or in all digits where few would make different numbers look
    alike."""
    shown = f"{value:.6g}", f"{bound:.6g}"
    return (str(value), str(bound)) if shown[0] == shown[1] and value != bound else shown


def _look_up(gate: Gate, report: Mapping[str, Any]) -> tuple[float | None, str | None]:
    figure = gate.plain_figure
    if figure is None:
        return _fairness_figure(gate, report["fairness"])
    section = report[figure.section]
    return section.get(gate.figure), section["reasons"].get(gate.figure)


def _fairness_figure(
    gate: Gate, sections: Sequence[Mapping[str, Any]]
) -> tuple[float | None, str | None]:
    fitting = sections_of(gate, sections)
    if len(fitting) != 1:
        which = "no attribute" if gate.attribute is None else f"{gate.attribute!r}"
        return None, f"{which} names {len(fitting)} of the report's attributes; name exactly one"
    metric = metric_of(fitting[0], gate.figure)
    return metric["value"], metric["reason"]
