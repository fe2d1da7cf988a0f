"""When a model decides nothing: it is no better than a constant, or is one.

The figures of such a model look well. Rates that are equal because everybody is predicted alike
are the smallest gaps there are, and where one outcome is frequent its accuracy is high. So whatever
is decided by rates, gaps, accuracy or loss asks first whether the model is degenerate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.intervals import Clustered, Interval, gain_intervals
from fedaudit.utility.constant import ConstantComparison, Gain, RowGains

_NEARLY = ((0.99, 0.5), (0.9, 0.1))
"""A share of rows with one and the same prediction, and how often at least, for it, what is
predicted otherwise must be as frequent as what happens otherwise: a rare outcome that is predicted
half as often as it occurs is not overlooked."""


@dataclass(frozen=True)
class Judgement:
    """Whether the model is degenerate; None where that is not known. With its reason, except where
    it is shown not to be."""

    degenerate: bool | None
    reason: str | None


@dataclass(frozen=True)
class Gained:
    """How much better a model is than the constant in one respect."""

    gain: float
    shown: bool
    """Whether that it is above 0 is shown, at 95 %."""


def judge_model(
    *,
    accuracy: Gained | None,
    loss: Gained | None,
    outcome: Gained | None,
    prediction_share: float | None,
    outcome_share: float | None,
) -> Judgement:
    """Judges a model by its gains over the constant, those that are known, and by how often it
    predicts the same.

    `accuracy` in right classifications, `loss` in the validation loss, `outcome` in rows whose
    outcome, favourable or not, is predicted rightly. The shares are those of `OverConstant`. It is
    degenerate where it is nearly constant or better in none of the first two, and not known to be
    otherwise where it is not better, or not shown to be, in all of them.
    """
    if _is_nearly_constant(prediction_share, outcome_share):
        return Judgement(
            True, "one outcome is predicted for nearly all rows, so equal rates mean nothing"
        )
    gains = {
        "accuracy_over_baseline": accuracy,
        "loss_under_baseline": loss,
        "right predictions of the favourable outcome": outcome,
    }
    known = {name: one for name, one in gains.items() if one is not None}
    first = [one for one in (accuracy, loss) if one is not None] or list(known.values())
    if not first:
        return Judgement(None, "nothing says how much better than a constant the model is")
    if not any(one.gain > 0 for one in first):
        return Judgement(True, "the model is no better than a constant prediction")
    why = _doubts(known, first)
    return Judgement(False if why is None else None, why)


def _doubts(known: Mapping[str, Gained], first: Sequence[Gained]) -> str | None:
    """Why the model is not shown to be better in every respect; None where it is."""
    for name, one in known.items():
        if not one.gain > 0:
            return f"in {name} the model is no better than a constant prediction"
        if not one.shown and name != "loss_under_baseline":
            return _not_shown(name)
    return None if any(one.shown for one in first) else _not_shown(next(iter(known)))


def _not_shown(name: str) -> str:
    return (
        f"in {name} the model is not shown to be better than a constant prediction: the 95% "
        "interval reaches 0"
    )


def _is_nearly_constant(prediction_share: float | None, outcome_share: float | None) -> bool:
    if prediction_share is None:
        return False
    otherwise = 1.0 - prediction_share
    rare = 0.0 if outcome_share is None else 1.0 - outcome_share
    return otherwise == 0 or any(
        prediction_share >= share and otherwise < least * rare for share, least in _NEARLY
    )


_GAINS = ("accuracy_over_baseline", "loss_under_baseline", "outcome_gain")
_JUDGED_AT = 0.95
MIN_CLIENTS = 20
"""Below this, the variance between clients is not trusted to judge a model."""
NO_INTERVALS = "the spec asks for no intervals"


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
    """Of `accuracy_over_baseline` and `loss_under_baseline`, the constant as it is."""


def over_constant(found: ConstantComparison, *, level: float | None) -> OverConstant:
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
            else _intervals(found, level)
        ),
    )


def judge_comparison(found: ConstantComparison) -> Judgement:
    """Whether the model is degenerate, at 95 % whatever level a spec asks for."""
    intervals = _intervals(found, _JUDGED_AT)
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


def _intervals(found: ConstantComparison, level: float) -> dict[str, Interval]:
    """Of each of the gains; those that there are none of have no interval."""
    clients = len(found.rows)
    if clients < MIN_CLIENTS:
        reason = f"{clients} validation clients; an interval needs {MIN_CLIENTS}"
        return dict.fromkeys(_GAINS, Interval(None, None, reason))
    saved = (found.constant_loss - found.loss) * found.weights
    right = None
    if found.correct is not None and found.constant_correct is not None:
        right = found.correct - found.constant_correct
    kinds = ((right, found.rows), (saved, found.weights), (found.outcome_gain, found.rows))
    return {
        name: (
            Interval(None, None, "there is no such gain")
            if gained is None
            else _of_all(gained, rows, level, are_shares=gained is not saved)
        )
        for name, (gained, rows) in zip(_GAINS, kinds, strict=True)
    }


def _of_all(
    gained: NDArray[np.number], rows: NDArray[np.number], level: float, *, are_shares: bool
) -> Interval:
    """Of what all clients' rows gained together."""
    own = Clustered(np.stack([gained, rows], axis=-1)[:, np.newaxis])
    [interval] = gain_intervals(own, level=level, are_shares=are_shares)
    return interval


def group_intervals(
    gained: NDArray[np.int64], rows: NDArray[np.int64], *, level: float
) -> list[Interval]:
    """Of each group's accuracy over the constant's, from `gained` and `rows` [clients, groups].

    `gained`: rows that the model alone classifies rightly, less those that the constant alone does.
    """
    own = Clustered(np.stack([gained, rows], axis=-1))
    return gain_intervals(own, level=level, are_shares=True)
