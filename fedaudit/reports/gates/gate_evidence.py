"""What makes a report's figure evidence for a gate, and why one is none.

A figure that rests on the guarantee is worth what the guarantee is worth: nothing without noise or
with noise that anyone can draw again, and only as much as is proven, for the datasets that it is
proven for. Each exception is one that the gate itself must ask for.
"""

from collections.abc import Mapping
from typing import Any, assert_never

from fedaudit.privacy.accounting.mechanism_parameters import known_guarantee_kind
from fedaudit.reports.document.guarantee_facts import condition_of, is_in_force
from fedaudit.spec.gate_figures import GateFigure, Proof
from fedaudit.spec.gates import Gate

_PROVEN: dict[Proof, str] = {
    "fixed radius": "use a fixed radius",
    "exact rates": "use exact rates without a baseline",
}


def doubt(gate: Gate, figure: GateFigure, report: Mapping[str, Any]) -> str | None:
    """Why the guarantee does not make the figure evidence for this gate; None where it does.

    `report` is the JSON document.
    """
    if not figure.rests_on_guarantee:
        return None
    kind = known_guarantee_kind(report["guarantee"]["kind"])
    match kind:
        case None:
            return "the report names no known kind of guarantee, so the figure bounds nothing"
        case "none":
            return "there is no guarantee, so the figure bounds nothing"
        case "heuristic":
            return _not_in_force(gate, report) or _heuristic(gate, figure)
        case "formal":
            return _not_in_force(gate, report) or _conditional(gate, report)
        case _:
            assert_never(kind)


def as_earlier_versions_judged(gate: Gate) -> Gate:
    """The gate as it was decided before reports recorded whether a guarantee is in force.

    For verification alone, which asks whether a report's gates follow from its figures by the rules
    of its time.
    """
    return gate.model_copy(update={"allow_simulation": True, "allow_conditional": True})


def _not_in_force(gate: Gate, report: Mapping[str, Any]) -> str | None:
    if gate.allow_simulation or is_in_force(report):
        return None
    return (
        "the noise was simulated, so the guarantee is not in force and this run protects nobody; "
        "use `noise: release`, or set allow_simulation for research"
    )


def _heuristic(gate: Gate, figure: GateFigure) -> str | None:
    if gate.allow_heuristic:
        return None
    return (
        "the guarantee is heuristic and the gate does not allow that; set allow_heuristic, "
        f"or {_PROVEN[figure.proof]}"
    )


def _conditional(gate: Gate, report: Mapping[str, Any]) -> str | None:
    condition = condition_of(report, gate.figure)
    if gate.allow_conditional or condition is None:
        return None
    if condition_of(report, "log_ratio_max") is None:
        return f"{condition}; use a gate on log_ratio_max with a clip, or set allow_conditional"
    # With several hypotheses that figure is no better evidence.
    return f"{condition}; use one hypothesis, or set allow_conditional"
