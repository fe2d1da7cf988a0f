"""Whether the model may be released, and why not."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.reports.sections.attacks import alarm_words, raised_alarms
from fedaudit.reports.sections.guarantee import condition_of, delta_gives_data_away
from fedaudit.reports.sections.part import GateOutcome
from fedaudit.reports.sections.utility import SENTENCES, is_compared, known_ending, why_not_useful
from fedaudit.reports.verdict.cost import bounds_every_dataset, report_level, sends_nothing
from fedaudit.spec.gates import PLAIN_FIGURES

SIMULATED = (
    "the noise was simulated, so the guarantee is not in force: this run's model is not for "
    "release, and neither is this report, whose figures follow from the training data"
)
_NO_GUARANTEE = "there is no privacy guarantee, so the model may disclose its training data"
_NO_MODEL = "there is no common model to release: each client's own stays with it"
_COUNTS: dict[GateOutcome, str] = {
    "pass": "passed",
    "fail": "failed",
    "insufficient_evidence": "lacked evidence",
}


def release_part(report: Mapping[str, Any]) -> str:
    """The answer, its reasons, and how the training went, from an otherwise complete report.

    The answer is yes only where every reason to say no has been looked for: no attack raised an
    alarm, the model decides something, its guarantee is in force and bounds something, and all
    gates passed.
    """
    against = objections(report)
    outcome = report["gate_outcome"]
    if against:
        answer = f"No: {'; '.join(against)}."
    elif outcome is None:
        answer = (
            "Nobody has said what this model must meet: no gate was set. "
            f"{_guarantee(report)}, and nothing else here stands against a release."
        )
    elif not _judged_by_guarantee(report):
        answer = (
            "Nobody has said how private this model must be: the gates that were set passed "
            f"({_counts(report['gates'])}), and none of them is on its guarantee. "
            f"{_guarantee(report)}."
        )
    else:
        answer = (
            f"Yes, by the gates that were set: {_counts(report['gates'])}. {_guarantee(report)}."
            f"{_allowed(report)}"
        )
    utility = report["utility"]
    return " ".join([answer, _training(utility), *_method(utility), *_beside_constant(report)])


def objections(report: Mapping[str, Any]) -> list[str]:
    """What stands against a release, the most important first."""
    found = [*_alarms(report), _model(report), _protection(report), *_gates(report)]
    return [one for one in found if one is not None]


def _alarms(report: Mapping[str, Any]) -> list[str]:
    """Whatever else is proven or gated: where the claim is wrong, none of that holds."""
    return [alarm_words(kind, alarm) for kind, alarm in raised_alarms(report)]


def _model(report: Mapping[str, Any]) -> str | None:
    if known_ending(report["utility"]["stopped_by"]) == "diverged":
        return "training diverged"
    if not is_compared(report):
        return None
    why = why_not_useful(report)
    if why is None:
        return None
    if report["utility"]["degenerate"]:
        return f"the model is degenerate, it decides nothing: {why}"
    return why


def _protection(report: Mapping[str, Any]) -> str | None:
    guarantee = report["guarantee"]
    if guarantee["kind"] == "none":
        return _NO_MODEL if sends_nothing(report) else _NO_GUARANTEE
    if not guarantee["in_force"]:
        return SIMULATED
    if excludes_nothing(report):
        return (
            f"the guarantee is {guarantee['label']}, and its bound is so large that it excludes "
            "practically nothing"
        )
    if delta_gives_data_away(report):
        return f"a delta of {guarantee['delta']:g} allows somebody's data to be handed over whole"
    if not is_proven(report) and not _judged_by_guarantee(report):
        return _unproven(report)
    return None


def excludes_nothing(report: Mapping[str, Any]) -> bool:
    """Whether the bound, were it in force, is so large that it bounds practically nothing."""
    return report_level(report) in ("nothing", "unbounded")


def is_proven(report: Mapping[str, Any]) -> bool:
    """Whether the guarantee bounds every two datasets, by a proof."""
    figures = ("epsilon_max", "log_ratio_max", "leakage_max")
    stated = [name for name in figures if report["privacy"].get(name) is not None]
    conditional = bool(stated) and condition_of(report, stated[0]) is not None
    return (
        report["guarantee"]["kind"] == "formal" and bounds_every_dataset(report) and not conditional
    )


def _unproven(report: Mapping[str, Any]) -> str:
    label = report["guarantee"]["label"]
    return (
        f"the guarantee is {label} and bounds some datasets only or rests on no proof, and no gate "
        "says that this will do"
    )


def _judged_by_guarantee(report: Mapping[str, Any]) -> bool:
    """Whether a gate that passed is on a figure which rests on the guarantee: where that is not
    proven, the gate allows it."""
    resting = {name for name, row in PLAIN_FIGURES.items() if row.rests_on_guarantee}
    return any(one["outcome"] == "pass" and one["figure"] in resting for one in report["gates"])


_EXCEPTIONS = (
    *("allow_heuristic", "allow_conditional", "allow_degenerate"),
    "allow_personal_models",
)


def _allowed(report: Mapping[str, Any]) -> str:
    """What the gates accept that others would not."""
    flags = [
        name for name in _EXCEPTIONS if any(gate.get(name) for gate in report["spec"]["gates"])
    ]
    return f" Gates of the spec say {', '.join(flags)}." if flags else ""


def _gates(report: Mapping[str, Any]) -> Sequence[str | None]:
    gates, outcome = report["gates"], report["gate_outcome"]
    if outcome in (None, "pass"):
        return []
    worst = next(gate for gate in gates if gate["outcome"] == outcome)
    of = "" if worst["attribute"] is None else f" by {worst['attribute']}"
    word = "failed" if outcome == "fail" else "lack evidence"
    return [f"the gates {word}: {_counts(gates)}; {worst['figure']}{of}: {worst['reason']}"]


def _counts(gates: Sequence[Mapping[str, Any]]) -> str:
    counts = [
        f"{number} {word}"
        for outcome, word in _COUNTS.items()
        if (number := sum(gate["outcome"] == outcome for gate in gates))
    ]
    return ", ".join(counts)


def _guarantee(report: Mapping[str, Any]) -> str:
    return f"The guarantee is {report['guarantee']['label']} and in force"


def _training(utility: Mapping[str, Any]) -> str:
    stated = SENTENCES[utility["stopped_by"]].format(rounds=utility["rounds"])
    stated += f". The best hypotheses are those of round {utility['best_round']}"
    if utility["rounds"] == 0 and utility["stopped_by"] == "rounds":
        stated = "No round was played, as every client trains for itself"
    if utility["validation_loss"] is not None:
        stated += f", with a validation loss of {utility['validation_loss']:.4g}"
    if utility["accuracy"] is not None:
        stated += f" and an accuracy of {utility['accuracy']:.4g}"
    return stated + "."


def _method(utility: Mapping[str, Any]) -> list[str]:
    """Whose models the figures are of, where clients made some of their own."""
    method = utility.get("method")
    if method is None or method["personalised"] is None:
        return []
    return [f"By the method {method['kind']}, {method['personalised']}."]


def _beside_constant(report: Mapping[str, Any]) -> list[str]:
    """What a constant gets on the same rows, and whether training led anywhere."""
    utility = report["utility"]
    found = []
    if utility.get("baseline_accuracy") is not None and utility["accuracy"] is not None:
        found.append(
            f"Always predicting the most frequent class has an accuracy of "
            f"{utility['baseline_accuracy']:.4g}."
        )
    elif utility.get("baseline_loss") is not None:
        found.append(
            "Always predicting the same number, the best there is, has a loss of "
            f"{utility['baseline_loss']:.4g}."
        )
    if utility.get("improved") is False:
        drowned = report["guarantee"]["kind"] != "none"
        why = ": noise drowned what there was to learn" if drowned else ""
        found.append(f"No round was better than the start{why}.")
    return found
