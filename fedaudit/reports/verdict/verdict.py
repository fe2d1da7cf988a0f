"""The verdict: what to decide, what was spent, who is worst off, what to do next."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fedaudit.ledger.statements import Concern
from fedaudit.privacy.guarantees.cost_sentences import GOAL
from fedaudit.reports.sections.attacks import raised_alarms
from fedaudit.reports.sections.guarantee import delta_gives_data_away, is_in_force
from fedaudit.reports.sections.part import VerdictParts
from fedaudit.reports.sections.ranking import another_threshold, misplaced_threshold
from fedaudit.reports.sections.utility import known_ending, why_not_useful
from fedaudit.reports.verdict.release import (
    bounding_exponent,
    cost_part,
    excludes_nothing,
    is_proven,
    release_part,
    report_level,
    sends_nothing,
)
from fedaudit.reports.verdict.worst_off import fairness_part
from fedaudit.spec.gates import Gate
from fedaudit.spec.metrics import FAIRNESS_FIGURES


def verdict_parts(report: Mapping[str, Any]) -> VerdictParts:
    """The four parts, from an otherwise complete report."""
    return VerdictParts(
        release=release_part(report),
        cost=cost_part(report),
        fairness=fairness_part(report),
        next=next(_suggestions(report)),
    )


def verdict(parts: VerdictParts) -> str:
    """All of them in one text."""
    return " ".join((parts.release, parts.cost, parts.fairness, parts.next))


CONCERN_WORDS: dict[Concern, str] = {
    "model-decides-nothing": "its model decides nothing",
    "model-not-shown-useful": "its model is not shown to be better than a constant prediction",
    "model-too-good": "its accuracy is suspiciously high",
    "gates-failed": "its gates failed",
    "gates-lack-evidence": "its gates lack evidence",
    "no-guarantee": "nothing bounds what it reveals",
    "guarantee-not-in-force": "its guarantee is not in force",
    "guarantee-bounds-nothing": "its guarantee bounds practically nothing",
    "guarantee-not-proven": "its guarantee is not proven for all datasets",
    "attack-raised-alarm": "an attack found evidence against its guarantee",
}


def concerns_of(report: Mapping[str, Any]) -> list[Concern]:
    """The concerns, from the report's own outcomes and from its spec."""
    found: list[Concern] = []
    if raised_alarms(report):
        found.append("attack-raised-alarm")
    if report["utility"].get("degenerate"):
        found.append("model-decides-nothing")
    elif why_not_useful(report) is not None:
        found.append("model-not-shown-useful")
    if report["utility"].get("too_good"):
        found.append("model-too-good")
    if report["gate_outcome"] == "fail":
        found.append("gates-failed")
    elif report["gate_outcome"] == "insufficient_evidence":
        found.append("gates-lack-evidence")
    if report["guarantee"]["kind"] == "none":
        found.append("no-guarantee")
    elif not is_in_force(report):
        found.append("guarantee-not-in-force")
    elif excludes_nothing(report):
        found.append("guarantee-bounds-nothing")
    elif not is_proven(report):
        found.append("guarantee-not-proven")
    return found


def _suggestions(report: Mapping[str, Any]) -> Iterator[str]:
    utility, guarantee = report["utility"], report["guarantee"]
    spec = report["spec"]
    noisy = guarantee["kind"] != "none"
    if alarms := raised_alarms(report):
        yield (
            "Release nothing that this mechanism protects, here or elsewhere, until it is known "
            f"why the attack {alarms[0][0]} found more than the guarantee allows: either the noise "
            "or what the ledger charges for it is wrong."
        )
    if known_ending(utility["stopped_by"]) == "diverged":
        yield (
            f"Train again with a step_size below {spec['training']['local']['step_size']:g}"
            + (", or with a clip, so that noise cannot carry the model away." if noisy else ".")
        )
    if misplaced_threshold(utility, who="the model") is not None:
        yield (
            f"{another_threshold(utility, field='decision.threshold')}. A run with it costs what "
            "this one cost; `fedaudit audit` with `--score` and `--threshold` judges scores that "
            "the model gave at any threshold without training."
        )
    if utility.get("degenerate") is True or utility.get("improved") is False:
        yield _a_model_first(report)
    if utility.get("degenerate") is None and "degenerate" in utility:
        held_out = report["data"]["validation_clients"]
        yield (
            f"Hold out more than {held_out} clients, or train longer, until the model is shown to "
            "be better than a constant prediction; before that no other figure decides anything."
        )
    yield from _leaked_outcome(report)
    if sends_nothing(report):
        yield (
            "Train the same with a method that shares what clients learn, and compare the two: "
            "what sharing gains is what its privacy cost is paid for."
        )
    if not noisy:
        yield (
            "Choose a privacy mechanism: without one nothing bounds what the model discloses; "
            "the projection of a spec gives its cost before anything is trained."
        )
    if report_level(report) in ("nothing", "unbounded"):
        yield _a_smaller_cost(report)
    if delta_gives_data_away(report):
        yield "Choose a delta far below one in as many clients or records as train."
    if not guarantee["in_force"]:
        yield (
            "If these figures will do, train the model for release with `noise: release`: noise is "
            "then secret, the guarantee in force, and budgets count it."
        )
    yield from _for_gates(report)
    if report["gate_outcome"] is None:
        yield "Set gates for what the model must meet, so that the next run is judged by them."
    if any(group["suppressed"] for one in report["fairness"] for group in one["groups"]):
        yield (
            "Some groups are suppressed because they are small: hold out more clients, or join "
            "groups, before concluding that everybody is treated alike. Then sign off."
        )
    yield "Read what this report does not show, and sign off."


def _leaked_outcome(report: Mapping[str, Any]) -> Iterator[str]:
    if report["utility"].get("too_good"):
        yield (
            "Make sure that no feature is the outcome in other words, or known only after it: the "
            "profile of the federation names, to those who may read its data, each column that "
            "alone predicts the outcome. Leave such features out and train again; where there is "
            "none, state so by `federation.leak_reviewed`."
        )


def _a_model_first(report: Mapping[str, Any]) -> str:
    spec, guarantee = report["spec"], report["guarantee"]
    if guarantee["kind"] == "none":
        training = spec["training"]
        adam = ", `optimiser: adam`"
        if training["local"]["optimiser"] != "sgd" or "q" in training.get("method", {}):
            adam = ""
        return (
            "Train a model that predicts something first: more rounds than "
            f"{report['utility']['rounds']}, another step_size than "
            f"{training['local']['step_size']:g}{adam}, other features or another model."
        )
    known = report["privacy"].get("noise_multiplier")
    less = "less noise" if known is None else f"a noise_multiplier below {known:g}"
    per_cohort = "a larger cohort, over which the noise is averaged"
    return (
        f"Find settings under which the model learns: {per_cohort}, fewer parameters than "
        f"{report['data']['parameters']}, or {less} at a larger privacy cost; train once with "
        "`mechanism: none` on data of no one to see what there is to learn."
    )


def _a_smaller_cost(report: Mapping[str, Any]) -> str:
    exponent, privacy = bounding_exponent(report), report["privacy"]
    known = report["privacy"].get("noise_multiplier")
    goal = f"a bound of at most {GOAL:g}"
    if exponent is None or known is None or not privacy.get("leakage_max"):
        return (
            f"For {goal}, train with more noise, fewer rounds or a smaller sampling rate; the "
            "projection of a spec gives its cost before anything is trained."
        )
    times = exponent / GOAL
    rounds = max(1, math.floor(privacy["participations_max"] / times))
    # The exponent is proportional to the rounds and inversely so to the noise.
    needed = math.ceil(known * times * 100) / 100
    return (
        f"For {goal}, train with a noise_multiplier of {needed:,g} instead of {known:g}, or let no "
        f"client take part in more than {rounds} rounds; both cost accuracy."
    )


def _for_gates(report: Mapping[str, Any]) -> Iterator[str]:
    yield from (_for_failed(report, one) for one in report["gates"] if one["outcome"] == "fail")
    for gate in report["gates"]:
        if gate["outcome"] == "insufficient_evidence":
            yield f"Give the gate on {gate['figure']} its evidence: {gate['reason']}."


def _for_failed(report: Mapping[str, Any], gate: Mapping[str, Any]) -> str:
    figure = gate["figure"]
    bound = f"{gate['op']} {gate['bound']:g}"
    if figure in FAIRNESS_FIGURES:
        hypotheses = report["spec"]["training"]["hypotheses"]
        several = (
            "two hypotheses, so that groups of clients need not share one model"
            if hypotheses == 1
            else f"other than {hypotheses} hypotheses"
        )
        return (
            f"{figure} has to be {bound}: see which group is worst off above, and try {several}, "
            "more rounds, or features that predict its outcome better."
        )
    rests = Gate.model_validate({"figure": figure, "op": gate["op"], "value": gate["bound"]})
    if (
        rests.judges_model
        or rests.plain_figure is None
        or not rests.plain_figure.rests_on_guarantee
    ):
        return f"{figure} has to be {bound}: try more rounds, another step_size or another model."
    known, value = report["privacy"].get("noise_multiplier"), gate["value"]
    if known is None or not report["privacy"].get("leakage_max") or gate["bound"] <= 0:
        how = "train with more noise, fewer rounds or a smaller sampling rate"
    else:
        needed = math.ceil(known * value / gate["bound"] * 100) / 100
        how = f"train with a noise_multiplier of at least {needed:,g}, or with fewer rounds"
    return f"{figure} has to be {bound}: {how}."
