"""How much better than a constant a model decides, by counts with noise alone."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.noised_counts import (
    NoisedCounts,
    plausible,
    rate_bounds,
    share_difference_bounds,
)
from fedaudit.spec.metrics import COUNTS
from fedaudit.utility import Gained, Judgement, judge_model

NOISED_OUTCOMES = (
    "from counts with noise: of outcomes that are favourable or not, over the rows of the first "
    "sensitive attribute"
)
_JUDGED_AT = 0.95
_EACH_WAY = (("true_negatives", "false_negatives"), ("true_positives", "false_positives"))
"""The gain over always predicting the favourable outcome, and over never doing so."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisedGain:
    """Shares of the noised rows. Intervals are those of the population that the held-out people
    were drawn from, as intervals of gaps are, and hold the figure itself."""

    accuracy_over_baseline: float
    prediction_share: float
    outcome_share: float
    pooled: NDArray[np.int64]
    """[4]: the counts of all groups together, as they were drawn."""
    noise: NoisedCounts
    """With the deviation of each of those."""
    one_hypothesis: bool
    """Otherwise the constant of each hypothesis may be better than the one that is known here, and
    predict what it predicts more evenly: the figures then bound on one side only."""

    def gain_interval(self, level: float) -> tuple[float, float]:
        """Of `accuracy_over_baseline`."""
        share = (1 - level) / len(_EACH_WAY)
        lows, highs = zip(
            *(
                share_difference_bounds(
                    self.pooled, more=more, less=less, noised=self.noise, share=share
                )
                for more, less in _EACH_WAY
            ),
            strict=True,
        )
        low = min(lows) if self.one_hypothesis else -1.0
        return _around(self.accuracy_over_baseline, low, min(highs))

    def share_interval(self, level: float) -> tuple[float, float]:
        """Of `prediction_share`."""
        lows, highs = rate_bounds(
            self.pooled[np.newaxis], "selection_rate", self.noise, share=1 - level
        )
        low, high = float(lows[0]), float(highs[0])
        largest = max(high, 1 - low) if self.one_hypothesis else 1.0
        return _around(self.prediction_share, max(0.5, low, 1 - high), largest)

    @property
    def judgement(self) -> Judgement:
        """Whether the model is degenerate by these."""
        low, _ = self.gain_interval(_JUDGED_AT)
        return judge_model(
            accuracy=Gained(self.accuracy_over_baseline, low > 0),
            loss=None,
            outcome=None,
            prediction_share=self.prediction_share,
            outcome_share=self.outcome_share,
        )


def noised_gain(noised: NoisedCounts, *, hypotheses: int) -> NoisedGain | None:
    """The figures of the first attribute's counts; None where noise left no row."""
    drawn = next(iter(noised.counts.values()))
    pooled = dict(zip(COUNTS, plausible(drawn).sum(axis=0).tolist(), strict=True))
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
        pooled=drawn.sum(axis=0),
        noise=replace(noised, deviation=noised.deviation * math.sqrt(len(drawn))),
        one_hypothesis=hypotheses == 1,
    )


def _around(value: float, low: float, high: float) -> tuple[float, float]:
    """With the value itself, which counts cut off at 0 may put outside."""
    return min(low, value), max(high, value)
