"""What makes a report's figure evidence for a gate, and why one is none."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never, cast

from fedaudit.number_text import at_most
from fedaudit.privacy.accounting.privacy_events import DECLARED, known_guarantee_kind
from fedaudit.reports.sections.attacks import Alarm, alarm_words, raised_alarms
from fedaudit.reports.sections.guarantee import (
    OF_ALL_SEEDS,
    beyond_radius,
    condition_of,
    delta_gives_data_away,
    is_in_force,
)
from fedaudit.reports.sections.utility import (
    chosen_by_losses,
    known_ending,
    personal_method,
    why_not_useful,
)
from fedaudit.spec.attacks import AttackKind, GradientLeakageSpec
from fedaudit.spec.gates import AttackFigure, Gate, GateOp, Proof

_PROVEN: dict[Proof, str] = {
    "fixed radius": "use a fixed radius",
    "exact rates": "use exact rates without a baseline",
}
Section = Mapping[str, Any]
Report = Mapping[str, Any]

_MEETS: Mapping[GateOp, Callable[[float, float], bool]] = {"le": operator.le, "ge": operator.ge}


def is_met(value: float, gate: Gate) -> bool:
    """Whether a value meets the bound of a gate."""
    return _MEETS[gate.op](value, gate.value)


def sections_of(gate: Gate, sections: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The sections of the attributes that a gate may refer to; a single one if it is clear."""
    return [one for one in sections if gate.attribute in (None, one["attribute"])]


def doubt(gate: Gate, value: float, report: Report) -> str | None:
    """Why a figure of this value is no evidence for the gate; None where it is."""
    met = is_met(value, gate)
    return (
        _declared_doubt(gate, report)
        or _tested_doubt(gate, report)
        or _sweep_doubt(gate, report)
        or _alarm_doubt(gate, report, met=met)
        or _attack_doubt(gate, report)
        or _guarantee_doubt(gate, report, met=met)
        or _delta_doubt(gate, report)
        or planned_doubt(gate.figure, gate.op, gate.value, report)
        or _noise_doubt(gate, report)
        or _group_doubt(gate, report, met=met)
        or _model_doubt(gate, report)
        or _personal_doubt(gate, report)
    )


# Each `..._doubt` gives the reason why a figure is no evidence for a gate, and None where it is, or
# where the question does not concern it.


def is_simulated(gate: Gate, report: Report) -> bool:
    """Whether the figure rests on noise that can be drawn again, without the gate's leave."""
    protects = known_guarantee_kind(report["guarantee"]["kind"]) in ("heuristic", "formal")
    rests = protects and gate.plain_figure is not None and gate.plain_figure.rests_on_guarantee
    return rests and not (gate.allow_simulation or is_in_force(report))


def _guarantee_doubt(gate: Gate, report: Report, *, met: bool) -> str | None:
    """Why the guarantee does not make the figure evidence. Such a figure is worth as much as the
    guarantee: nothing without noise or with noise that anyone can draw again, and otherwise only
    what is proven, for the datasets that it is proven for. A gate must ask for each exception
    itself. Secret noise costs what simulated noise would, so a gate that this misses has failed."""
    figure = gate.plain_figure
    if figure is None or not figure.rests_on_guarantee:
        return None
    kind = known_guarantee_kind(report["guarantee"]["kind"])
    match kind:
        case None | "none":
            none = (
                "there is no guarantee" if kind else "the report names no known kind of guarantee"
            )
            return f"{none}, so the figure bounds nothing"
        case "declared":
            # `_declared_doubt` asks for trust in the trainer; this asks what a declaration bounds.
            return None if gate.allow_conditional else _declared_condition(gate, report)
        case "heuristic" | "formal" if is_simulated(gate, report) and (met or gate.op == "ge"):
            return (
                "the noise was simulated, so the guarantee is not in force and this run protects "
                "no one; use `noise: release`, or set allow_simulation for research"
            )
        case "heuristic":
            why = (
                "the guarantee is heuristic and the gate does not allow that; set allow_heuristic, "
                f"or {_PROVEN[figure.proof]}"
            )
            return None if gate.allow_heuristic else why
        case "formal":
            return None if gate.allow_conditional else _condition(gate, report)
        case _:
            assert_never(kind)


def _declared_doubt(gate: Gate, report: Report) -> str | None:
    """Why a figure of training elsewhere is no evidence."""
    if report["guarantee"]["kind"] != DECLARED and not report.get("declared"):
        return None
    if not (gate.allow_declared or gate.require_tested):
        return (
            "the trainer declares it and the service did not observe it; set allow_declared to "
            "trust the trainer"
        )
    if (alarm := (report.get("tests") or {}).get("alarm")) is not None:
        return alarm_words("canaries", Alarm.model_validate(alarm))
    found = report.get("contradictions")
    if found:
        return f"what the trainer declares contradicts itself: {found[0]}"
    if (report.get("ledger") or {}).get("rounds") == 0:
        return "no round was declared, so the figure says nothing about the training"
    return None


def _tested_doubt(gate: Gate, report: Report) -> str | None:
    """Why a figure was not tested, for a gate that demands it."""
    figure = gate.plain_figure
    if not gate.require_tested:
        return None
    if figure is None or not figure.rests_on_guarantee:
        return "tests are of the noise, and say nothing of this figure; leave require_tested out"
    if report.get("declared"):
        tests = report.get("tests")
        if tests is None:
            return "an earlier version made the report, which tested nothing"
        return None if tests["status"] == "tested" else f"not tested: {tests['reason']}"
    bounds = [
        one
        for attack in report.get("attacks") or []
        for one in (attack.get("bounds") or [] if attack["kind"] == "canaries" else [])
    ]
    if any(one["all_clear"] is None for one in bounds):
        return None
    return "not tested: no canaries of sufficient power were in a training beside the run"


_WAIVER = re.compile(
    r"[,;]? (?:or )?set allow_\w+(?: for research| if the common one is not used)?"
)


def without_waiver(reason: str) -> str:
    """A gate's reason in advice: without the name of the field by which the gate would ask for
    less."""
    return _WAIVER.sub("", reason.replace("; set allow_heuristic, or", "; "))


def declared_words(gate: Gate, report: Report) -> str:
    """That a figure is declared, of which round, and what is missing from it; empty for reports of
    runs."""
    if not report.get("declared"):
        return ""
    ledger, words = report["ledger"], ", as declared by the trainer"
    if gate.compares_groups and report["fairness_round"] is not None:
        words += f" in round {report['fairness_round']} of {ledger['last_round']}"
    missing, unanswered = ledger["missing_rounds"], ledger["unanswered_reservations"]
    if missing:
        words += f"; {missing} round numbers below {ledger['last_round']} were never declared"
    if unanswered:
        words += f"; {unanswered} reservations were neither declared nor released"
    return words


def _delta_doubt(gate: Gate, report: Report) -> str | None:
    """Why an epsilon is no evidence: its delta allows one person's data to be handed over. The
    party under judgement chooses delta, and a larger one makes every epsilon smaller. No gate can
    allow it."""
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
        f"its delta of {delta:g} is not below one in as many units as train, so one person's data "
        "may be handed over whole at any epsilon; choose a delta far below that"
    )


def planned_doubt(figure: str, op: str, bound: float, report: Report) -> str | None:
    """Why an epsilon is no evidence for a gate that the rounds that were played meet: validation
    losses ended the run, so only the epsilon of all planned rounds is proven (docs/guarantees.md),
    and that misses the gate or belongs to one cell of a sweep alone."""
    privacy, ended_by = report["privacy"], known_ending(report["utility"]["stopped_by"])
    planned = privacy.get("epsilon_planned")
    if planned is None or op != "le" or not chosen_by_losses(ended_by):
        return None
    if report.get("repeats") and figure in OF_ALL_SEEDS:
        figure = OF_ALL_SEEDS[figure]
    if figure == "epsilon_max" and privacy["epsilon_max"] <= bound < planned:
        return (
            "validation losses ended the run early, and what is proven is the epsilon of all "
            f"planned rounds, {at_most(planned, digits=4)}, which is above the gate of {bound:g}"
        )
    if figure == "sweep_epsilon_max" and report["sweep"][figure] <= bound:
        return (
            "validation losses ended this cell early: for all cells the epsilon of all planned "
            "rounds is proven, which is not known"
        )
    return None


def _sweep_doubt(gate: Gate, report: Report) -> str | None:
    """Why a figure of all cells of a sweep is no evidence: some cell has no guarantee. The run's
    own guarantee does not matter here."""
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


def _alarm_doubt(gate: Gate, report: Report, *, met: bool) -> str | None:
    """Why a figure is no evidence because an attack raised an alarm: one that rests on the
    guarantee, or a figure of attacks that would pass. No gate can allow it."""
    figure, alarms = gate.plain_figure, raised_alarms(report)
    if figure is None or not alarms:
        return None
    if not figure.rests_on_guarantee and not (figure.section == "attacks" and met):
        return None
    return f"{alarm_words(*alarms[0])}; find out which of the two is wrong"


def _model_doubt(gate: Gate, report: Report) -> str | None:
    """Why a figure of the model's decisions is no evidence: the model decides nothing, or is not
    shown to decide anything."""
    return None if gate.allow_degenerate or not gate.judges_model else why_not_useful(report)


def _group_doubt(gate: Gate, report: Report, *, met: bool) -> str | None:
    """Why a gap that meets the bound is no evidence: whom it leaves out could only widen it."""
    sections = sections_of(gate, report["fairness"]) if met and gate.compares_groups else []
    return next((one.get("doubt") for one in sections), None)


def _personal_doubt(gate: Gate, report: Report) -> str | None:
    """Why a figure of predictions is no evidence: its models stay with clients, while a common
    model that was not measured may leave. Otherwise clients' steps on their own rows would hide
    what the common model does."""
    method = personal_method(report)
    if gate.allow_personal_models or not gate.measures_predictions or method is None:
        return None
    return (
        f"by the method {method} it is of models that held-out clients made from their "
        "rows, and the common model, which may leave, was not measured; run the same spec without "
        "training.method, or set allow_personal_models if the common one is not used"
    )


def _noise_doubt(gate: Gate, report: Mapping[str, Any]) -> str | None:
    """Why a figure from counts with noise decides nothing; None where it decides, or has no noise.

    A bound is met where every value in the interval meets it, and missed where none does; where the
    interval reaches across the bound nothing is decided.
    """
    figure = gate.plain_figure
    if report.get("fairness_privacy") is None:
        return None
    interval: Mapping[str, Any] | None
    if figure is None:
        [section] = sections_of(gate, report["fairness"])
        interval = section["metrics"][gate.figure]["interval"]
    elif figure.section == "utility":
        interval = report["utility"].get(f"{gate.figure}_interval")
    else:
        return None
    if interval is None:
        return "the counts have noise, and without an interval a figure decides nothing"
    low, high, level = interval["low"], interval["high"], interval["level"]
    if level < LEAST_LEVEL:
        return (
            f"the counts have noise, and an interval of {level * 100:g}% decides nothing; set "
            f"fairness.intervals.level to {LEAST_LEVEL:g} or more"
        )
    if is_met(low, gate) == is_met(high, gate):
        return None
    return (
        f"the {level * 100:g}% interval from counts with noise, {low:.6g} to {high:.6g}, "
        f"reaches across {gate.value:.6g}; more epsilon or more people narrow it"
    )


def _declared_condition(gate: Gate, report: Report) -> str | None:
    """A declared leakage bounds some datasets only, by its own figures; others rest on something
    untested."""
    why = beyond_radius(report["privacy"])
    if why is not None and gate.figure in ("leakage_max", "leakage_median"):
        return (
            f"{why}; use a gate on log_ratio_max, which needs a fixed radius and a clip, or set "
            "allow_conditional"
        )
    found = (report["guarantee"].get("conditions") or {}).get(gate.figure)
    return None if found is None else f"{found}; name participants, or set allow_conditional"


def _condition(gate: Gate, report: Report) -> str | None:
    condition = condition_of(report, gate.figure)
    if condition is None:
        return None
    # With several hypotheses log_ratio_max is no better evidence.
    remedy = "use one hypothesis"
    if isinstance(report["spec"]["model"].get("start"), Mapping):
        remedy = "start from no artifact"
    elif condition_of(report, "log_ratio_max") is None:
        remedy = "use a gate on log_ratio_max with a clip"
    return f"{condition}; {remedy}, or set allow_conditional"


LEAST_POWER = 0.8
"""The chance of an alarm at half the noise, from which the silence of canaries counts."""
LEAST_LEVEL = 0.95
"""Least level of an interval that decides. The spec under judgement chooses its level, and an
interval at 1 % would be no more than the value."""
LEAST_WITHOUT_NOISE = 0.5
"""The share of images that an attack must recover without noise, for its failure with noise to be
evidence about the noise."""
LARGEST_SHARE = 0.25
"""The share of images that may still be recovered at a noise multiplier that is said to protect."""
_FALSE_POSITIVES = 0.01
_KINDS: Mapping[AttackFigure, AttackKind] = {
    "epsilon_lower_bound": "canaries",
    "membership_tpr_at_1pct": "membership",
    "recovered_share": "gradient-leakage",
    "nu_protecting": "gradient-leakage",
}


@dataclass(frozen=True)
class Evidence:
    """A figure of one attack; where there is none, functions return the reason."""

    value: float
    weakness: str | None = None
    """Why the value is no evidence that an attacker gets no further."""
    upper: float | None = None
    """The upper end of its interval; None if it has none."""


def attack_evidence(figure: AttackFigure, report: Report) -> Evidence | str:
    """The worst of a figure over the report's attacks of its kind, or why there is none."""
    kind = _KINDS[figure]
    attacks = [one for one in report.get("attacks") or [] if one["kind"] == kind]
    if not attacks:
        return f"the report has no attack of the kind {kind}"
    found = [_evidence(figure, one, report) for one in attacks]
    known = [one for one in found if not isinstance(one, str)]
    if not known:
        return found[0]
    doubts = [one if isinstance(one, str) else one.weakness for one in found]
    return Evidence(
        max(one.value for one in known),
        weakness=next((one for one in doubts if one is not None), None),
        upper=max((one.upper for one in known if one.upper is not None), default=None),
    )


def _attack_doubt(gate: Gate, report: Report) -> str | None:
    """Why a figure of an attack that meets the bound decides nothing. The party under judgement
    chooses the attack, and an attack that never finds anything would pass every gate. So a figure
    that meets an upper bound must come from an attack with proven power; one that misses the bound
    decides by itself."""
    figure = gate.plain_figure
    if figure is None or figure.section != "attacks":
        return None
    found = attack_evidence(cast(AttackFigure, gate.figure), report)
    if isinstance(found, str) or (gate.op == "le" and not is_met(found.value, gate)):
        return None
    if found.weakness is not None:
        return found.weakness
    if gate.op == "le" and found.upper is not None and not is_met(found.upper, gate):
        return (
            f"{found.value:.4g} was found, and by its interval it may be {found.upper:.4g}, which "
            f"is over {gate.value:.6g}; attack more images or records, or set a larger bound"
        )
    return None


def _evidence(figure: AttackFigure, attack: Section, report: Report) -> Evidence | str:
    if attack["status"] != "done":
        return str(attack["reason"] or "an attack was not done")
    match figure:
        case "epsilon_lower_bound":
            bounds = attack.get("bounds") or []
            values = _numbers(bounds, "epsilon_lower_bound")
            if not values:
                return str(attack.get("claim_reason") or "the audit by canaries has no bound")
            power = max(_numbers(bounds, "power"), default=None)
            weakness = None
            if power is None or power < LEAST_POWER:
                stated = "no power is stated" if power is None else f"its power is {power:.2g}"
                weakness = (
                    f"the audit by canaries would notice too little to be evidence: {stated}, and "
                    f"{LEAST_POWER:g} is needed; plant more canaries"
                )
            elif all(one.get("all_clear") for one in bounds):
                weakness = f"the audit by canaries is no evidence: {bounds[0]['all_clear']}"
            return Evidence(max(values), weakness=weakness)
        case "membership_tpr_at_1pct":
            return _members_found(attack)
        case "recovered_share":
            return _recovered(attack, report)
        case "nu_protecting":
            return _protecting(attack, report)
        case _:
            assert_never(figure)


def _members_found(attack: Section) -> Evidence | str:
    """Evidence of the scoring method that finds most, among those that the attack tried."""
    own, *others = (
        [one for one in tried.get("tpr_at_fpr") or [] if one["fpr"] == _FALSE_POSITIVES]
        for tried in (attack, *(attack.get("others") or []))
    )
    if not own:
        return "the attack states no true positive rate at 1 % of false positives"
    if own[0]["tpr"] is None:
        return str(own[0]["reason"] or "the true positive rate at 1 % is not known")
    known = [one for found in (own, *others) for one in found if one["tpr"] is not None]
    limits = [_interval(one.get("interval"), level=attack.get("confidence")) for one in known]
    weakness = next((why for why, _ in limits if why is not None), None)
    if attack.get("method") == "threshold":
        weakness = (
            "guessing by the loss alone finds few members at 1 % of false positives, whatever the "
            "model; attack by `likelihood-ratio`"
        )
    return Evidence(
        max(float(one["tpr"]) for one in known),
        weakness=weakness,
        upper=max((upper for _, upper in limits if upper is not None), default=None),
    )


def _recovered(attack: Section, report: Report) -> Evidence | str:
    """At the run's own noise, or the nearest smaller one that was tried."""
    own = report["privacy"].get("noise_multiplier") or 0.0
    results = sorted(attack.get("results") or [], key=lambda one: float(one["noise_multiplier"]))
    tried = [one for one in results if one["noise_multiplier"] <= own]
    if not tried:
        return f"no noise multiplier was tried that is at most the run's own, {own:g}"
    [*values] = _numbers(tried[-1:], "recovered_share")
    if not values:
        return "without baselines it is unknown which images were recovered"
    weakness, upper = _interval(tried[-1].get("recovered_interval"))
    weakness = _other_than_the_run(attack, report) or _without_noise(results) or weakness
    return Evidence(values[0], weakness=weakness, upper=upper)


def _protecting(attack: Section, report: Report) -> Evidence | str:
    values = _numbers([attack], "nu_protecting")
    if not values:
        return str(attack.get("nu_protecting_reason") or "no noise multiplier is known to protect")
    weakness, upper = _interval(attack.get("nu_protecting_interval"))
    if weakness is None and upper is not None and upper > LARGEST_SHARE:
        weakness = (
            f"up to {upper:.2g} of images may still be recovered at that noise multiplier, since "
            "few were attacked; attack more"
        )
    results = attack.get("results") or []
    weakness = _other_than_the_run(attack, report) or _without_noise(results) or weakness
    return Evidence(values[0], weakness=weakness)


def _other_than_the_run(attack: Section, report: Report) -> str | None:
    """Why the attacked updates are harder than the run's, or too few to count."""
    retired = ("images_per_update", "local_steps", "hypothesis")
    if any(attack.get(name) not in (None, *GradientLeakageSpec.usual[name]) for name in retired):
        return "updates of one image and one local step from the start reveal more; attack these"
    own = bool(report.get("spec", {}).get("privacy", {}).get("per_layer"))
    if bool(attack.get("per_layer")) != own:
        return f"the run has `per_layer: {str(own).lower()}`, and the attack was on other noise"
    return None


def _without_noise(results: Sequence[Section]) -> str | None:
    """Why the attack is not shown to recover anything, unless it does without noise."""
    shares = _numbers([one for one in results if one["noise_multiplier"] == 0], "recovered_share")
    if shares and shares[0] >= LEAST_WITHOUT_NOISE:
        return None
    found = f"recovers {shares[0]:.2g} without it" if shares else "was not tried without noise"
    return (
        f"the attack {found}, so that its failure says nothing of noise; try the noise multiplier "
        f"0, at which it has to recover {LEAST_WITHOUT_NOISE:g} of the images"
    )


def _interval(interval: object, *, level: float | None = None) -> tuple[str | None, float | None]:
    """Why an interval decides nothing, and its upper end. `level`: if it does not state its own."""
    if not isinstance(interval, Mapping):
        return "it has no interval, and a share alone decides nothing", None
    of = interval.get("level", level)
    if of is None or of < LEAST_LEVEL:
        return f"an interval of less than {LEAST_LEVEL:.0%} decides nothing", None
    return None, float(interval["high"])


def _numbers(sections: Sequence[Section], name: str) -> list[float]:
    found = [one.get(name) for one in sections]
    return [float(value) for value in found if isinstance(value, int | float)]
