"""The verdict: what to decide, what was spent, who is worst off, what to do next."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from fedaudit.fairness.disclosure import PROTECTS
from fedaudit.fairness.scored_groups import EARLIER
from fedaudit.ledger.statements import Concern
from fedaudit.reports.gates.gate_evaluation import SIGNS
from fedaudit.reports.gates.gate_evidence import without_waiver
from fedaudit.reports.sections.attacks import raised_alarms
from fedaudit.reports.sections.guarantee import counts_give_data_away, delta_gives_data_away
from fedaudit.reports.sections.outcome_words import alternatives
from fedaudit.reports.sections.part import PART_TITLES, Advice, Answer, VerdictParts, reason
from fedaudit.reports.sections.ranking import misplaced_threshold, weighted_words
from fedaudit.reports.sections.utility import known_ending, why_not_useful
from fedaudit.reports.verdict.advice import (
    PROPOSAL,
    better_model,
    better_threshold,
    longer_training,
    smaller_cost,
)
from fedaudit.reports.verdict.advised_run import listed
from fedaudit.reports.verdict.cost import Bound, cost_part, sends_nothing
from fedaudit.reports.verdict.release import (
    answer_of,
    faults,
    is_known_useful,
    judged_by_guarantee,
    release_part,
)
from fedaudit.reports.verdict.worst_off import by_unevenness, fairness_part
from fedaudit.spec.experiment import Decision
from fedaudit.spec.gates import Gate
from fedaudit.spec.metrics import FAIRNESS_FIGURES

_SIGN_OFF = "Read what this report does not show, and decide whether to sign off."
_PROTECTING = " (to protect a smaller one, or rows in no group)"
_ADVICE = 2
"""Suggestions that are shown."""


def judged(report: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an otherwise complete report that say what to think of it. The next step is the
    most important one, and what follows it."""
    first, *others = islice(_suggestions(report), _ADVICE)
    # Signing off comes after what has still to be done.
    following = [first.text, *(one.text for one in others if one.text != _SIGN_OFF)]
    parts = VerdictParts(
        release=release_part(report),
        cost=cost_part(report),
        fairness=fairness_part(report),
        next=" ".join(following),
    )
    return {**verdict(answer_of(report), parts), "advice": first.model_dump(mode="json")}


def verdict(answer: Answer, parts: VerdictParts) -> dict[str, Any]:
    """The answer and the four parts as fields of a report, the parts in one text too."""
    found = parts.model_dump(mode="json")
    return {
        "answer": answer.model_dump(mode="json"),
        "verdict": " ".join(found[name] for name in PART_TITLES),
        "verdict_parts": found,
    }


CONCERN_WORDS: dict[Concern, str] = {
    "attack-raised-alarm": "an attack found evidence against its guarantee",
    "model-decides-nothing": "its model decides nothing",
    "model-not-shown-useful": "its model is not shown to be better than a constant prediction",
    "model-too-good": "its accuracy is suspiciously high",
    "gates-failed": "its gates failed",
    "gates-lack-evidence": "its gates lack evidence",
    "no-guarantee": "nothing bounds what it reveals",
    "guarantee-not-in-force": "its guarantee is not in force",
    "guarantee-bounds-nothing": "its guarantee bounds too little to protect anyone",
    "guarantee-not-proven": "its guarantee is not proven for all datasets",
}
"""Concerns in the order in which a sign-off states them."""
_REASON_WORDS = CONCERN_WORDS | {
    "training-diverged": "its training diverged",
    "threshold-misplaced": "at its threshold it gives nearly everyone the same answer",
    "no-common-model": "each client's model stays with it",
    "delta-gives-data-away": "its delta allows one person's data to be handed over",
    "fairness-bounds-nothing": "its fairness.noise.epsilon bounds too little to protect anyone",
    "fairness-delta-gives-data-away": "its fairness.noise.delta allows the same of held-out people",
    "no-gates": "it has no gates",
    "gap-not-judged": "a gap between groups is wide, and no gate judges it",
    "gap-not-known": "how far groups are apart is not known",
    "no-gate-on-guarantee": "none of its gates asks for a guarantee that protects",
    "bound-is-loose": "its bound lets a guess be right nearly always",
    "common-model-not-measured": "its common model, which may leave, was not measured",
    "usefulness-not-known": "it is not known whether its model is better than a constant",
    "gap-may-be-wide": "a gap between groups may be wide, and no gate judges it",
    "gates-passed": "its gates passed",
    "proven-for-planned-rounds": "what is proven for all planned rounds is above a gate",
    "gate-of-one-seed": "a gate on its cost is of one of its seeds",
    "allow-heuristic": "a heuristic guarantee was allowed",
    "allow-conditional": "a guarantee within a condition was allowed",
    "allow-degenerate": "a model that decides nothing was allowed",
    "allow-personal-models": "figures of clients' own models were allowed",
}


def answer_by_codes(report: Mapping[str, Any]) -> Answer:
    """The answer for readers of experiments who may not read reports: without a figure of one."""
    found = answer_of(report)
    reasons = [reason(one.code, _REASON_WORDS[one.code]) for one in found.reasons]
    return found.model_copy(update={"reasons": reasons})


def concerns_of(report: Mapping[str, Any]) -> list[Concern]:
    """What a sign-off states: of each kind of fault the first that is a concern."""
    found = {
        code
        for kind in faults(report)
        for code in islice((one.code for one in kind if one.code in CONCERN_WORDS), 1)
    }
    return [one for one in CONCERN_WORDS if one in found]


def _suggestions(report: Mapping[str, Any]) -> Iterator[Advice]:
    """The most important first."""
    if alarms := raised_alarms(report):
        yield Advice(
            text="Release nothing that this mechanism protects, here or elsewhere, until it is "
            f"known why the attack {alarms[0][0]} found more than the guarantee allows: either the "
            "noise or what the ledger charges for it is wrong."
        )
    yield from _of_the_model(report)
    groups, cost = _of_groups(report), _of_the_cost(report)
    yield from chain(cost, groups) if report["guarantee"]["kind"] == "none" else chain(groups, cost)
    yield from _for_gates(report)
    yield from (Advice(text=text) for text in _before_signing(report))


def _of_the_model(report: Mapping[str, Any]) -> Iterator[Advice]:
    utility = report["utility"]
    ranks = _needs_another_threshold(utility)
    if ranks:
        yield better_threshold(report)
    if "degenerate" in utility and not sends_nothing(report):
        useless = utility["degenerate"] is not False or utility.get("improved") is False
        if useless or known_ending(utility["stopped_by"]) == "diverged":
            better = better_model(report)
            if better.changes or not ranks:
                yield better
        elif not report["guarantee"]["in_force"] and (longer := longer_training(report)):
            yield longer
    if utility.get("too_good"):
        yield Advice(
            text="Make sure that no feature is the outcome in other words, or known only after it: "
            "the profile of the federation names, to those who may read its data, each column that "
            "alone predicts the outcome. Leave such features out and train again; where there is "
            "none, state so by `federation.leak_reviewed`."
        )


def _needs_another_threshold(utility: Mapping[str, Any]) -> bool:
    """Whether the threshold is misplaced and scores may be near enough to probabilities for another
    one: the loss is not above a constant's; where no threshold was declared yet, it is not shown
    to be."""
    if misplaced_threshold(utility, who="the model") is None:
        return False
    gain, interval = (utility.get(f"loss_under_baseline{end}") for end in ("", "_interval"))
    if utility["threshold"] == Decision().threshold and interval is not None:
        gain = interval["high"]
    return gain is None or gain >= 0


def _of_groups(report: Mapping[str, Any]) -> Iterator[Advice]:
    """Where groups fare too differently, or none can be compared."""
    for gate in _failed(report):
        if gate["figure"] in FAIRNESS_FIGURES:
            yield _for_failed(report, gate)
    sections = report["fairness"]
    if any(map(_hidden_groups, sections)) and not by_unevenness(sections):
        why = {metric["reason"] for one in sections for metric in one["metrics"].values()}
        how = f": {_larger_groups(report, sections)}."
        if any(EARLIER in (reason or "") for reason in why):
            how = (
                f" beside {EARLIER}: keep to its edges, categories, rules and split, and leave out "
                "no other rows; `missing: constant` keeps those that `drop-row` leaves out."
            )
        yield Advice(text=f"No groups can be compared{how}")


def _hidden_groups(section: Mapping[str, Any]) -> str:
    """Its hidden groups by name, as `age >=90 or 80 to <90 (to protect ...)`; '' without any."""
    hidden = [
        (one.get("label") or one["value"]) + _PROTECTING * (PROTECTS in str(one["reasons"]))
        for one in section["groups"]
        if one["suppressed"]
    ]
    return f"{section['attribute']} {alternatives(hidden)}" if hidden else ""


def _larger_groups(report: Mapping[str, Any], sections: Sequence[Mapping[str, Any]]) -> str:
    """How groups get larger. Where all clients train, rows of each are held out. Of an attribute
    that is cut no values can be joined."""
    by_rows = report["spec"]["federation"].get("validation_unit") == "record"
    ways = [f"hold out more {'rows' if by_rows else 'clients'}"]
    names = {name for one in sections for name in one["intersection_of"] or [one["attribute"]]}
    cut = sorted(names & (report["spec"]["fairness"].get("edges") or {}).keys())
    if joined := sorted(names.difference(cut)):
        ways.append(f"join values of {', '.join(joined)} by `fairness.groups`")
    if cut:
        ways.append(f"cut {', '.join(cut)} at fewer `fairness.edges`")
    return alternatives(ways)


def _failed(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in report["gates"] if one["outcome"] == "fail"]


def _of_the_cost(report: Mapping[str, Any]) -> Iterator[Advice]:
    guarantee = report["guarantee"]
    if sends_nothing(report):
        yield Advice(
            text="Train the same with a method that shares what clients learn, and compare the "
            "two: what sharing gains is what its privacy cost is paid for."
        )
    none = Bound(report).exponent is None
    if Bound(report).no_sum:
        yield Advice(text="Train one seed: leave out `repeats`.")
    elif none:
        which = "another" if guarantee["kind"] == "heuristic" else "a"
        yield Advice(
            text=f"Choose {which} privacy mechanism: without one that is counted nothing bounds "
            f"what the model discloses. {PROPOSAL}"
        )
    elif Bound(report).level in ("nothing", "unbounded"):
        yield smaller_cost(report)
    if delta_gives_data_away(report):
        yield Advice(text="Choose a delta far below one in as many clients or records as train.")
    if counts_give_data_away(report):
        yield Advice(
            text="Choose a fairness.noise.delta far below one in as many clients or rows as are "
            "held out, or `discrete-laplace`, which has none."
        )
    useless = report["utility"].get("degenerate", False) is not False
    failing = [*_failed(report), *_of_groups(report)]
    if not (guarantee["in_force"] or none or useless or failing):
        gates = "" if report["gates"] else "set gates for what the model must meet, and "
        yield Advice(
            text=f"If these figures will do, {gates}train the model for release with "
            "`noise: release`: noise is then secret, the guarantee in force, and budgets count it.",
            changes=listed({"/privacy/noise": "release"}),
        )


def _before_signing(report: Mapping[str, Any]) -> Iterator[str]:
    in_force = report["guarantee"]["in_force"]
    following = f"so that the next run{', which costs as much again,' * in_force} is judged by"
    if report["gate_outcome"] is None:
        if in_force:
            policy = "`fedaudit gate` with a policy judges this one"
            yield f"Set gates for what the model must meet, {following} them; {policy}."
    elif not judged_by_guarantee(report):
        yield f"Set a gate on its privacy too, {following} it."
    elif not is_known_useful(report):
        yield (
            "Set a gate on how good the model has to be, such as accuracy_over_baseline or auc, "
            f"{following} it."
        )
    sections = report["fairness"]
    hidden = [one for one in sections if _hidden_groups(one)]
    if hidden and by_unevenness(sections):
        yield (
            "Some groups are hidden because they are small, or to protect others that are: "
            f"{'; '.join(map(_hidden_groups, hidden))}. Before concluding that everybody is "
            f"treated alike, {_larger_groups(report, hidden)}."
        )
    yield _SIGN_OFF


def _for_gates(report: Mapping[str, Any]) -> Iterator[Advice]:
    misplaced = _needs_another_threshold(report["utility"])
    for gate in _failed(report):
        has_its_advice = misplaced and gate["figure"] in _AT_THE_THRESHOLD
        if gate["figure"] not in FAIRNESS_FIGURES and not has_its_advice:
            yield _for_failed(report, gate)
    why = why_not_useful(report)
    for gate in report["gates"]:
        of_the_model = why is not None and why in gate["reason"]  # which has its advice
        if gate["outcome"] == "insufficient_evidence" and not of_the_model:
            reason = without_waiver(gate["reason"])
            yield Advice(text=f"The gate on {gate['figure']} lacks evidence: {reason}.")


_AT_THE_THRESHOLD = ("accuracy", "accuracy_over_baseline", "balanced_accuracy", "prediction_share")


def _for_failed(report: Mapping[str, Any], gate: Mapping[str, Any]) -> Advice:
    figure = gate["figure"]
    bound = f"{SIGNS[gate['op']]} {gate['bound']:g}"
    if figure in FAIRNESS_FIGURES:
        return Advice(text=f"{figure} has to be {bound}: {_fairer(report, gate)}.")
    rests = Gate.model_validate({"figure": figure, "op": gate["op"], "value": gate["bound"]})
    if rests.measures_predictions:
        how = "try more rounds, another step_size or another model"
        if figure == "accuracy" and weighted_words(report):
            how = (
                "accuracy counts all errors alike, and the threshold does not, so set the gate on "
                f"weighted_accuracy_over_baseline or balanced_accuracy; or {how}"
            )
        return Advice(text=f"{figure} has to be {bound}: {how}.")
    if gate["bound"] > 0 and gate["op"] == "le" and figure in _BY_NOISE:
        cheaper = smaller_cost(report, goal=gate["bound"], figure=figure)
        return cheaper.model_copy(update={"text": f"{figure} has to be {bound}. {cheaper.text}"})
    found = rests.plain_figure
    is_count = found is not None and found.section == "privacy" and not found.rests_on_guarantee
    how = ("" if is_count else "more noise, ") + "fewer rounds or a smaller sampling rate"
    return Advice(text=f"{figure} has to be {bound}: train with {how}.")


def _fairer(report: Mapping[str, Any], gate: Mapping[str, Any]) -> str:
    """What to try where groups differ by more than a gate allows, or seem to."""
    hypotheses = report["spec"]["training"]["hypotheses"]
    several = (
        "two hypotheses, so that groups of clients need not share one model"
        if hypotheses == 1
        else f"other than {hypotheses} hypotheses"
    )
    how = (
        f"see which group is worst off above, and try {several}, more rounds, or features that "
        "predict its outcome better"
    )
    sections = [one for one in report["fairness"] if gate["attribute"] in (None, one["attribute"])]
    intervals = [one["metrics"][gate["figure"]]["interval"] for one in sections]
    if not any(one and one["low"] <= gate["bound"] <= one["high"] for one in intervals):
        return how
    return (
        f"its interval has {gate['bound']:g} in it, so few people may be why: "
        f"{_larger_groups(report, sections)}. Otherwise {how}"
    )


_BY_NOISE = ("epsilon_max", "leakage_max", "log_ratio_max")
