"""Whether a report meets gates: pass, fail, or insufficient evidence.

This is the only place that decides gates: for reports, for the service's evaluations, and when a
bundle is verified.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from fedaudit.reports.gates.gate_evidence import (
    attack_evidence,
    declared_words,
    doubt,
    is_met,
    sections_of,
)
from fedaudit.reports.gates.gate_results import COSTS, WORST_FIRST, gate_value
from fedaudit.reports.sections.guarantee import proven_cost
from fedaudit.reports.sections.part import FAIL, INSUFFICIENT, PASS
from fedaudit.reports.sections.utility import chosen_by_losses, known_ending
from fedaudit.spec.gates import AttackFigure, Gate, GateOp
from fedaudit.spec.metrics import NOT_IN_REPORT

SIGNS: dict[GateOp, str] = {"le": "at most", "ge": "at least"}
_EARLY_END = (
    ", for the rounds that ran; validation losses ended the run early, and what is proven "
    "is the larger epsilon of all planned rounds, which the guarantee's statement gives"
)


def evaluate(gates: Sequence[Gate], report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each gate's figure, attribute, op, bound, value, outcome and reason. A gate on groups without
    an attribute applies to each attribute of the report: the worst decides, and is named. `report`
    is the JSON document. A figure that is null, or that is no evidence (`gate_evidence.doubt`), is
    insufficient evidence."""
    return [_evaluate(gate, report) for gate in gates]


def without_report(gates: Sequence[Gate], reason: str) -> list[dict[str, Any]]:
    """Like `evaluate`, for an experiment without a report: insufficient evidence, for that
    reason."""
    return [_found(gate, None, INSUFFICIENT, reason) for gate in gates]


def _evaluate(gate: Gate, report: Mapping[str, Any]) -> dict[str, Any]:
    sections = {section["attribute"]: section for section in report["fairness"]}
    if gate.compares_groups and gate.attribute is None and len(sections) > 1:
        worst = _worst(
            [_evaluate(gate.model_copy(update={"attribute": name}), report) for name in sections]
        )
        for name, section in sections.items():
            note = section["metrics"][gate.figure]["reason"]
            if note and name != worst["attribute"]:
                worst["reason"] += f"; by {name}, {note}"
        return worst
    value, reason = _look_up(gate, report)
    outcome, why = _judge(gate, value, reason, report)
    return _found(gate, value, outcome, why)


def _worst(of_attributes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The same gate on several attributes: the worst outcome, then the worst value."""

    def place(found: Mapping[str, Any]) -> tuple[int, float]:
        value = found["value"]
        sign = -1 if found["op"] == "le" else 1
        return WORST_FIRST.index(found["outcome"]), 0.0 if value is None else sign * value

    worst = min(of_attributes, key=place)
    which = f"{worst['attribute']}, the worst of {len(of_attributes)} attributes"
    return {**worst, "reason": f"{which}: {worst['reason']}"}


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
    if (why_not := doubt(gate, value, report)) is not None:
        return INSUFFICIENT, why_not
    figure, met = gate.plain_figure, is_met(value, gate)
    relation = "is" if met else "is not"
    sentence = f"{_beside_bound(gate, value)} {relation} {SIGNS[gate.op]} {gate.value:.15g}"
    if figure is not None and figure.has_delta:
        guarantee = report["guarantee"]
        sentence += f", at delta = {guarantee['delta']:g} under {guarantee['adjacency']}"
        sentence += f", for a {guarantee['unit']}"
        early = chosen_by_losses(known_ending(report["utility"]["stopped_by"]))
        if early and report["privacy"].get("epsilon_planned") is None:
            sentence += _EARLY_END
    for section in sections_of(gate, report["fairness"]) if gate.compares_groups else ():
        sentence += f", against {against}" if (against := section["reference_group"]) else ""
    method = report["utility"].get("method")
    sentence += declared_words(gate, report)
    if method and method["personalised"] is not None and gate.measures_predictions:
        sentence += (
            f", of models that held-out clients made from their rows ({method['kind']}) and not "
            "of the common one"
        )
    return (PASS if met else FAIL), sentence if reason is None else f"{sentence} ({reason})"


def _beside_bound(gate: Gate, value: float) -> str:
    """The figure in the fewest digits, from four on, that neither hide a difference from the bound
    nor, a cost being rounded up, pass a bound that it meets."""
    bound = f"{gate.value:.15g}"
    for digits in range(4, 16) if value != gate.value else ():
        shown = gate_value(gate.figure, value, digits=digits)
        differs = bound not in (shown, f"{value:.{digits}g}")
        if differs and is_met(float(shown), gate) is is_met(value, gate):
            return shown
    return f"{value:.17g}" if value != gate.value else bound


def _look_up(gate: Gate, report: Mapping[str, Any]) -> tuple[float | None, str | None]:
    figure = gate.plain_figure
    if figure is None:
        fitting = sections_of(gate, report["fairness"])
        if not fitting:
            which = f"attribute {gate.attribute!r}" if gate.attribute else "sensitive attribute"
            return None, f"the report has no {which}"
        metric = fitting[0]["metrics"][gate.figure]
        return metric["value"], metric["reason"]
    if figure.section == "attacks":
        found = attack_evidence(cast(AttackFigure, gate.figure), report)
        return (None, found) if isinstance(found, str) else (found.value, None)
    section = report.get(figure.section)
    if section is None:
        return None, report.get(f"{figure.section}_reason") or NOT_IN_REPORT
    if figure.section == "privacy" and gate.figure in COSTS:
        return proven_cost(report, gate.figure)
    return section.get(gate.figure), section["reasons"].get(gate.figure)
