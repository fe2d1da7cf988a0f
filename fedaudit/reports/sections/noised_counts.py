"""Fairness and utility from counts with noise, and nothing else of the held-out people."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fedaudit.arrays import Ints
from fedaudit.fairness.gaps import Figure, gaps_between, scored_rows
from fedaudit.fairness.intervals import Interval
from fedaudit.fairness.noised_counts import (
    METHOD,
    NoisedCounts,
    noised_intervals,
    rate_bounds,
    share_difference_bounds,
)
from fedaudit.number_text import without_dust
from fedaudit.reports.sections.fairness import (
    NO_GROUP_INTERVALS,
    FairnessSection,
    coverage_doubt,
    group_section,
    metric_section,
    rate_columns,
    with_rate_intervals,
)
from fedaudit.reports.sections.material import ScoredMaterial
from fedaudit.spec.metrics import COUNTS, RATES, SCORE_METRICS
from fedaudit.utility import NO_INTERVALS, Gained, Judgement, judge_model

WITHHELD = (
    "fairness.noise protects the held-out people, and this would be computed from their data "
    "without noise"
)
CHECKED_BEFORE = (
    "noise was added after the exact figures had been computed twice from the rows; how the two "
    "compare would be a figure without noise"
)
_NOT_NOISED = ("accuracy", "loss", "auc")


def noised_section(
    material: ScoredMaterial, attribute: str, noised: NoisedCounts
) -> FairnessSection:
    """Rates and gaps of one attribute, with intervals that take in the noise. Sizes are noised too,
    so a group is left out where it seems too small for a figure to mean something. Where the noise
    is secret, nothing is left out to protect it, and no group with it: what the noised counts of
    all groups give away is within their epsilon."""
    values, drawn = material.federation.attributes[attribute], noised.counts[attribute]
    disclosure, fairness = material.disclosures[attribute], material.spec.fairness
    rule, open_ = disclosure.rule, disclosure.shown | material.spec.hides_counts
    combined, asked = fairness.combinations.get(attribute), fairness.intervals
    counts = np.maximum(drawn, 0)
    rows = scored_rows(counts)
    large = np.array([rule.is_large(int(size)) and size > 0 for size in rows], dtype=np.bool_)
    shown = large & open_
    [figures] = gaps_between(
        counts[np.newaxis], shown[np.newaxis], reference=rule.reference, rows=rows[np.newaxis]
    )
    figures += [Figure(name, None, WITHHELD) for name in SCORE_METRICS]
    why = f"left out: {rule.few('rows by the noised counts')}, so noise would outweigh people"
    hidden = [
        (None if large[place] else why) if open_[place] else disclosure.reason(place)
        for place in range(len(values))
    ]
    rates = rate_columns(counts, has_favourable_outcome=True)
    groups = [
        group_section(
            value,
            rates,
            place,
            hidden=hidden[place],
            rows=int(counts[place].sum()) if open_[place] else hidden[place],
            **dict.fromkeys(_NOT_NOISED, WITHHELD),
            rate_intervals=NO_GROUP_INTERVALS,
        )
        for place, value in enumerate(values)
    ]
    intervals = dict[str, Interval | str]()
    if asked is not None:
        ends = {rate: rate_bounds(drawn, rate, noised, share=1 - asked.level) for rate in RATES}
        groups = with_rate_intervals(groups, ends, level=asked.level, method=METHOD)
        intervals = noised_intervals(
            drawn, noised, shown, reference=rule.reference, level=asked.level
        )
    metrics = {}
    for one in figures:
        found = intervals.get(one.metric, NO_INTERVALS)
        if one.value is not None and not isinstance(found, str):
            found = Interval(*map(without_dust, _around(one.value, *found)))
        metrics[one.metric] = metric_section(one, found, asked, method=METHOD)
    return FairnessSection(
        attribute=attribute,
        intersection_of=None if combined is None else list(combined),
        reference_group=None if rule.reference is None else values[rule.reference],
        groups=groups,
        metrics=metrics,
        doubt=coverage_doubt(material, rows, shown),
        cross_check_reason=CHECKED_BEFORE,
    )


NOISED_OUTCOMES = (
    "from counts with noise: of outcomes that are favourable or not, over the rows of the first "
    "sensitive attribute"
)
_JUDGED_AT = 0.95
_EACH_WAY = (("true_negatives", "false_negatives"), ("true_positives", "false_positives"))
"""The gain over always predicting the favourable outcome, and over never doing so."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisedGain:
    """Shares of the noised rows. Intervals cover the population that the held-out people were drawn
    from, as intervals of gaps do, and contain the figure itself."""

    accuracy_over_baseline: float
    prediction_share: float
    outcome_share: float
    four_counts: tuple[int, ...]
    """The counts of all groups together, none of them negative."""
    pooled: Ints
    """[4]: the same as they were drawn."""
    noise: NoisedCounts
    """The noise, with the deviation of each of those."""
    one_hypothesis: bool
    """If False, the constant of each hypothesis may be better than the one known here, and predict
    what it predicts more evenly: the figures then bound on one side only."""

    def gain_interval(self, level: float) -> tuple[float, float]:
        """Interval of `accuracy_over_baseline`."""
        share = (1 - level) / len(_EACH_WAY)
        bounds = partial(share_difference_bounds, self.pooled, noised=self.noise, share=share)
        lows, highs = zip(*(bounds(more=more, less=less) for more, less in _EACH_WAY), strict=True)
        low = min(lows) if self.one_hypothesis else -1.0
        return _around(self.accuracy_over_baseline, low, min(highs))

    def share_interval(self, level: float) -> tuple[float, float]:
        """Interval of `prediction_share`."""
        lows, highs = rate_bounds(
            self.pooled[np.newaxis], "selection_rate", self.noise, share=1 - level
        )
        low, high = float(lows[0]), float(highs[0])
        largest = max(high, 1 - low) if self.one_hypothesis else 1.0
        return _around(self.prediction_share, max(0.5, low, 1 - high), largest)

    @property
    def judgement(self) -> Judgement:
        """Whether the model is degenerate by these."""
        found = Interval(*self.gain_interval(_JUDGED_AT))
        return judge_model(
            {"accuracy": Gained(self.accuracy_over_baseline, found, "by counts with noise")},
            prediction_share=self.prediction_share,
            outcome_share=self.outcome_share,
        )


def noised_gain(noised: NoisedCounts, *, hypotheses: int) -> NoisedGain | None:
    """The figures of the first attribute's counts; None where noise left no row."""
    drawn = next(iter(noised.counts.values()))
    pooled = dict(zip(COUNTS, np.maximum(drawn, 0).sum(axis=0).tolist(), strict=True))
    rows = sum(pooled.values())
    if not rows:
        return None
    positive = pooled["true_positives"] + pooled["false_negatives"]
    predicted = pooled["true_positives"] + pooled["false_positives"]
    right = pooled["true_positives"] + pooled["true_negatives"]
    return NoisedGain(
        accuracy_over_baseline=(right - max(positive, rows - positive)) / rows,
        prediction_share=max(predicted, rows - predicted) / rows,
        outcome_share=max(positive, rows - positive) / rows,
        four_counts=tuple(pooled.values()),
        pooled=drawn.sum(axis=0),
        noise=replace(noised, deviation=noised.deviation * math.sqrt(len(drawn))),
        one_hypothesis=hypotheses == 1,
    )


def _around(value: float, low: float, high: float) -> tuple[float, float]:
    """Include the value itself, which counts cut off at 0 may put outside."""
    return min(low, value), max(high, value)
