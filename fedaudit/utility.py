"""A model beside the best constant prediction, on the same rows, client by client.

That is one answer for every row of a hypothesis. A class is always the most frequent one of the
rows that are scored, and the probabilities behind its loss are their frequencies. A number is that
with the smallest loss. So nothing of the training data goes into it. Of several hypotheses each has
a constant of its own: clients choose between them by their own rows, so a model of constants may be
better than any one of them, and still ignores the row that it predicts.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.fairness.intervals import Clustered, Interval, gain_intervals
from fedaudit.fairness.ranking import Ranking, ScoredOutcomes, rank_rows
from fedaudit.judgement import Gained, Judgement, judge_model
from fedaudit.native.library import PredictedAlike, best_number

RowLoss = Literal["squared", "log"]


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredRows:
    """Every array is [rows]. Confidential."""

    client: Ints
    """The row's client, from 0 and below `clients`; every client has a row."""
    clients: int
    target: Floats
    """As the loss compares it: scaled, or the class index."""
    predicted: Floats
    """Likewise."""
    values: Floats
    """The model's loss of the row, before any root."""
    outcome: Ints | None
    """What was predicted, as one of few outcomes; None for a number without a favourable
    outcome."""
    true_outcome: Ints | None
    """The true one; None with `outcome`."""
    hypothesis: Ints
    groups: Mapping[str, tuple[int, Ints]]
    """Sensitive attribute -> how many groups it has, and the row's, -1 for none."""
    two_outcomes: bool = False
    """Whether outcomes are 0 and 1, of which 1 is the favourable or the positive one."""
    scored: ScoredOutcomes | None = None
    """Of the positive class; None where predictions have no scores."""
    threshold: float = 0.5
    """The probability of the positive class above which it was predicted."""

    @property
    def weights(self) -> Floats:
        """How much a right decision counts, [rows]; all alike at a threshold of 0.5.

        A threshold t is best where missing the outcome costs 1 - t and a false alarm costs t
        (Vickers and Elkin 2006); both are doubled.
        """
        if self.scored is None:
            return np.ones(len(self.client))
        return np.where(self.scored.outcome, 2 * (1 - self.threshold), 2 * self.threshold)


@dataclass(frozen=True, kw_only=True)
class LossShape:
    """How losses of rows become the validation loss."""

    row: RowLoss
    classes: int
    """0 for a target that is a number."""
    root_mean: bool
    """Whether a client's loss is the root of the mean of its rows' values."""
    by_client: bool
    """Whether the validation loss is the mean over clients; over all rows alike otherwise."""

    def of_clients(self, values: Floats, rows: MeasuredRows) -> Floats:
        """Each client's loss from its rows' values [rows]: [clients]."""
        return self.client_means(rows)(values)

    def client_means(self, rows: MeasuredRows) -> Callable[[Floats], Floats]:
        """`of_clients` of these rows, for many values."""
        counts = np.bincount(rows.client, minlength=rows.clients)

        def losses(values: Floats) -> Floats:
            sums = np.bincount(rows.client, weights=values, minlength=rows.clients)
            means: Floats = sums / counts
            return np.sqrt(means) if self.root_mean else means

        return losses

    def row_weights(self, rows: MeasuredRows) -> Floats:
        """How much a row counts, [rows], adding up to 1."""
        if not self.by_client:
            return np.full(len(rows.client), 1.0 / len(rows.client))
        counts = np.bincount(rows.client, minlength=rows.clients)
        return np.asarray(1.0 / (rows.clients * counts[rows.client]), dtype=np.float64)

    def client_weights(self, rows: MeasuredRows) -> Floats:
        """How much a client's loss counts: [clients]."""
        if self.by_client:
            return np.ones(rows.clients)
        return np.bincount(rows.client, minlength=rows.clients).astype(np.float64)


ConstantKind = Literal["majority", "mean", "number"]
"""`mean` of the targets; `number`, that with the smallest loss where this is not the mean."""

_GOLDEN = (5**0.5 - 1) / 2
_STEPS = 60
_SWEEPS = 4
"""Over the constants of all hypotheses, each improved with the others as they are."""


@dataclass(frozen=True, eq=False)
class ConstantPrediction:
    """One answer for every row of a hypothesis, and what it costs each of them."""

    kind: ConstantKind
    correct: Bools | None
    """[rows]: whether it classifies the row correctly; None for a number."""
    values: Floats
    """[rows]: its loss of the row, before any root."""


def best_constant(rows: MeasuredRows, shape: LossShape) -> ConstantPrediction:
    """The best constants for the rows."""
    if shape.classes:
        truth, weights = rows.target.astype(np.int64), shape.row_weights(rows)
        values = np.zeros(len(truth))
        for own in _of_hypotheses(rows):
            if own.any():
                shares = np.bincount(truth[own], weights=weights[own], minlength=shape.classes)
                values[own] = _losses(shares / shares.sum(), truth[own], shape)
        return ConstantPrediction("majority", truth == most_frequent(truth, rows), values)
    weights = shape.row_weights(rows)
    found = np.array(
        [
            np.average(rows.target[own], weights=weights[own]) if own.any() else 0.0
            for own in _of_hypotheses(rows)
        ]
    )
    kind: ConstantKind = "mean"
    if shape.root_mean:
        found, kind = _smallest(rows, shape, found), "number"
    return ConstantPrediction(kind, None, (rows.target - found[rows.hypothesis]) ** 2)


def most_frequent(values: Ints, rows: MeasuredRows, weights: Floats | None = None) -> Ints:
    """For each row, the most frequent of `values` [rows] over its hypothesis's rows, which count
    by their `weights` [rows]: [rows]."""
    found = np.zeros(len(values), dtype=np.int64)
    for own in _of_hypotheses(rows):
        if own.any():
            counted = None if weights is None else weights[own]
            found[own] = np.bincount(values[own], weights=counted).argmax()
    return found


def _of_hypotheses(rows: MeasuredRows) -> list[Bools]:
    return [rows.hypothesis == one for one in range(int(rows.hypothesis.max(initial=0)) + 1)]


def _losses(shares: Floats, truth: Ints, shape: LossShape) -> Floats:
    """The loss of each row of true class [rows] under the probabilities [classes]."""
    match shape.row:
        case "log":
            found: Floats = -np.log(shares[truth])
            return found
        case "squared":
            # Over all classes: (1 - p)^2 for the true one and p^2 for each of the others.
            others = (shares**2).sum() - shares[truth] ** 2
            return np.asarray(((1.0 - shares[truth]) ** 2 + others) / shape.classes)
        case _:
            assert_never(shape.row)


def _smallest(rows: MeasuredRows, shape: LossShape, found: Floats) -> Floats:
    """The constants [k] with the smallest loss, which is convex in them."""
    weights, mean = shape.client_weights(rows), shape.client_means(rows)
    ends = float(rows.target.min()), float(rows.target.max())
    total = weights.sum()
    owners = [np.flatnonzero(own) for own in _of_hypotheses(rows)]
    targets = [rows.target[own] for own in owners]

    def improved(place: int, values: Floats) -> float:
        """The best number at one place; `values` [rows], of the constants elsewhere as they are,
        are overwritten at its rows."""
        alike = PredictedAlike(
            target=rows.target,
            client=rows.client,
            own=rows.hypothesis == place,
            values=values,
            weights=weights,
        )
        best = best_number(alike, low=ends[0], high=ends[1], golden=_GOLDEN, steps=_STEPS)
        if best is not None:
            return best

        def loss(number: float) -> float:
            values[owners[place]] = (targets[place] - number) ** 2
            return float((mean(values) * weights).sum() / total)

        return _minimum(loss, *ends)

    found = found.copy()
    for _ in range(1 if len(found) == 1 else _SWEEPS):
        for place in range(len(found)):
            found[place] = improved(place, (rows.target - found[rows.hypothesis]) ** 2)
    return found


def _minimum(loss: Callable[[float], float], low: float, high: float) -> float:
    """Where a convex function is smallest between two ends, by golden section."""
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    values = [loss(inner[0]), loss(inner[1])]
    for _ in range(_STEPS):
        if values[0] <= values[1]:
            high = inner[1]
            inner = [high - _GOLDEN * (high - low), inner[0]]
            values = [loss(inner[0]), values[0]]
        else:
            low = inner[0]
            inner = [inner[1], low + _GOLDEN * (high - low)]
            values = [values[1], loss(inner[1])]
    return (low + high) / 2


NORMAL_95 = 1.959964
"""The quantile that leaves 2.5 % of the normal distribution above it."""
Gain = Literal["accuracy", "loss", "outcome"]
"""In right classifications, in the loss before any root, and in right outcomes."""


@dataclass(frozen=True)
class RowGains:
    """What the gains of single rows add up to."""

    total: float
    squares: float

    @classmethod
    def of(cls, gains: Floats) -> "RowGains":
        """Of the gains of single rows [rows]."""
        return cls(float(gains.sum()), float((gains**2).sum()))

    @property
    def shown(self) -> bool:
        """Whether the rows, taken one by one, show the model to be better (at 95 %, two-sided)."""
        return self.total > NORMAL_95 * math.sqrt(self.squares)


@dataclass(frozen=True, eq=False, kw_only=True)
class ConstantComparison:
    """What the scored rows add up to. Confidential; arrays [clients] but for `outcomes`."""

    constant: ConstantKind
    rows: Ints
    correct: Ints | None
    constant_correct: Ints | None
    """Those that the constant does."""
    loss: Floats
    constant_loss: Floats
    weights: Floats
    """How much a client counts in the validation loss."""
    outcomes: Ints | None
    """[k, outcomes]: rows by the hypothesis that predicted them and what it predicted; None where
    a prediction is a number without a favourable outcome."""
    true_outcomes: Ints | None
    """[outcomes]: the same rows by their true outcome."""
    rows_by_group: Mapping[str, Ints]
    """Attribute -> how many rows each group has, [groups]."""
    gains: Mapping[Gain, RowGains]
    """How much better the model is on each row."""
    decided: Floats
    """Its rows, which count by their `MeasuredRows.weights`."""
    decision_gain: Floats | None
    """So counted, the rows that the model alone classifies correctly, less those that the constant
    alone does: that which is best when rows count so. None for a number."""
    outcome_gain: Floats | None
    """The same of outcomes, favourable or not."""
    threshold: float = 0.5
    counts: Ints | None = None
    """[4]: true and false positives and negatives of all rows; None without two outcomes."""
    ranking: Ranking | None = None
    """Of the judged rows; None where predictions have no scores."""

    @property
    def accuracy_gain(self) -> Ints | None:
        """Rows that the model alone classifies correctly, less those that the constant alone does;
        None for a number."""
        if self.correct is None or self.constant_correct is None:
            return None
        return self.correct - self.constant_correct


def compare_with_constant(rows: MeasuredRows, shape: LossShape) -> ConstantComparison:
    """The model's rows beside the best constant for them."""
    found = best_constant(rows, shape)
    correct = constant_correct = None
    if found.correct is not None:
        correct = _count(rows, rows.predicted == rows.target)
        constant_correct = _count(rows, found.correct)
    outcomes, true_outcomes = _outcomes(rows)
    gains = _gains(rows, found)
    return ConstantComparison(
        constant=found.kind,
        rows=_count(rows, np.ones(len(rows.client), dtype=np.bool_)),
        correct=correct,
        constant_correct=constant_correct,
        loss=shape.of_clients(rows.values, rows),
        constant_loss=shape.of_clients(found.values, rows),
        weights=shape.client_weights(rows),
        outcomes=outcomes,
        true_outcomes=true_outcomes,
        gains={name: RowGains.of(gain) for name, gain in gains.items()},
        decided=_sums(rows, rows.weights),
        decision_gain=_sums(rows, gains["accuracy"]) if "accuracy" in gains else None,
        outcome_gain=_sums(rows, gains["outcome"]) if "outcome" in gains else None,
        rows_by_group={
            name: np.bincount(codes[codes >= 0], minlength=groups)
            for name, (groups, codes) in rows.groups.items()
        },
        threshold=rows.threshold,
        counts=_four_counts(rows),
        ranking=_ranking(rows),
    )


def _ranking(rows: MeasuredRows) -> Ranking | None:
    """Of the judged rows, as `outcomes`: with the others in it, a difference of the two would give
    the outcomes of these few."""
    judged = np.ones(len(rows.client), dtype=np.bool_)
    if rows.outcome is not None:
        judged = rows.outcome >= 0
    if rows.scored is None or not judged.any():
        return None
    return rank_rows(
        rows.scored.only(judged),
        client=rows.client[judged],
        hypothesis=rows.hypothesis[judged],
        groups={name: (groups, codes[judged]) for name, (groups, codes) in rows.groups.items()},
    )


def _four_counts(rows: MeasuredRows) -> Ints | None:
    if not rows.two_outcomes or rows.outcome is None or rows.true_outcome is None:
        return None
    judged = rows.outcome >= 0
    place = 2 * rows.outcome[judged] + rows.true_outcome[judged]
    # In the order of COUNTS: positives that are true, false, then negatives.
    return np.bincount(place, minlength=4)[[3, 2, 0, 1]]


def _count(rows: MeasuredRows, which: Bools) -> Ints:
    return np.bincount(rows.client[which], minlength=rows.clients)


def _sums(rows: MeasuredRows, values: Floats) -> Floats:
    found = np.bincount(rows.client, weights=values, minlength=rows.clients)
    return np.asarray(found, dtype=np.float64)


def _gains(rows: MeasuredRows, constant: ConstantPrediction) -> dict[Gain, Floats]:
    """How much better the model is on each row: [rows]. Decisions count by their weights, beside
    the constant that is best when they do."""
    weights = rows.weights
    found: dict[Gain, Floats] = {"loss": constant.values - rows.values}
    if constant.correct is not None:
        truth = rows.target.astype(np.int64)
        right = (rows.predicted == truth).astype(np.float64)
        found["accuracy"] = weights * (right - (truth == most_frequent(truth, rows, weights)))
    if rows.outcome is not None and rows.true_outcome is not None:
        judged = rows.outcome >= 0
        true = np.where(judged, rows.true_outcome, 0)
        usual = most_frequent(true, rows, weights)
        right = weights * ((rows.outcome == true).astype(np.float64) - (usual == true))
        found["outcome"] = np.where(judged, right, 0.0)
    return found


def _outcomes(rows: MeasuredRows) -> tuple[Ints | None, Ints | None]:
    """Predicted by hypothesis, and true. Rows for which no rule decides have the outcome -1."""
    if rows.outcome is None or rows.true_outcome is None:
        return None, None
    judged = rows.outcome >= 0
    predicted, true = rows.outcome[judged], rows.true_outcome[judged]
    kinds = 1 + int(max(predicted.max(initial=1), true.max(initial=1)))
    hypotheses = 1 + int(rows.hypothesis.max(initial=0))
    place = rows.hypothesis[judged] * kinds + predicted
    counts = np.bincount(place, minlength=hypotheses * kinds).reshape(hypotheses, kinds)
    return counts, np.bincount(true, minlength=kinds)


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
    prediction_share: float | None
    """Share of rows for which the most frequent prediction was made, of the hypothesis that
    predicted the row."""
    outcome_share: float | None
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
    intervals = _intervals(found, _JUDGED_AT, decisions=found.decision_gain)
    saved = np.average(found.constant_loss - found.loss, weights=found.weights)
    right, outcome = found.decision_gain, found.outcome_gain
    kinds: dict[Gain, float | None] = {
        "accuracy": None if right is None else float(right.sum()),
        "loss": float(saved),
        "outcome": None if outcome is None else float(outcome.sum()),
    }
    gained: dict[Gain, Gained | None] = dict.fromkeys(kinds)
    for (kind, gain), name in zip(kinds.items(), _GAINS, strict=True):
        if gain is not None:
            # By clients where there are enough for an interval, otherwise by rows one by one.
            low = intervals[name].low
            shown = found.gains[kind].shown if low is None else low > 0
            gained[kind] = Gained(gain, shown)
    return judge_model(
        accuracy=gained["accuracy"],
        loss=gained["loss"],
        outcome=gained["outcome"],
        prediction_share=_share(found.outcomes),
        outcome_share=_share(found.true_outcomes),
        threshold=found.threshold,
    )


def _share(outcomes: Ints | None) -> float | None:
    """Of counts [..., outcomes], what the most frequent of each line make of all."""
    if outcomes is None or not outcomes.sum():
        return None
    return int(outcomes.max(axis=-1).sum()) / int(outcomes.sum())


def _intervals(
    found: ConstantComparison, level: float, *, decisions: Floats | None = None
) -> dict[str, Interval]:
    """Of each of the gains; those that there are none of have no interval. `decisions`: the gain
    [clients] in decisions in the place of that in accuracy."""
    clients = len(found.rows)
    if clients < MIN_CLIENTS:
        reason = f"{clients} validation clients; an interval needs {MIN_CLIENTS}"
        return dict.fromkeys(_GAINS, Interval(None, None, reason))
    saved = (found.constant_loss - found.loss) * found.weights
    kinds = (
        (found.accuracy_gain, found.rows) if decisions is None else (decisions, found.decided),
        (saved, found.weights),
        (found.outcome_gain, found.decided),
    )
    intervals = {}
    for name, (gained, rows) in zip(_GAINS, kinds, strict=True):
        intervals[name] = Interval(None, None, "there is no such gain")
        if gained is not None:
            own = Clustered(np.stack([gained, rows], axis=-1)[:, np.newaxis])
            shares = gained is not saved
            [intervals[name]] = gain_intervals(own, level=level, are_shares=shares)
    return intervals
