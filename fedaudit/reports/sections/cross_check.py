"""The rates and gaps of a finished report, computed a second time by Fairlearn from the rows.

The report adds up counts. Here the rows themselves go to Fairlearn, group by group, and both must
agree: a report whose figures do not follow from its rows is never published. It covers rates and
accuracy of each group shown, and the gaps between these groups, pooled over records. Losses and
intervals are not computed twice. Fairlearn answers where a figure is undefined (see
`fedaudit.fairness.gaps`); which figures are defined is decided here from the rows, and the report
must have the same ones.

Every rate is Fairlearn's selection rate of some rows of a group: all of them, those whose true
outcome is favourable or is not, or, of being right, all again. Fairlearn's own functions of these
names take a millisecond a group and say the same, which is held against them on the rows of all
groups together. Gaps are what Fairlearn's MetricFrame answers, made from these rates without the
frame, which would spend another millisecond on every group.

Imports Fairlearn, and with it pandas and scikit-learn: for workers and `fedaudit run`, not for the
API.
"""

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

import fairlearn
import numpy as np
import pandas as pd
from fairlearn.metrics import false_positive_rate, selection_rate, true_positive_rate

# What `MetricFrame` asks for differences and ratios.
from fairlearn.metrics._disaggregated_result import DisaggregatedResult
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score

from fedaudit.arrays import Ints, finite
from fedaudit.fairness.gaps import NO_OUTCOME
from fedaudit.fairness.joint_disclosure import PredictedRows
from fedaudit.reports.sections.fairness import CrossCheck, FiguresDisagreeError
from fedaudit.spec.metrics import FAMILIES, KINDS

TOLERANCE = 1e-12
"""Both sides divide the same integers, so that a rate agrees up to one rounding (1e-16) and a gap
up to a few. One row counted wrongly among 1e11 would still show."""
_RATES = {
    "selection_rate": selection_rate,
    "true_positive_rate": true_positive_rate,
    "false_positive_rate": false_positive_rate,
}
_ACCURACY = "accuracy"
Labels = tuple[NDArray[Any], NDArray[Any]]
"""True and predicted, [rows] each."""


def cross_checked(
    report: Mapping[str, Any], predicted: Mapping[str, PredictedRows], *, counts: Mapping[str, Ints]
) -> dict[str, Any]:
    """The report with `cross_check` in its fairness sections, before it is signed. `predicted`: the
    scored rows of each attribute; `counts`: attribute -> [clients, groups, 4], what the report was
    made from. Raises FiguresDisagreeError where a figure differs by more than TOLERANCE or only one
    of the two has it, and KeyError where an attribute of the report has no rows."""
    sections = [
        {**section, **_checked(section, predicted[name], counts[name])}
        for section in report["fairness"]
        for name in [section["attribute"]]
    ]
    return {**report, "fairness": sections}


def _checked(section: Mapping[str, Any], rows: PredictedRows, counts: Ints) -> dict[str, Any]:
    _check_sizes(section, rows, counts)
    second = SecondFigures(section, rows)
    differences: dict[str, float] = {}
    for metric, group, ours, theirs in second.pairs():
        difference = _difference(ours, theirs)
        if difference > TOLERANCE:
            of = section["attribute"] if group is None else f"{section['attribute']} = {group}"
            raise FiguresDisagreeError(
                f"{metric} by {of} is {_text(ours)} in the report, and Fairlearn "
                f"{fairlearn.__version__} computes {_text(theirs)} from the rows"
            )
        if ours is not None:
            differences[metric] = max(difference, differences.get(metric, 0.0))
    if not differences:
        return {"cross_check": None, "cross_check_reason": _why_nothing(rows, second)}
    check = CrossCheck(
        library="fairlearn",
        version=fairlearn.__version__,
        largest_difference=max(differences.values()),
        metrics=list(differences),
    )
    return {"cross_check": check.model_dump(mode="json"), "cross_check_reason": None}


def _check_sizes(section: Mapping[str, Any], rows: PredictedRows, counts: Ints) -> None:
    """Includes hidden groups, and reveals which groups are hidden; so no number is named."""
    if rows.truth is None:
        return
    counted = counts.sum(axis=0).sum(axis=1)  # in one step it would take many times as long
    if not np.array_equal(counted, np.bincount(rows.groups, minlength=len(counted))):
        raise FiguresDisagreeError(
            f"the groups of {section['attribute']} have other numbers of scored rows in the counts "
            "of the report than among the rows themselves"
        )


def _difference(ours: float | None, theirs: float | None) -> float:
    """Infinite where only one of them is defined."""
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else math.inf
    return abs(ours - theirs)


def _text(value: float | None) -> str:
    return "undefined" if value is None else repr(value)


def _why_nothing(rows: PredictedRows, second: "SecondFigures") -> str:
    if rows.truth is None and rows.true_classes is None:
        return NO_OUTCOME
    if not len(rows.groups):
        return "no row was scored"
    return "no figure is defined" if second.any_rows else "every group is suppressed"


class SecondFigures:
    """Fairlearn's figures for the rows of the groups that a section shows."""

    def __init__(self, section: Mapping[str, Any], rows: PredictedRows) -> None:
        self._section = section
        shown = [place for place, group in enumerate(section["groups"]) if not group["suppressed"]]
        self._shown, self.any_rows = shown, bool(np.isin(rows.groups, shown).any())
        labels, of_groups = _labels(rows), [rows.groups == place for place in shown]
        _check_definitions(labels)
        # A rate is NaN without a denominator, for which Fairlearn returns 0.
        self._by_group = {name: [math.nan] * len(shown) for name in [*_RATES, _ACCURACY]}
        for name, (truth, predicted) in labels.items():
            rates = [_group_rate(name, truth[own], predicted[own]) for own in of_groups]
            self._by_group[name] = rates

    def pairs(self) -> Iterator[tuple[str, str | None, float | None, float | None]]:
        """Metric, group (None for a gap), the report's value and Fairlearn's."""
        for metric, rates in self._by_group.items():
            for place, theirs in zip(self._shown, rates, strict=True):
                group = self._section["groups"][place]
                yield metric, group["value"], group[metric], finite(theirs)
        metrics = self._section["metrics"]
        for family in FAMILIES:
            for kind, gap in zip(KINDS, self._gap(family.rates), strict=True):
                name = f"{family.name}_{kind}"
                yield name, None, metrics[name]["value"], gap
        name = f"{_ACCURACY}_difference"
        yield name, None, metrics[name]["value"], self._gap((_ACCURACY,))[0]

    def _gap(self, rates: tuple[str, ...]) -> tuple[float | None, float | None]:
        """The worst difference and the worst ratio of some rates; None where one is undefined."""
        missing = any(math.isnan(one) for name in rates for one in self._by_group[name])
        if missing or len(self._shown) < 2 or self._spreads is None:
            return None, None
        differences, ratios = ([spread[name] for name in rates] for spread in self._spreads)
        # A ratio of 0/0 is NaN and remains NaN.
        return finite(np.max(differences)), finite(np.min(ratios))

    @cached_property
    def _spreads(self) -> tuple[dict[Any, float], dict[Any, float]] | None:
        """Fairlearn's difference and ratio by rate: between groups, or to the reference group in
        the place of everyone; None where that group is hidden."""
        reference, place = self._section["reference_group"], self._shown[0]
        method: Literal["between_groups", "to_overall"] = "between_groups"
        if reference is not None:
            place = [group["value"] for group in self._section["groups"]].index(reference)
            method = "to_overall"
            if place not in self._shown:
                return None
        by_group = pd.DataFrame(self._by_group, index=self._shown)
        found = DisaggregatedResult(overall=by_group.loc[place], by_group=by_group)
        spreads = found.difference(None, method=method), found.ratio(None, method=method)
        return spreads[0].to_dict(), spreads[1].to_dict()


def _labels(rows: PredictedRows) -> dict[str, Labels]:
    """The rows that each metric counts."""
    found: dict[str, Labels] = {}
    if rows.truth is not None and rows.predicted is not None:
        found = dict.fromkeys(_RATES, (rows.truth.astype(int), rows.predicted.astype(int)))
    if rows.true_classes is not None and rows.predicted_classes is not None:
        found[_ACCURACY] = rows.true_classes, rows.predicted_classes
    return found


def _group_rate(metric: str, truth: NDArray[Any], predicted: NDArray[Any]) -> float:
    """A rate of some rows, by Fairlearn; NaN where it has no denominator."""
    if metric == _ACCURACY:
        predicted = (truth == predicted).astype(int)
    elif metric != "selection_rate":
        predicted = predicted[truth == (1 if metric == "true_positive_rate" else 0)]
    # Which rows count is settled above, so that the truth does not matter.
    return float(selection_rate(predicted, predicted)) if len(predicted) else math.nan


def _check_definitions(labels: Mapping[str, Labels]) -> None:
    """Check each rate against Fairlearn's function of that name on all rows, hidden groups
    included; so no message names a number."""
    for name, (truth, predicted) in labels.items():
        function = accuracy_score if name == _ACCURACY else _RATES[name]
        rate = _group_rate(name, truth, predicted)
        if not math.isnan(rate) and abs(rate - function(truth, predicted)) > TOLERANCE:
            raise FiguresDisagreeError(
                f"{name} of all rows is not what Fairlearn {fairlearn.__version__} computes for it"
            )
