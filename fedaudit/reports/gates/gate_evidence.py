"""What makes a report's figure evidence for a gate, and why one is none.

Figures of how a model decides are evidence only where it decides something.

A figure that rests on the guarantee is worth what the guarantee is worth: nothing without noise or
with noise that anyone can draw again, and only as much as is proven, for the datasets that it is
proven for. Each exception is one that the gate itself must ask for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never, cast

from fedaudit.privacy.accounting.mechanism_parameters import DECLARED, known_guarantee_kind
from fedaudit.reports.document.attacks.raised_alarms import alarm_words, raised_alarms
from fedaudit.reports.document.checks import value_at
from fedaudit.reports.document.guarantee_facts import (
    beyond_radius,
    condition_of,
    delta_gives_data_away,
    is_in_force,
)
from fedaudit.reports.document.usefulness import is_compared, why_not_useful
from fedaudit.spec.attacks.attack_spec import AttackKind
from fedaudit.spec.gate_figures import AttackFigure, GateFigure, Proof
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


LEAST_POWER = 0.8
"""The chance of an alarm were there half the noise, from which the silence of canaries counts."""
LEAST_LEVEL = 0.95
"""Of an interval that decides."""
LEAST_WITHOUT_NOISE = 0.5
"""The share of images that an attack recovers where nothing protects them, from which its failure
with noise says something of the noise."""
LARGEST_SHARE = 0.25
"""The share of images that an attack may still get past a noise multiplier which is said to
protect."""
_FALSE_POSITIVES = 0.01

Section = Mapping[str, Any]
Report = Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """A figure of one attack; a value of None has its reason."""

    value: float | None
    reason: str | None = None
    weakness: str | None = None
    """Why the value is no evidence that an attacker gets no further."""
    upper: float | None = None
    """The end of its interval up to which it may lie; None where it has none."""


def attack_evidence(figure: AttackFigure, report: Report) -> Evidence:
    """The worst of a figure over the report's attacks of its kind."""
    kind = _KINDS[figure]
    attacks = [one for one in report.get("attacks") or [] if one["kind"] == kind]
    if not attacks:
        return Evidence(None, f"the report has no attack of the kind {kind}")
    found = [_evidence(figure, one, report) for one in attacks]
    known = [one for one in found if one.value is not None]
    if not known:
        return found[0]
    doubts = [one.reason if one.value is None else one.weakness for one in found]
    return Evidence(
        max(cast(float, one.value) for one in known),
        weakness=next((one for one in doubts if one is not None), None),
        upper=max((one.upper for one in known if one.upper is not None), default=None),
    )


def attack_doubt(gate: Gate, report: Report, *, meets: Callable[[float, Gate], bool]) -> str | None:
    """Why a figure of an attack that meets the bound decides nothing; None where it does, and for
    any other figure.

    `meets`: whether a value meets the gate's bound.
    """
    figure = gate.plain_figure
    if figure is None or figure.section != "attacks":
        return None
    found = attack_evidence(cast(AttackFigure, gate.figure), report)
    if found.value is None or (gate.op == "le" and not meets(found.value, gate)):
        return None
    if found.weakness is not None:
        return found.weakness
    if gate.op == "le" and found.upper is not None and not meets(found.upper, gate):
        return (
            f"{found.value:.4g} was found, and by its interval it may be {found.upper:.4g}, which "
            f"is over {gate.value:.6g}; attack more images or records, or set a larger bound"
        )
    return None


_KINDS: Mapping[AttackFigure, AttackKind] = {
    "epsilon_lower_bound": "canaries",
    "membership_tpr_at_1pct": "membership",
    "recovered_share": "gradient-leakage",
    "nu_protecting": "gradient-leakage",
}


def _evidence(figure: AttackFigure, attack: Section, report: Report) -> Evidence:
    if attack["status"] != "done":
        return Evidence(None, attack["reason"] or "an attack was not done")
    match figure:
        case "epsilon_lower_bound":
            return _lower_bound(attack)
        case "membership_tpr_at_1pct":
            return _members_found(attack)
        case "recovered_share":
            return _recovered(attack, report)
        case "nu_protecting":
            return _protecting(attack, report)
        case _:
            assert_never(figure)


def _lower_bound(attack: Section) -> Evidence:
    bounds = _objects(attack, "bounds")
    values = list(_numbers(bounds, "epsilon_lower_bound"))
    if not values:
        return Evidence(None, attack.get("claim_reason") or "the audit by canaries has no bound")
    power = max(_numbers(bounds, "power"), default=None)
    weakness = None
    if power is None or power < LEAST_POWER:
        stated = "no power is stated" if power is None else f"its power is {power:.2g}"
        weakness = (
            f"the audit by canaries would notice too little to be evidence: {stated}, and "
            f"{LEAST_POWER:g} is needed; plant more canaries"
        )
    return Evidence(max(values), weakness=weakness)


def _members_found(attack: Section) -> Evidence:
    """By the way to score rows that finds most of those that the attack tried."""
    at_one = [_at_one_percent(one) for one in (attack, *_objects(attack, "others"))]
    own = at_one[0]
    if own is None:
        return Evidence(None, "the attack states no true positive rate at 1 % of false positives")
    known = [one for one in at_one if one is not None and isinstance(one["tpr"], int | float)]
    if own not in known:
        return Evidence(None, str(own["reason"] or "the true positive rate at 1 % is not known"))
    limits = [_interval(one.get("interval"), level=attack.get("confidence")) for one in known]
    weakness = next((why for why, _ in limits if why is not None), None)
    if attack.get("method") == "threshold":
        weakness = (
            "guessing by the loss alone finds few members at 1 % of false positives, whatever the "
            "model; attack by `likelihood-ratio` or `relative`"
        )
    return Evidence(
        max(float(one["tpr"]) for one in known),
        weakness=weakness,
        upper=max((upper for _, upper in limits if upper is not None), default=None),
    )


def _at_one_percent(rates: Section) -> Section | None:
    found = _objects(rates, "tpr_at_fpr")
    return next((one for one in found if one.get("fpr") == _FALSE_POSITIVES), None)


def _recovered(attack: Section, report: Report) -> Evidence:
    """At the run's own noise, or the nearest smaller one that was tried."""
    own = report["privacy"].get("noise_multiplier") or 0.0
    results = sorted(_objects(attack, "results"), key=lambda one: float(one["noise_multiplier"]))
    tried = [one for one in results if one["noise_multiplier"] <= own]
    if not tried:
        return Evidence(
            None, f"no noise multiplier was tried that is at most the run's own, {own:g}"
        )
    value = next(_numbers(tried[-1:], "recovered_share"), None)
    if value is None:
        return Evidence(None, "without baselines nobody can say which images were recovered")
    weakness, upper = _interval(tried[-1].get("recovered_interval"))
    weakness = _other_than_the_run(attack, report) or _without_noise(results) or weakness
    return Evidence(value, weakness=weakness, upper=upper)


def _other_than_the_run(attack: Section, report: Report) -> str | None:
    """Why the updates attacked are harder than those of the run, or too few to count; None where
    they are neither."""
    if (attack.get("images_per_update") or 1) > 1:
        return (
            "images of one update are recovered or lost together, so their number is no evidence; "
            "attack with `images_per_update: 1`"
        )
    own = bool(report.get("spec", {}).get("privacy", {}).get("per_layer"))
    if bool(attack.get("per_layer")) != own:
        return f"the run has `per_layer: {str(own).lower()}`, and the attack was on other noise"
    if (attack.get("local_steps") or 1) > 1:
        return "one local step reveals more than several; attack with `local_steps: 1`"
    if attack.get("hypothesis") == "trained":
        return (
            "updates of a trained model are shorter beside the same noise than those that the run "
            "sent first; attack with `hypothesis: initial`"
        )
    return None


def _protecting(attack: Section, report: Report) -> Evidence:
    value = next(_numbers([attack], "nu_protecting"), None)
    if value is None:
        why = attack.get("nu_protecting_reason") or "no noise multiplier is known to protect"
        return Evidence(None, str(why))
    weakness, upper = _interval(attack.get("nu_protecting_interval"))
    if weakness is None and upper is not None and upper > LARGEST_SHARE:
        weakness = (
            f"up to {upper:.2g} of images may still be recovered at that noise multiplier, since "
            "few were attacked; attack more"
        )
    results = _objects(attack, "results")
    weakness = _other_than_the_run(attack, report) or _without_noise(results) or weakness
    return Evidence(value, weakness=weakness)


def _without_noise(results: Sequence[Section]) -> str | None:
    """Why the attack is not shown to recover anything; None where it does without noise."""
    bare = [one for one in results if one["noise_multiplier"] == 0]
    share = next(_numbers(bare, "recovered_share"), None)
    if share is not None and share >= LEAST_WITHOUT_NOISE:
        return None
    found = "was not tried without noise" if share is None else f"recovers {share:.2g} without it"
    return (
        f"the attack {found}, so that its failure says nothing of noise; try the noise multiplier "
        f"0, at which it has to recover {LEAST_WITHOUT_NOISE:g} of the images"
    )


def _interval(interval: object, *, level: float | None = None) -> tuple[str | None, float | None]:
    """Why an interval decides nothing, and its upper end. `level`: where it does not say itself."""
    if not isinstance(interval, Mapping):
        return "it has no interval, and a share alone decides nothing", None
    of = interval.get("level", level)
    if of is None or of < LEAST_LEVEL:
        return f"an interval of less than {LEAST_LEVEL:.0%} decides nothing", None
    return None, float(interval["high"])


def _objects(attack: Section, name: str) -> list[Section]:
    found = attack.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _numbers(sections: Sequence[Section], name: str) -> Iterator[float]:
    for one in sections:
        value = one.get(name)
        if isinstance(value, int | float):
            yield float(value)
