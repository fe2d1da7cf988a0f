"""Whether the published figures of an audit fit one another, without the rows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.gaps import comparable, rate_gaps, spread
from fedaudit.judgement import Gained, judge_model
from fedaudit.reports.checks import Check, check, shown
from fedaudit.spec.metrics import METRICS, RATES

_DIGITS = 1e-9
"""Figures that were made from counts are made anew from quotients of them; what differs by less is
found by the signature alone."""
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
_Figures = Mapping[str, Any]


def compared(name: str, wrong: Any, *, good: str, bad: str) -> Check:
    try:
        found = wrong()
    except _MALFORMED:
        return check(name, False, good="", bad="the report lacks figures, or has them malformed")
    return check(name, not found, good=good, bad=f"{bad}: {'; '.join(found[:3])}")


def of_sections(report: Mapping[str, Any], wrong: Any, *, exact: bool) -> list[str]:
    return [
        f"{text} by {section['attribute']}"
        for section in report["fairness"]
        for text in wrong(section, exact=exact)
    ]


def wrong_rates(section: _Figures, *, exact: bool) -> Iterator[str]:
    for group in section["groups"]:
        place = shown(group["value"])
        figures = {name: group[name] for name in (*RATES, "accuracy", "accuracy_over_baseline")}
        if group["suppressed"]:
            hidden = {**figures, "auc": group.get("auc")}
            yield from (f"{name} of {place}" for name, one in hidden.items() if one is not None)
            continue
        selected, right, false = (
            figures[name]
            for name in ("selection_rate", "true_positive_rate", "false_positive_rate")
        )
        if None not in (selected, right, false):
            low, high = min(right, false), max(right, false)
            if not low - _DIGITS <= selected <= high + _DIGITS:
                yield f"selection_rate of {place}"
            elif exact and not _is_possible(figures["accuracy"], selected, right, false):
                yield f"accuracy of {place}"
        if not _is_gain(group):
            yield f"accuracy_over_baseline of {place}"


def _is_possible(accuracy: float | None, selected: float, right: float, false: float) -> bool:
    """Whether so many predictions can be right: no more than have the favourable outcome right,
    whose share follows from the three rates."""
    spread_of_rates = right - false
    if accuracy is None or abs(spread_of_rates) < 1e-6:
        return True
    favourable = (selected - false) / spread_of_rates
    return accuracy <= favourable * right + (1 - favourable) * (1 - false) + _DIGITS


def wrong_gaps(section: _Figures, *, exact: bool) -> Iterator[str]:
    groups = section["groups"]
    visible = np.array([not group["suppressed"] for group in groups], dtype=np.bool_)
    reference = None
    if section["reference_group"] is not None:
        reference = [group["value"] for group in groups].index(section["reference_group"])
    rates = np.stack([_column(groups, name) for name in RATES])
    found = dict(zip(METRICS, rate_gaps(rates, visible, reference=reference), strict=True))
    accuracies = _column(groups, "accuracy")
    together = bool(comparable(visible, reference))
    difference = spread(accuracies, visible, reference)[0] if together else np.nan
    found["accuracy_difference"] = difference
    for name, value in found.items():
        said = section["metrics"][name]["value"]
        # Rounded counts may define a gap that the exact ones do not, and then it stays undefined.
        undefined = said is None and (bool(np.isnan(value)) or not exact)
        if not undefined and not _near(said, float(value)):
            yield f"{name} is {shown(said)} in the report and {float(value)!r} recomputed"


def _column(groups: Sequence[_Figures], name: str) -> NDArray[np.float64]:
    return np.array(
        [np.nan if group[name] is None else float(group[name]) for group in groups],
        dtype=np.float64,
    )


def wrong_utility(utility: _Figures, *, exact: bool) -> list[str]:
    wrong = [] if _is_gain(utility) else ["accuracy_over_baseline"]
    gain = utility["accuracy_over_baseline"]
    if (weighted := utility.get("weighted_accuracy_over_baseline")) is not None:
        gain = weighted
    judged = judge_model(
        accuracy=None if gain is None else Gained(gain, shown=True),
        loss=None,
        outcome=None,
        prediction_share=utility["prediction_share"],
        outcome_share=utility["outcome_share"],
    )
    # Whether a gain is shown rests on the rows; that there is none does not. Figures in wide steps
    # do not say it.
    if exact and (judged.degenerate is True) != (utility["degenerate"] is True):
        wrong.append(f"degenerate is {shown(utility['degenerate'])}")
    return wrong


def _is_gain(figures: _Figures) -> bool:
    gain, baseline = figures["accuracy_over_baseline"], figures["baseline_accuracy"]
    if gain is None or baseline is None:
        return gain is None
    return _near(gain, figures["accuracy"] - baseline)


def _near(said: Any, found: float) -> bool:
    if isinstance(said, bool) or not isinstance(said, int | float):
        return False
    return math.isclose(said, found, rel_tol=0.0, abs_tol=_DIGITS)
