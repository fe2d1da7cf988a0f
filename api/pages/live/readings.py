"""The newest figures of an experiment, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api.pages.wording import NONE, cost, figure, small_number
from api.services.report_pages import LiveFigures
from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.privacy.accounting.privacy_events import adjacency_words
from fedaudit.spec.metrics import ROUND_METRICS
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
