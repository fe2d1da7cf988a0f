"""Whether the model may be released, and why not."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, assert_never

from fedaudit.number_text import at_most
from fedaudit.privacy.guarantees.cost_sentences import GOAL, MOST
from fedaudit.privacy.mechanisms.registry import bounds_nothing
from fedaudit.reports.gates.gate_evidence import planned_doubt, without_waiver
from fedaudit.reports.gates.gate_results import COSTS
from fedaudit.reports.sections.attacks import alarm_words, raised_alarms
from fedaudit.reports.sections.guarantee import (
    counts_give_data_away,
    delta_gives_data_away,
    is_in_force,
    proven_cost,
)
from fedaudit.reports.sections.part import Answer, AnswerOutcome, AnswerReason, GateOutcome, reason
from fedaudit.reports.sections.ranking import misplaced_threshold, weighted_words
from fedaudit.reports.sections.utility import (
    SENTENCES,
    known_ending,
    personal_method,
    why_not_useful,
)
from fedaudit.reports.verdict.cost import Bound, sends_nothing
from fedaudit.reports.verdict.worst_off import counted_by, requires, unjudged_gap, unsure_gap
from fedaudit.spec.gates import GateOp

SIMULATED = (
    "the noise was simulated, so the guarantee is not in force: this run's model is not for "
    "release, and neither is this report, whose figures follow from the training data"
)
TOO_GOOD = (
    "the model predicts suspiciously well, and nothing says whether the outcome is among the "
    "features"
)
_NO_GUARANTEE = "there is no privacy guarantee, so the model may disclose its training data"
_NO_MODEL = "there is no common model to release: each client's own stays with it"
_COMMON_MODEL = (
    "the figures are of models that stay with clients, and the common model, which may leave, was "
    "not measured; run the same spec without training.method, or say by allow_personal_models in a "
    "gate that it is not used"
)
_NOT_KNOWN_USEFUL = (
    "whether the model is better than always giving the same answer is not known, and no gate says "
    "how good is enough"
)
_GAINS = ("accuracy_over_baseline", "loss_under_baseline")
_ENOUGH: Mapping[str, GateOp] = {
    **dict.fromkeys(
        (*_GAINS, "weighted_accuracy_over_baseline", "accuracy", "balanced_accuracy", "auc"), "ge"
    ),
    **dict.fromkeys(("validation_loss", "brier"), "le"),
}
"""Figures that state how good a model is, and the side on which each is better. Precision or recall
alone is none: a constant can have all of one."""
_EXCEPTIONS = {
    "allow_heuristic": "a heuristic guarantee",
    "allow_conditional": "a guarantee that holds within a condition",
    "allow_degenerate": "a model that decides nothing",
    "allow_personal_models": "figures of clients' own models",
}
_COUNTS: dict[GateOutcome, str] = {
    "pass": "passed",
    "fail": "failed",
    "insufficient_evidence": "lacked evidence",
}


def answer_of(report: Mapping[str, Any]) -> Answer:
    """The answer and its reasons, from an otherwise complete report. It is to release only where
    every reason against it has been checked: no attack raised an alarm, the model decides
    something, its guarantee is in force and bounds something, and all gates passed, one of them on
    the guarantee, and one on how good the model is where no interval shows it. Where gates lack
    evidence, or ask too little, as of a wide gap, nothing is decided."""
    counted, allowed = counted_by(report), judged_by_guarantee(report)
    doubts = counted["counts_doubts"]
    first_of_each = (one for kind in faults(report) for one in islice(kind, 1))
    # A gate on the guarantee allows that it is not proven.
    against = [one for one in first_of_each if not (allowed and one.code == "guarantee-not-proven")]
    gap, missing = unjudged_gap(report), [*_missing(report)]
    if doubts and report["gates"]:
        missing += _doubts(report)
    outcome: AnswerOutcome = "not-decided"
    if against:
        reasons = [*against, *gap]
        if [one.code for one in against] != ["gates-lack-evidence"]:
            outcome = "do-not-release"
    elif gap or missing:
        unsure = unsure_gap(report) if doubts and report["gates"] and not gap else []
        reasons = [*gap, *missing, *unsure]
    else:
        outcome, counts = "release", gate_counts(report["gates"])
        if Bound(report).level == "nearly-all" and Bound(report).of_every_dataset:
            counts += f", although the bound is weak: {Bound(report).in_words}"
        passed = reason("gates-passed", f"by the gates that its submitter set: {counts}")
        reasons = [passed, *_allowed(report), *(unsure_gap(report) if doubts else [])]
    return Answer(outcome=outcome, reasons=reasons, **counted)


def _doubts(report: Mapping[str, Any]) -> Iterator[AnswerReason]:
    """What gates of the submitter do not settle."""
    exponent = Bound(report).exponent
    if exponent is not None and exponent > GOAL:
        yield reason(
            "bound-is-loose",
            f"its bound of {at_most(exponent, digits=4)} lets a guess at a person's data be right "
            f"nearly always: a gate passed it, and it is above {GOAL:g}, the most that is common",
        )
    if not is_known_useful(report):
        yield reason("usefulness-not-known", _NOT_KNOWN_USEFUL)


def _missing(report: Mapping[str, Any]) -> Iterator[AnswerReason]:
    """What was not required of a model against which nothing else speaks."""
    if report["gate_outcome"] is None:
        yield reason("no-gates", "no requirement was set for this model: there are no gates")
    elif not judged_by_guarantee(report):
        words = (
            "no requirement was set for this model's privacy: the gates that were set passed "
            f"({gate_counts(report['gates'])}), and none of them asks for a guarantee that protects"
        )
        yield reason("no-gate-on-guarantee", words)
    else:
        yield from islice(_passed_by_less(report), 1)
    allowed = any(gate.get("allow_personal_models") for gate in report["spec"]["gates"])
    if counted_by(report)["counts_method"] and personal_method(report) and not allowed:
        yield reason("common-model-not-measured", _COMMON_MODEL)


def _passed_by_less(report: Mapping[str, Any]) -> Iterator[AnswerReason]:
    """Gates that earlier versions passed by the rounds that were played, or by the first of several
    seeds."""
    judged = [gate for gate in report["gates"] if gate["op"] == "le" and gate["figure"] in COSTS]
    for gate in judged:
        figure, bound = gate["figure"], gate["bound"]
        if not report.get("repeats"):
            why = planned_doubt(figure, "le", bound, report) if figure == "epsilon_max" else None
            if why is not None:
                yield reason("proven-for-planned-rounds", why)
        elif not figure.startswith("sweep_"):
            value, _ = proven_cost(report, figure)
            if value is None or value > bound:
                words = f"the gate on {figure} is of the first seed, and all seeds cost more"
                yield reason("gate-of-one-seed", words)


def _allowed(report: Mapping[str, Any]) -> list[AnswerReason]:
    """What gates of the spec say will do."""
    gates = report["spec"]["gates"]
    return [
        reason(name.replace("_", "-"), f"gates of the spec allow {words}, by {name}")
        for name, words in _EXCEPTIONS.items()
        if any(gate.get(name) for gate in gates)
    ]


def release_part(report: Mapping[str, Any]) -> str:
    """The answer, its reasons, and how the training went, from an otherwise complete report."""
    found = answer_of(report)
    reasons = "; ".join(one.text for one in found.reasons)
    match found.outcome:
        case "do-not-release":
            answer = f"No: {reasons}."
        case "not-decided":
            answer = f"Not decided: {reasons}."
            if report["gate_outcome"] != "insufficient_evidence":
                answer += f" {_guarantee(report)}, and nothing else here speaks against a release."
        case "release":
            answer = f"Yes, {reasons}. {_guarantee(report)}."
        case _:
            assert_never(found.outcome)
    # Whose word it is that features do not hold the outcome.
    if said := report["spec"]["federation"].get("leak_reviewed"):
        named = "all features" if "*" in said else ", ".join(said)
        answer += f" The spec says by `leak_reviewed` that {named} were checked for the outcome."
    utility, stated = report["utility"], training_words(report)
    if utility["validation_loss"] is not None:
        stated += f", with a validation loss of {utility['validation_loss']:.4g}"
    if utility["accuracy"] is not None:
        stated += f" and an accuracy of {utility['accuracy']:.4g}"
        if utility.get("threshold") not in (None, 0.5):
            stated += f" at the threshold {utility['threshold']:.4g}"
    sentences = [answer, stated + "."]
    method = utility.get("method")
    if method is not None and method["personalised"] is not None:
        sentences.append(f"By the method {method['kind']}, {method['personalised']}.")
    return " ".join([*sentences, *_beside_constant(report)])


def training_words(report: Mapping[str, Any]) -> str:
    """How training ended, without a full stop."""
    utility = report["utility"]
    if utility["rounds"] == 0 and utility["stopped_by"] == "rounds":
        return "No round ran, as every client trains for itself"
    ended = SENTENCES[utility["stopped_by"]].format(rounds=utility["rounds"])
    return f"{ended}. The best hypotheses are those of round {utility['best_round']}"


def faults(report: Mapping[str, Any]) -> list[Iterator[AnswerReason]]:
    """What speaks against a model, kind by kind, the most important first: answers and sign-offs
    state one of each kind."""
    # Alarms first: where the claim is wrong, nothing that is proven or gated holds.
    alarms = [
        iter([reason("attack-raised-alarm", alarm_words(kind, alarm))])
        for kind, alarm in raised_alarms(report)
    ]
    too_good = [reason("model-too-good", TOO_GOOD)] if report["utility"].get("too_good") else []
    return [*alarms, _model(report), iter(too_good), _protection(report), _gates(report)]


def _model(report: Mapping[str, Any]) -> Iterator[AnswerReason]:
    if known_ending(report["utility"]["stopped_by"]) == "diverged":
        yield reason("training-diverged", "training diverged")
    why = why_not_useful(report)
    if why is None:
        return
    if misplaced := misplaced_threshold(report["utility"], who="the model"):
        yield reason("threshold-misplaced", misplaced)
    if report["utility"]["degenerate"]:
        words = f"the model is degenerate, it decides nothing: {why}"
        yield reason("model-decides-nothing", words)
    else:
        yield reason("model-not-shown-useful", why)


def _protection(report: Mapping[str, Any]) -> Iterator[AnswerReason]:
    guarantee = report["guarantee"]
    if guarantee["kind"] == "none":
        if sends_nothing(report):
            yield reason("no-common-model", _NO_MODEL)
        yield reason("no-guarantee", _NO_GUARANTEE)
        return
    if not (guarantee["in_force"] and is_in_force(report)):
        yield reason("guarantee-not-in-force", SIMULATED)
    if Bound(report).excludes_nothing:
        why = Bound(report).no_sum or "its bound is too large to protect anyone"
        if bounds_nothing(guarantee["mechanism"]):
            why = "nothing bounds what the model may disclose"
        words = f"the guarantee is {guarantee['label']}, and {why}"
        yield reason("guarantee-bounds-nothing", words)
    if delta_gives_data_away(report):
        yield reason(
            "delta-gives-data-away",
            f"a delta of {guarantee['delta']:g} allows one person's data to be handed over whole",
        )
    noised, answer = report.get("fairness_privacy"), report.get("answer")
    counts = answer is None or answer.get("can_fail") or answer.get("outcome") == "release"
    if counts and noised is not None and noised["epsilon"] > MOST:
        yield reason(
            "fairness-bounds-nothing",
            f"a fairness.noise.epsilon of {at_most(noised['epsilon'])} is too large to protect any "
            "held-out person",
        )
    if counts_give_data_away(report):
        yield reason(
            "fairness-delta-gives-data-away",
            f"a fairness.noise.delta of {report['fairness_privacy']['delta']:g} allows one "
            "held-out person's data to be handed over whole",
        )
    if not Bound(report).is_proven:
        yield reason(
            "guarantee-not-proven",
            f"the guarantee is {guarantee['label']} and bounds some datasets only or rests on no "
            "proof, and no gate says that this will do",
        )


def is_known_useful(report: Mapping[str, Any]) -> bool:
    """Whether an interval shows how much better than a constant the model is, or a gate that passed
    defines what is good enough."""
    utility = report["utility"]
    shown = any(utility.get(f"{gain}_interval") is not None for gain in _GAINS)
    return shown or any(
        one["outcome"] == "pass"
        and _ENOUGH.get(one["figure"]) == one["op"]
        and requires(report, one)
        for one in report["gates"]
    )


def judged_by_guarantee(report: Mapping[str, Any]) -> bool:
    """Whether a gate that passed bounds from above a figure that rests on the guarantee: where that
    is not proven, the gate allows it. A lower bound on a cost is no requirement."""
    return any(
        one["outcome"] == "pass"
        and one["op"] == "le"
        and one["figure"] in COSTS
        and requires(report, one)
        for one in report["gates"]
    )


def _gates(report: Mapping[str, Any]) -> Iterator[AnswerReason]:
    gates, outcome = report["gates"], report["gate_outcome"]
    if outcome in (None, "pass"):
        return
    worst, *_ = (gate for gate in gates if gate["outcome"] == outcome)
    of = "" if worst["attribute"] is None else f" by {worst['attribute']}"
    failed = outcome == "fail"
    word = "failed" if failed else "lack evidence"
    why, because = why_not_useful(report), f": {without_waiver(worst['reason'])}"
    if why is not None and why in because:
        because = " says nothing of such a model"  # which is the first reason
    yield reason(
        "gates-failed" if failed else "gates-lack-evidence",
        f"the gates {word}: {gate_counts(gates)}; {worst['figure']}{of}{because}",
    )


def gate_counts(gates: Sequence[Mapping[str, Any]]) -> str:
    """How many gates had which outcome, in words."""
    counts = [
        f"{number} {word}"
        for outcome, word in _COUNTS.items()
        if (number := sum(gate["outcome"] == outcome for gate in gates))
    ]
    return ", ".join(counts)


def _guarantee(report: Mapping[str, Any]) -> str:
    return f"The guarantee is {report['guarantee']['label']} and in force"


def _beside_constant(report: Mapping[str, Any]) -> list[str]:
    utility = report["utility"]
    found = []
    if utility.get("baseline_accuracy") is not None and utility["accuracy"] is not None:
        found.append(
            f"Always predicting the most frequent class has an accuracy of "
            f"{utility['baseline_accuracy']:.4g}."
        )
        if weighted := weighted_words(report):
            found.append(weighted)
    elif utility.get("baseline_loss") is not None:
        found.append(
            "Always predicting the same number, the best there is, has a loss of "
            f"{utility['baseline_loss']:.4g}."
        )
    if utility.get("improved") is False:
        found.append("No round was better than the start.")
    return found
