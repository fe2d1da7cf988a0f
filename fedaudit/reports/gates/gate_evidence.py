"""What makes a report's figure evidence for a gate, and why one is none.

Figures of how a model decides are evidence only where it decides something.

A figure that rests on the guarantee is worth what the guarantee is worth: nothing without noise or
with noise that anyone can draw again, and only as much as is proven, for the datasets that it is
proven for. Each exception is one that the gate itself must ask for.
"""

from collections.abc import Mapping
from typing import Any, assert_never

from fedaudit.privacy.accounting.mechanism_parameters import DECLARED, known_guarantee_kind
from fedaudit.reports.checks import value_at
from fedaudit.reports.sections.attacks import alarm_words, raised_alarms
from fedaudit.reports.sections.guarantee import (
    beyond_radius,
    condition_of,
    delta_gives_data_away,
    is_in_force,
)
from fedaudit.reports.sections.utility import is_compared, why_not_useful
from fedaudit.spec.gates import Gate, GateFigure, Proof

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
        case "declared":
            # `declared_doubt` has asked for the trainer's word; this asks what its word bounds.
            return _beyond_radius(gate, report) or _untested(gate, report)
        case "heuristic":
            return (
                _beside_the_ledger(report)
                or _not_in_force(gate, report)
                or _heuristic(gate, figure)
            )
        case "formal":
            return (
                _beside_the_ledger(report)
                or _not_in_force(gate, report)
                or _conditional(gate, report)
            )
        case _:
            assert_never(kind)


def declared_doubt(gate: Gate, report: Mapping[str, Any]) -> str | None:
    """Why a figure of a training elsewhere is no evidence; None where it is, and for any other
    report."""
    if report["guarantee"]["kind"] != DECLARED and not report.get("declared"):
        return None
    if not gate.allow_declared:
        return (
            "the trainer declares it of itself and nobody here saw it; set allow_declared to take "
            "its word"
        )
    found = report.get("contradictions")
    if found:
        return f"what the trainer declares contradicts itself: {found[0]}"
    if (report.get("ledger") or {}).get("rounds") == 0:
        return "no round was declared, so the figure says nothing about the training"
    return None


def delta_doubt(gate: Gate, report: Mapping[str, Any]) -> str | None:
    """Why an epsilon is no evidence, because its delta lets somebody's data be handed over whole;
    None where it does not, and for any other figure.

    Whoever is judged chooses delta, and a larger one makes every epsilon smaller. No gate can allow
    it.
    """
    match gate.figure:
        case "epsilon_max":
            delta = report["guarantee"]["delta"]
        case "sweep_epsilon_max":
            delta = min((one["delta"] for one in report["sweep"]["epsilon"]), default=None)
        case _:
            return None
    if delta is None or not delta_gives_data_away(report, delta=delta):
        return None
    return (
        f"its delta of {delta:g} is not below one in as many units as train, so somebody's data "
        "may be handed over whole at any epsilon; choose a delta far below that"
    )


def declared_words(report: Mapping[str, Any]) -> str:
    """Whose word a figure is, and what is missing from it; empty for reports of runs."""
    if not report.get("declared"):
        return ""
    ledger, words = report["ledger"], ", as declared by the trainer"
    missing, unanswered = ledger["missing_rounds"], ledger["unanswered_reservations"]
    if missing:
        words += f"; {missing} round numbers below {ledger['last_round']} were never declared"
    if unanswered:
        words += f"; {unanswered} reservations were neither declared nor released"
    return words


def sweep_doubt(gate: Gate, report: Mapping[str, Any]) -> str | None:
    """Why a figure of all cells of a sweep is no evidence, because the guarantee of some cell is
    none; None where it is, and for any other figure. The run's own guarantee is another matter."""
    figure = gate.plain_figure
    if figure is None or figure.section != "sweep":
        return None
    section = report["sweep"]
    if "simulation" in section["noises"] and not gate.allow_simulation:
        return "the noise of cells of the sweep was simulated; set allow_simulation for research"
    if "heuristic" in section["guarantees"] and not gate.allow_heuristic:
        return "the guarantee of a cell of the sweep is heuristic; set allow_heuristic"
    if section["conditions"] and not gate.allow_conditional:
        return f"of a cell of the sweep: {section['conditions'][0]}; set allow_conditional"
    return None


def alarm_doubt(gate: Gate, report: Mapping[str, Any], *, met: bool) -> str | None:
    """Why a figure that rests on the guarantee is no evidence, because an attack found evidence
    against that, nor one of attacks that would pass; None where none did, and for any other figure.
    No gate can allow it."""
    figure, alarms = gate.plain_figure, raised_alarms(report)
    if figure is None or not alarms:
        return None
    if not figure.rests_on_guarantee and not (figure.section == "attacks" and met):
        return None
    return f"{alarm_words(*alarms[0])}; find out which of the two is wrong"


def model_doubt(gate: Gate, report: Mapping[str, Any]) -> str | None:
    """Why a figure of how the model decides is no evidence, because the model decides nothing or
    is not shown to; None where it is evidence."""
    if gate.allow_degenerate or not gate.judges_model:
        return None
    why = why_not_useful(report)
    return None if why is None else f"{why}; train a model that is better, or set allow_degenerate"


def personal_doubt(gate: Gate, report: Mapping[str, Any]) -> str | None:
    """Why a figure of what models predict is no evidence, because it is of models that stay with
    clients while a common one may leave that nobody measured; None where it is evidence.

    Otherwise steps that clients take on their own rows would hide what the common model does.
    """
    method = report["utility"].get("method")
    if gate.allow_personal_models or not gate.measures_predictions or method is None:
        return None
    if method["personalised"] is None or method["sent"] is None:
        return None
    return (
        f"by the method {method['kind']} it is of models that held-out clients made of their own "
        "rows, and the common model, which may leave, was not measured; run the same spec without "
        "training.method, or set allow_personal_models where nobody uses the common one"
    )


def as_judged_then(gate: Gate, report: Mapping[str, Any]) -> Gate:
    """The gate as it was decided when the report was made, by what reports of its version record.

    For verification alone, which asks whether a report's gates follow from its figures by the rules
    of its time.
    """
    allowed: dict[str, bool] = {}
    if report["guarantee"].get("in_force") is None:
        allowed |= {"allow_simulation": True, "allow_conditional": True}
    if not is_compared(report):
        allowed["allow_degenerate"] = True
    if "of_common_model" not in (report["utility"].get("method") or {}):
        allowed["allow_personal_models"] = True
    return gate.model_copy(update=allowed)


def deltas_then(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """The report with a delta by which its gates come out as they did when it was made.

    For verification alone. Before reports spoke of attacks no delta was too large for a gate.
    """
    guarantee = report["guarantee"]
    if "attacks" in report or guarantee.get("delta") is None:
        return report
    return {**report, "guarantee": {**guarantee, "delta": 0.0}}


def uncharged_then(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """The report as if loading had computed nothing that is not charged.

    For verification alone. Specs that ask for it are refused, so that a report of one is older than
    that rule.
    """
    if _beside_the_ledger(report) is None:
        return report
    federation = {**report["spec"]["federation"], "standardise": None}
    return {**report, "spec": {**report["spec"], "federation": federation}}


def _beside_the_ledger(report: Mapping[str, Any]) -> str | None:
    """Why no figure of an older report holds whose features followed from everybody's data. No
    gate can allow it."""
    how = value_at(report, "spec", "federation", "standardise")
    if how is None or (how == "client" and report["guarantee"]["unit"] == "client"):
        return None
    return (
        f"by `standardise: {how}` one {report['guarantee']['unit']} moved the features of others, "
        "which no figure of the report counts; train once more with constants under "
        "`federation.scale`"
    )


def _not_in_force(gate: Gate, report: Mapping[str, Any]) -> str | None:
    if gate.allow_simulation or is_in_force(report):
        return None
    return (
        "the noise was simulated, so the guarantee is not in force and this run protects nobody; "
        "use `noise: release`, or set allow_simulation for research"
    )


def _beyond_radius(gate: Gate, report: Mapping[str, Any]) -> str | None:
    """Why a declared leakage bounds some datasets only, by its own figures."""
    if gate.figure not in ("leakage_max", "leakage_median") or gate.allow_conditional:
        return None
    why = beyond_radius(report["privacy"])
    if why is None:
        return None
    return (
        f"{why}; use a gate on log_ratio_max, which needs a fixed radius and a clip, or set "
        "allow_conditional"
    )


def _untested(gate: Gate, report: Mapping[str, Any]) -> str | None:
    """Why a declared figure rests on what nothing tests; reports of earlier versions have none."""
    found = (report["guarantee"].get("conditions") or {}).get(gate.figure)
    if gate.allow_conditional or found is None:
        return None
    return f"{found}; name participants, or set allow_conditional"


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
    if isinstance(report["spec"]["model"].get("start"), Mapping):
        return f"{condition}; start from no artifact, or set allow_conditional"
    if condition_of(report, "log_ratio_max") is None:
        return f"{condition}; use a gate on log_ratio_max with a clip, or set allow_conditional"
    # With several hypotheses that figure is no better evidence.
    return f"{condition}; use one hypothesis, or set allow_conditional"
