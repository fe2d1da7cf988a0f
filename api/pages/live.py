"""What a page shows of an experiment: newest figures, the time left, and how it ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from api.pages.wording import NONE, cost, figure, small_number, whole
from api.services.report_pages import LiveFigures
from fedaudit.privacy.accounting.privacy_events import GuaranteeKind, adjacency_words
from fedaudit.reports.sections.utility import ENDING_WORDS
from fedaudit.spec.metrics import ROUND_METRICS
from models.tables.experiments import Experiment
from models.values import FairnessRow, RoundRow

Report = Mapping[str, Any]

_CONSTANTS = {"validation_loss": "baseline_loss", "accuracy": "baseline_accuracy"}
"""What a constant prediction has, of each figure of the model."""
_NO_ROUND = "no round is stored yet"
_NOT_VALIDATED = "no round was validated yet"
_LEAKAGE_RESTS_ON = {
    "formal": "formal, within the fixed radius",
    "heuristic": "heuristic: the papers' convention, not proven",
    "none": "nothing is proven",
}
_WHY_ENDED = {
    "worker-lost": (
        "Its workers were lost, again and again.",
        "Retry it. If it happens again, look for workers that run out of memory.",
    ),
    "worker-error": (
        "A worker failed on it.",
        "The worker's log has the details. Retry it once the cause is repaired.",
    ),
    "invalid-data": (
        "The data could not be used with this spec.",
        "Correct the data or the spec, and submit it again.",
    ),
    "diverged": (
        "Training diverged: a loss was no longer a finite number.",
        "Lower training.local.step_size, scale the features, or ask for less noise.",
    ),
    "figures-disagree": (
        "Its fairness figures, computed a second time from the rows, came out differently.",
        "Nothing was published. Please report it, with the attribute and the figure named here.",
    ),
    "budget-exhausted": (
        "The federation's budget had no room left while it ran.",
        "Raise the budget, or ask for fewer rounds or more noise.",
    ),
    "cancelled-by-caller": (
        "A user cancelled it.",
        "What it had spent stays spent. Retry queues the same spec once more.",
    ),
}


@dataclass(frozen=True)
class Reading:
    """One figure; `remark` says what it is, or why it has no value."""

    name: str
    label: str
    value: str
    remark: str


@dataclass(frozen=True)
class GapReadings:
    """The gaps between the groups of one attribute, in the order of ROUND_METRICS."""

    attribute: str
    gaps: tuple[Reading, ...]


def readings(experiment: Experiment, live: LiveFigures, kind: GuaranteeKind) -> list[Reading]:
    """The costs so far, the loss and, of classifiers, the accuracy."""
    found = _costs(experiment, live.newest, kind)
    found.append(_last(live, "validation_loss", "Validation loss"))
    if experiment.spec["training"]["loss"] == "cross-entropy":
        found.append(_last(live, "accuracy", "Accuracy"))
    return found


def gap_readings(experiment: Experiment, live: LiveFigures) -> list[GapReadings]:
    """The newest gaps of each attribute, in the experiment's order."""
    rows = {row.attribute: row for row in live.fairness}
    return [
        GapReadings(name, tuple(_gap(name, metric, rows.get(name)) for metric in ROUND_METRICS))
        for name in experiment.attributes
    ]


def _costs(experiment: Experiment, newest: RoundRow | None, kind: GuaranteeKind) -> list[Reading]:
    if (inputs := experiment.mechanism_inputs) is not None:
        delta, adjacency = small_number(inputs["delta"]), adjacency_words(inputs["adjacency"])
        terms = f"at delta = {delta}, {adjacency}, against the observer that learns most"
        return [_cost("epsilon_max", "Epsilon, largest", newest, terms)]
    if experiment.noise_multiplier is not None:
        return [
            _cost("leakage_max", "Leakage, largest", newest, _LEAKAGE_RESTS_ON[kind]),
            _cost("leakage_median", "Leakage, median", newest, "of a training client"),
        ]
    return [_cost("epsilon_max", "Privacy cost", newest, "")]


def _cost(name: str, label: str, newest: RoundRow | None, remark: str) -> Reading:
    if newest is None:
        return Reading(name, label, NONE, _NO_ROUND)
    value = getattr(newest, name)
    if value is None:
        return Reading(name, label, NONE, newest.reasons.get(name, _NO_ROUND))
    return Reading(name, label, cost(value), remark)


def _last(live: LiveFigures, name: str, label: str) -> Reading:
    if (row := live.validated) is None:
        return Reading(name, label, NONE, _NO_ROUND if live.newest is None else _NOT_VALIDATED)
    reason = row.reasons.get(name, _NOT_VALIDATED)
    return _reading(name, label, getattr(row, name), reason, f"in round {row.round}")


def _gap(attribute: str, metric: str, row: FairnessRow | None) -> Reading:
    name, label = f"{attribute} {metric}", metric.replace("_", " ")
    found = {} if row is None else {one["metric"]: one for one in row.figures}
    if row is None or metric not in found:
        return Reading(name, label, NONE, _NOT_VALIDATED)
    value, reason = found[metric]["value"], found[metric]["reason"]
    return _reading(name, label, value, reason, f"in round {row.round}")


def _reading(
    name: str, label: str, value: float | None, reason: str | None, remark: str
) -> Reading:
    if value is None:
        return Reading(name, label, NONE, reason or "")
    return Reading(name, label, figure(value), remark)


def with_final_figures(found: Sequence[Reading], report: Report) -> list[Reading]:
    """The readings of an experiment that has its report, with the model's figures of the report's
    best round: a round may be validated on a sample, and the last is seldom the best. Costs are
    those of all rounds."""
    utility = report["utility"]
    remark = f"in round {whole(utility['best_round'])}, the best"
    return [
        _reading(
            one.name,
            one.label,
            utility[one.name],
            utility["reasons"].get(one.name),
            remark + _beside(utility, constant),
        )
        if (constant := _CONSTANTS.get(one.name))
        else one
        for one in found
    ]


def _beside(utility: Mapping[str, Any], constant: str) -> str:
    value = utility.get(constant)
    return "" if value is None else f"; the best constant prediction has {figure(value)}"


def final_gaps(report: Report) -> list[GapReadings]:
    """The gaps of the report between the groups of each attribute, with their intervals."""
    return [
        GapReadings(one["attribute"], tuple(_final_gap(one, metric) for metric in ROUND_METRICS))
        for one in report["fairness"]
    ]


def _final_gap(section: Mapping[str, Any], metric: str) -> Reading:
    found = section["metrics"][metric]
    interval, remark = found["interval"], ""
    if interval is not None:
        low, high = figure(interval["low"]), figure(interval["high"])
        remark = f"{low} to {high} ({figure(100 * interval['level'])} %)"
    name = f"{section['attribute']} {metric}"
    return _reading(name, metric.replace("_", " "), found["value"], found["reason"], remark)


def ending_words(report: Report) -> str:
    """How training ended, and which round is the best."""
    utility = report["utility"]
    if not utility["rounds"] and (utility.get("method") or {}).get("sent", "") is None:
        return "Finished without a round: every client trained for itself."
    planned, why = report["spec"]["training"]["rounds"], ENDING_WORDS[utility["stopped_by"]]
    return (
        f"Finished in round {whole(utility['rounds'])} of at most {whole(planned)}: {why}. "
        f"The best is round {whole(utility['best_round'])}."
    )


def why_ended(reason: str | None) -> tuple[str, str]:
    """What happened, and the remedy, for the status_reason of a failure or a cancellation."""
    return _WHY_ENDED.get(reason or "", (f"It ended: {reason or 'no reason was stored'}.", ""))


def time_left(started_at: datetime | None, now: datetime, *, done: int, rounds: int) -> str:
    """Since when a run trains, and how long its other rounds take at that pace; empty before the
    first round. The pace is that of all rounds so far, waiting included. Training may stop early,
    so the time left is the most that it takes at this pace."""
    if started_at is None or done < 1 or now < started_at:
        return ""
    elapsed = now - started_at
    words = f"running for {_length(elapsed)}"
    if done >= rounds:
        return f"{words}, the report is being made"
    return f"{words}, at this pace at most {_length(elapsed * (rounds - done) / done)} more"


def _length(time: timedelta) -> str:
    seconds = max(round(time.total_seconds()), 1)
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
