"""What a page shows of an experiment: newest figures, curves, the time left, and how it ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from api.pages.wording import NONE, cost, figure, small_number, whole
from api.services.reports.live_figures import LiveFigures
from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.privacy.accounting.privacy_events import adjacency_words
from fedaudit.reports.charts.series import Series
from fedaudit.reports.charts.thinning import kept_places
from fedaudit.reports.document.earlier_versions import metric_of
from fedaudit.reports.document.endings import ON_PAGES
from fedaudit.spec.metrics import METRICS, ROUND_METRICS
from models.tables.experiments import Experiment
from models.values import FairnessRow, RoundRow

_NO_ROUND = "no round is stored yet"
_NOT_VALIDATED = "no round was validated yet"
_LEAKAGE_RESTS_ON = {
    "formal": "formal, within the fixed radius",
    "heuristic": "heuristic: the papers' convention, not proven",
    "none": "nothing is proven",
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
    """The newest gaps between the groups of one attribute, in the order of ROUND_METRICS."""

    attribute: str
    gaps: tuple[Reading, ...]


def readings(experiment: Experiment, live: LiveFigures, kind: GuaranteeKind) -> list[Reading]:
    """The costs so far, the loss and, of classifiers, the accuracy.

    A figure without a value is left out where `live` does not begin with the first round: an
    earlier value then still holds.
    """
    found = _costs(experiment, live.newest, kind)
    found.append(_last(live, "validation_loss", "Validation loss"))
    if experiment.spec["training"]["loss"] == "cross-entropy":
        found.append(_last(live, "accuracy", "Accuracy"))
    return found if live.from_the_start else [one for one in found if one.value != NONE]


def gap_readings(experiment: Experiment, live: LiveFigures) -> list[GapReadings]:
    """The newest gaps of each attribute, in the experiment's order; left out as in `readings`."""
    rows = {row.attribute: row for row in live.fairness}
    return [
        GapReadings(
            attribute,
            tuple(_gap(attribute, metric, rows.get(attribute)) for metric in ROUND_METRICS),
        )
        for attribute in experiment.attributes
        if attribute in rows or live.from_the_start
    ]


def _costs(experiment: Experiment, newest: RoundRow | None, kind: GuaranteeKind) -> list[Reading]:
    inputs = experiment.mechanism_inputs
    if inputs is not None:
        return [_cost("epsilon_max", "Epsilon, largest", newest, _terms(inputs))]
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


def _terms(inputs: Mapping[str, Any]) -> str:
    terms = f"at delta = {small_number(inputs['delta'])}, {adjacency_words(inputs['adjacency'])}"
    return f"{terms}, against the observer that learns most"


def _last(live: LiveFigures, name: str, label: str) -> Reading:
    """The figure of the last round that was validated."""
    row = live.validated
    if row is None:
        return Reading(name, label, NONE, _NO_ROUND if live.newest is None else _NOT_VALIDATED)
    value = getattr(row, name)
    if value is None:
        return Reading(name, label, NONE, row.reasons.get(name, _NOT_VALIDATED))
    return Reading(name, label, figure(value), f"in round {row.round}")


def _gap(attribute: str, metric: str, row: FairnessRow | None) -> Reading:
    name, label = f"{attribute} {metric}", metric.replace("_", " ")
    found = {} if row is None else {one["metric"]: one for one in row.figures}
    if row is None or metric not in found:
        return Reading(name, label, NONE, _NOT_VALIDATED)
    value, reason = found[metric]["value"], found[metric]["reason"]
    if value is None:
        return Reading(name, label, NONE, reason)
    return Reading(name, label, figure(value), f"in round {row.round}")


def as_json(found: Sequence[Reading]) -> list[dict[str, str]]:
    """The readings for a script."""
    return [vars(one) for one in found]


Report = Mapping[str, Any]

_OF_THE_MODEL = ("validation_loss", "accuracy")


def with_final_figures(readings: Sequence[Reading], report: Report) -> list[Reading]:
    """The readings, with the model's figures as the report has them. Costs are those of all
    rounds."""
    utility = report["utility"]
    remark = f"in round {whole(utility['best_round'])}, the best"
    return [
        _figure(one.name, one.label, utility[one.name], utility["reasons"].get(one.name), remark)
        if one.name in _OF_THE_MODEL
        else one
        for one in readings
    ]


def final_gaps(report: Report) -> list[GapReadings]:
    """The gaps between the groups of each attribute, with their intervals."""
    return [
        GapReadings(
            section["attribute"], tuple(_final_gap(section, metric) for metric in ROUND_METRICS)
        )
        for section in report["fairness"]
    ]


def ending_words(report: Report) -> str:
    """How training ended, and which round is the best."""
    utility = report["utility"]
    if not utility["rounds"] and (utility.get("method") or {}).get("sent", "") is None:
        return "Finished without a round: every client trained for itself."
    planned = report["spec"]["training"]["rounds"]
    why = ON_PAGES[utility["stopped_by"]]
    return (
        f"Finished in round {whole(utility['rounds'])} of at most {whole(planned)}: {why}. "
        f"The best is round {whole(utility['best_round'])}."
    )


def _final_gap(section: Mapping[str, Any], metric: str) -> Reading:
    found = metric_of(section, metric)
    interval = found["interval"]
    remark = ""
    if interval is not None:
        low, high = figure(interval["low"]), figure(interval["high"])
        remark = f"{low} to {high} ({figure(100 * interval['level'])} %)"
    name = f"{section['attribute']} {metric}"
    return _figure(name, metric.replace("_", " "), found["value"], found["reason"], remark)


def _figure(name: str, label: str, value: float | None, reason: str | None, remark: str) -> Reading:
    if value is None:
        return Reading(name, label, NONE, reason or "")
    return Reading(name, label, figure(value), remark)


MAX_POINTS = 1000
_MAX_CLUSTERS = 6
"""Colours and dashes there are; the drawings show the extremes of more."""

_CURVES = (
    ("leakage", "Leakage of a client", "so far", ("leakage_max", "leakage_median")),
    ("epsilon", "Epsilon", "spent so far", ("epsilon_max",)),
    ("loss", "Loss", "on held-out clients", ("validation_loss", "selection_loss")),
    ("accuracy", "Accuracy", "share of rows classified rightly", ("accuracy",)),
    ("separation", "Separation of clusters", "below 1: they lie apart", ("separation",)),
)
_LINES = {
    "leakage_max": "largest",
    "leakage_median": "median",
    "epsilon_max": "largest epsilon",
    "validation_loss": "validation loss",
    "selection_loss": "selection loss (for stopping)",
    "accuracy": "accuracy",
    "separation": "separation",
}

Lines = Sequence[tuple[str, Sequence[float | None]]]


def curves(series: Series) -> list[dict[str, Any]]:
    """Name, title, unit (in words), rounds and lines of each curve that has a value.

    Rounds without any value are left out, and of very many rounds all but MAX_POINTS.
    """
    found = [
        _curve(name, title, unit, series.rounds, _figures(series, names))
        for name, title, unit, names in _CURVES
    ]
    for attribute, gaps in series.gaps.items():
        lines = [
            (METRICS[metric].family.words, gaps.values[metric])
            for metric in ROUND_METRICS
            if metric in gaps.values
        ]
        title = f"Gaps between groups of {attribute}"
        found.append(_curve(f"gaps {attribute}", title, "differences of rates", gaps.rounds, lines))
    found += [
        _curve(name, title, unit, series.rounds, lines)
        for name, title, unit, lines in (
            ("clusters", "Uploads in each cluster", "a round", _cluster_sizes(series)),
            ("cluster leakage", "Largest leakage in each cluster", "so far", _leakage(series)),
        )
        if 1 < len(lines) <= _MAX_CLUSTERS
    ]
    return [curve for curve in found if curve["rounds"]]


def _curve(name: str, title: str, unit: str, rounds: Sequence[int], lines: Lines) -> dict[str, Any]:
    shown = [(label, values) for label, values in lines if any(one is not None for one in values)]
    present = [
        place
        for place in range(len(rounds))
        if any(values[place] is not None for _, values in shown)
    ]
    columns = [[values[place] for place in present] for _, values in shown]
    kept = kept_places(columns, most=MAX_POINTS)
    return {
        "name": name,
        "title": title,
        "unit": unit,
        "rounds": [rounds[present[place]] for place in kept],
        "lines": [
            {"name": label, "values": [column[place] for place in kept]}
            for (label, _), column in zip(shown, columns, strict=True)
        ],
    }


def _figures(series: Series, names: Sequence[str]) -> Lines:
    return [(_LINES[name], series.figures[name]) for name in names if name in series.figures]


def _cluster_sizes(series: Series) -> Lines:
    sizes = series.cluster_sizes
    return [
        (f"cluster {place}", [one[place] if place < len(one) else None for one in sizes])
        for place in range(max(map(len, sizes), default=0))
    ]


def _leakage(series: Series) -> Lines:
    return [(f"cluster {cluster}", values) for cluster, values in series.cluster_leakage.items()]


def time_left(started_at: datetime | None, now: datetime, *, done: int, rounds: int) -> str:
    """Words for people; empty before the first round.

    The pace is that of all rounds so far, waiting included. It says nothing of an early end, so the
    time left is the most that it takes at this pace.
    """
    if started_at is None or done < 1 or now < started_at:
        return ""
    elapsed = now - started_at
    words = f"running for {_length(elapsed)}"
    if done >= rounds:
        return f"{words}, the report is being made"
    return f"{words}, at this pace at most {_length(elapsed * (rounds - done) / done)} more"


def _length(time: timedelta) -> str:
    seconds = max(round(time.total_seconds()), 1)
    if seconds < 100:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"


_WHY = {
    "worker-lost": (
        "Its workers were lost, again and again.",
        "Retry it. Where that repeats itself, look for workers that run out of memory.",
    ),
    "worker-error": (
        "A worker failed on it.",
        "The worker's log has the whole story. Retry it once the cause is repaired.",
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
        "Somebody asked for its end.",
        "What it had spent stays spent. Retry queues the same spec once more.",
    ),
}


def why_ended(reason: str | None) -> tuple[str, str]:
    """What happened, and the remedy, for the status_reason of a failure or a cancellation."""
    return _WHY.get(reason or "", (f"It ended: {reason or 'no reason was stored'}.", ""))
