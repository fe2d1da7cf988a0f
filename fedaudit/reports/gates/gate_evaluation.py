"""Whether a report meets conditions: pass, fail, or insufficient evidence.

This is the only place where gates are decided: for reports, for the service's evaluations, and when
a bundle is verified.
"""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never, cast

from fedaudit.reports.gates.attack_gates import attack_doubt, attack_evidence
from fedaudit.reports.gates.gate_evidence import (
    alarm_doubt,
    declared_doubt,
    declared_words,
    delta_doubt,
    doubt,
    model_doubt,
    personal_doubt,
    sweep_doubt,
)
from fedaudit.reports.gates.noised_gates import noise_doubt, sections_of
from fedaudit.reports.sections.fairness import metric_of
from fedaudit.reports.sections.part import FAIL, INSUFFICIENT, PASS, GateOutcome
from fedaudit.reports.sections.utility import chosen_by_losses, known_ending
from fedaudit.spec.gates import AttackFigure, Gate, GateOp
from fedaudit.spec.metrics import NOT_IN_REPORT

_SIGNS: dict[GateOp, str] = {"le": "at most", "ge": "at least"}
_WORST_FIRST: tuple[GateOutcome, ...] = (FAIL, INSUFFICIENT, PASS)
_EARLY_END = (
    ", for the rounds that were played; validation losses ended the run early, and what is proven "
    "is the larger epsilon of all planned rounds, which the guarantee's statement gives"
)


def evaluate(gates: Sequence[Gate], report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each gate's figure, attribute, op, bound, value, outcome and reason.

    A gate on a figure of groups that names no attribute is one on each of the report's: the worst
    of them decides, and is named.

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
    return next((one for one in _WORST_FIRST if one in outcomes), None)


def _evaluate(gate: Gate, report: Mapping[str, Any]) -> dict[str, Any]:
    names = [section["attribute"] for section in report["fairness"]]
    if gate.compares_groups and gate.attribute is None and len(names) > 1:
        return _worst(
            [_evaluate(gate.model_copy(update={"attribute": name}), report) for name in names]
        )
    value, reason = _look_up(gate, report)
    outcome, why = _judge(gate, value, reason, report)
    return _found(gate, value, outcome, why)


def _worst(of_attributes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What decides of the same gate on several attributes: of equal outcomes the value that is
    furthest beyond the bound, or nearest to it."""

    def place(found: Mapping[str, Any]) -> tuple[int, float]:
        value = found["value"]
        sign = -1 if found["op"] == "le" else 1
        return _WORST_FIRST.index(found["outcome"]), 0.0 if value is None else sign * value

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
    figure = gate.plain_figure
    why_not = (
        declared_doubt(gate, report)
        or sweep_doubt(gate, report)
        or alarm_doubt(gate, report, met=_is_met(value, gate))
        or attack_doubt(gate, report, meets=_is_met)
        or (None if figure is None else doubt(gate, figure, report))
        or delta_doubt(gate, report)
        or noise_doubt(gate, report, meets=_is_met)
        or model_doubt(gate, report)
        or personal_doubt(gate, report)
    )
    if why_not is not None:
        return INSUFFICIENT, why_not
    met = _is_met(value, gate)
    relation = "is" if met else "is not"
    shown, bound = _apart(value, gate.value)
    sentence = f"{shown} {relation} {_SIGNS[gate.op]} {bound}"
    if figure is not None and figure.has_delta:
        sentence += _at_delta(report)
    sentence += declared_words(report) + _whose_models(gate, report)
    return (PASS if met else FAIL), sentence if reason is None else f"{sentence} ({reason})"


def _whose_models(gate: Gate, report: Mapping[str, Any]) -> str:
    """That a figure is of models that do not leave; empty where it is of the one that may."""
    method = report["utility"].get("method")
    if method is None or method["personalised"] is None or not gate.measures_predictions:
        return ""
    return (
        f", of models that held-out clients made of their own rows ({method['kind']}) and not of "
        "the common one"
    )


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
    if figure.section == "attacks":
        found = attack_evidence(cast(AttackFigure, gate.figure), report)
        return found.value, found.reason
    section = report.get(figure.section)
    if section is None:
        return None, report.get(f"{figure.section}_reason") or NOT_IN_REPORT
    return section.get(gate.figure), section["reasons"].get(gate.figure)


def _fairness_figure(
    gate: Gate, sections: Sequence[Mapping[str, Any]]
) -> tuple[float | None, str | None]:
    fitting = sections_of(gate, sections)
    if not fitting:
        which = "sensitive attribute" if gate.attribute is None else f"attribute {gate.attribute!r}"
        return None, f"the report has no {which}"
    metric = metric_of(fitting[0], gate.figure)
    return metric["value"], metric["reason"]
