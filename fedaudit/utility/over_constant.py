"""How much better a model is than the best constant on the same rows, and how sure that is."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.intervals import ClientDraws, Interval, resampled_intervals
from fedaudit.utility.constant_comparison import ConstantComparison, Gain, RowGains
from fedaudit.utility.degenerate import Gained, Judgement, judge_model

_GAINS = ("accuracy_over_baseline", "loss_under_baseline", "outcome_gain")
_JUDGED_AT, _SAMPLES = 0.95, 1000
NO_INTERVALS = "the spec asks for no intervals"
_STREAM = 1 << 20
"""Draws other clients than those of the sensitive attributes, which are counted from 0."""
_TOO_FEW = "validation clients"


@dataclass(frozen=True, kw_only=True)
class OverConstant:
    """Figures of one run; None for what a target of its kind has not."""

    baseline_accuracy: float | None
    baseline_loss: float
    accuracy_over_baseline: float | None
    loss_under_baseline: float
    """The baseline's loss less the model's: above 0 where the model is better."""
    prediction_share: float | None
    """Share of rows for which the most frequent prediction was made, of the hypothesis that
    predicted the row."""
    outcome_share: float | None
    """Share of rows with the most frequent true outcome."""
    intervals: dict[str, Interval]
    """Of `accuracy_over_baseline` and `loss_under_baseline`: clients drawn with replacement, the
    constant as it is."""


def over_constant(
    found: ConstantComparison, *, seed: int, level: float | None, samples: int
) -> OverConstant:
    """The figures of a comparison. `level`: coverage of the intervals, None for none."""
    rows = int(found.rows.sum())
    accuracy = baseline = None
    if found.correct is not None and found.constant_correct is not None:
        accuracy = int(found.correct.sum()) / rows
        baseline = int(found.constant_correct.sum()) / rows
    loss, constant_loss = (
        float(np.average(values, weights=found.weights))
        for values in (found.loss, found.constant_loss)
    )
    return OverConstant(
        baseline_accuracy=baseline,
        baseline_loss=constant_loss,
        accuracy_over_baseline=(
            None if accuracy is None or baseline is None else accuracy - baseline
        ),
        loss_under_baseline=constant_loss - loss,
        prediction_share=_share(found.outcomes),
        outcome_share=_share(found.true_outcomes),
        intervals=(
            dict.fromkeys(_GAINS[:2], Interval(None, None, NO_INTERVALS))
            if level is None
            else _intervals(found, seed, level, samples)
        ),
    )


def judge_comparison(found: ConstantComparison, *, seed: int) -> Judgement:
    """Whether the model is degenerate, at 95 % whatever level a spec asks for."""
    intervals = _intervals(found, seed, _JUDGED_AT, _SAMPLES)
    outcome_gain = found.outcome_gain
    kinds: dict[Gain, float | None] = {
        "accuracy": (
            None
            if found.correct is None or found.constant_correct is None
            else float(found.correct.sum() - found.constant_correct.sum())
        ),
        "loss": float(np.average(found.constant_loss - found.loss, weights=found.weights)),
        "outcome": None if outcome_gain is None else float(outcome_gain.sum()),
    }
    gained = {
        kind: None if gain is None else Gained(gain, _is_shown(found.gains[kind], intervals[name]))
        for (kind, gain), name in zip(kinds.items(), _GAINS, strict=True)
    }
    return judge_model(
        accuracy=gained["accuracy"],
        loss=gained["loss"],
        outcome=gained["outcome"],
        prediction_share=_share(found.outcomes),
        outcome_share=_share(found.true_outcomes),
    )


def _is_shown(rows: RowGains, interval: Interval) -> bool:
    """By clients where there are enough for an interval, otherwise by rows one by one."""
    return rows.shown if interval.low is None else interval.low > 0


def _share(outcomes: NDArray[np.int64] | None) -> float | None:
    """Of counts [..., outcomes], what the most frequent of each line make of all."""
    if outcomes is None or not outcomes.sum():
        return None
    return int(outcomes.max(axis=-1).sum()) / int(outcomes.sum())


@lru_cache(maxsize=1)
def _intervals(
    found: ConstantComparison, seed: int, level: float, samples: int
) -> dict[str, Interval]:
    """Of each of the gains; those that there are none of have no interval.

    Kept, because a report judges the model by the intervals that it shows.
    """
    rows = found.rows.astype(np.float64)
    none = np.full(len(rows), np.nan)
    right = none
    if found.correct is not None and found.constant_correct is not None:
        right = (found.correct - found.constant_correct).astype(np.float64)
    saved = (found.constant_loss - found.loss) * found.weights
    outcome = none if found.outcome_gain is None else found.outcome_gain.astype(np.float64)
    sums = np.stack([rows, right, found.weights, saved, rows, outcome], axis=1)

    def measure(pooled: NDArray[np.float64]) -> NDArray[np.float64]:
        return pooled[:, 1::2] / pooled[:, ::2]

    return resampled_intervals(
        _GAINS,
        measure,
        sums,
        contributing=np.arange(len(found.rows)),
        draws=ClientDraws(seed, _STREAM, samples),
        level=level,
        of=_TOO_FEW,
    )


def group_intervals(
    gained: NDArray[np.int64],
    rows: NDArray[np.int64],
    *,
    seed: int,
    stream: int,
    level: float,
    samples: int,
) -> list[Interval]:
    """Of each group's accuracy over the constant's, from `gained` and `rows` [clients, groups].

    `gained`: rows that the model alone classifies rightly, less those that the constant alone does.
    `stream` as in `bootstrap_intervals`. A draw without a row of the group is left out.
    """
    names = [str(group) for group in range(rows.shape[1])]

    def measure(pooled: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            return np.asarray(pooled[:, 0] / pooled[:, 1])

    found = resampled_intervals(
        names,
        measure,
        np.stack([gained, rows], axis=1).astype(np.float64),
        contributing=np.flatnonzero(rows.any(axis=1)),
        draws=ClientDraws(seed, stream, samples),
        level=level,
        of="clients have rows in the groups",
    )
    return [found[name] for name in names]
