"""A model beside the best constant prediction, on the same rows, client by client.

That is one answer for every row of a hypothesis. A class is always the most frequent one of the
scored rows, and the probabilities behind its loss are their frequencies. A number is the one with
the smallest loss. So it contains nothing of the training data. Each of several hypotheses has its
own constant: clients choose between them by their own rows, so a model of constants may be better
than any one of them, and still ignores the row that it predicts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

import numpy as np

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.fairness.gaps import GroupScores
from fedaudit.fairness.intervals import Clustered, Interval, gain_intervals
from fedaudit.fairness.ranking import Ranking, ScoredOutcomes, rank_rows

RowLoss = Literal["squared", "log"]


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredRows:
    """Every array is [rows]. Confidential."""

    client: Ints
    """The row's client, from 0 and below `clients`; every client has a row."""
    clients: int
    target: Floats
    """Target as the loss compares it: scaled, or the class index."""
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
    """Scored outcomes of the positive class; None where predictions have no scores."""
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
        sums = np.bincount(rows.client, weights=values, minlength=rows.clients)
        means: Floats = sums / np.bincount(rows.client, minlength=rows.clients)
        return np.sqrt(means) if self.root_mean else means

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


def best_constant(rows: MeasuredRows, shape: LossShape) -> Floats:
    """The loss of each row under the best constants for the rows, before any root: [rows]."""
    own, weights = rows.hypothesis, shape.row_weights(rows)
    if shape.classes:
        truth = rows.target.astype(np.int64)
        shares = _counts(truth, rows, weights, kinds=shape.classes)
        shares /= np.maximum(shares.sum(-1, keepdims=True), _TINY)
        return _losses(shares, own, truth, shape)
    sums = np.bincount(own, weights=weights * rows.target)
    found: Floats = sums / np.maximum(np.bincount(own, weights=weights), _TINY)
    if shape.root_mean:
        found = _smallest(rows, shape.client_weights(rows), found)
    return (rows.target - found[own]) ** 2


_TINY = np.finfo(np.float64).tiny


def most_frequent(values: Ints, rows: MeasuredRows, weights: Floats | None = None) -> Ints:
    """Return for each row the most frequent of `values` [rows] over its hypothesis's rows, which
    count by their `weights` [rows]: [rows]."""
    counts = _counts(values, rows, weights, kinds=1 + int(values.max(initial=0)))
    return np.asarray(counts.argmax(-1)[rows.hypothesis], dtype=np.int64)


def _counts(values: Ints, rows: MeasuredRows, weights: Floats | None, *, kinds: int) -> Floats:
    """[k, kinds]: how many rows of each hypothesis have each of `values`, by their weights."""
    hypotheses = 1 + int(rows.hypothesis.max(initial=0))
    place = rows.hypothesis * kinds + values
    return _added(place, weights, kinds=hypotheses * kinds).reshape(hypotheses, kinds)


def _losses(shares: Floats, own: Ints, truth: Ints, shape: LossShape) -> Floats:
    """The loss of each row of true class [rows] under its own of the probabilities [k, classes]."""
    right = shares[own, truth]
    match shape.row:
        case "log":
            found: Floats = -np.log(right)
            return found
        case "squared":
            # Over all classes: (1 - p)^2 for the true one and p^2 for each of the others.
            others = (shares**2).sum(-1)[own] - right**2
            return np.asarray(((1.0 - right) ** 2 + others) / shape.classes)
        case _:
            assert_never(shape.row)


_STEPS = 1000
_STILL = 1e-14
_SHRINKS = 0.01


def _smallest(rows: MeasuredRows, weights: Floats, start: Floats) -> Floats:
    """The constants [k] with the smallest mean of the clients' root mean squares, which count by
    their `weights` [clients]. Where clients have rows of several hypotheses, by iteratively
    reweighted least squares: a root is below its tangent in the sum of squares, whose minimum is a
    weighted mean. Something is added to the sums, less at each step: otherwise a constant that
    equals all rows of a client would never change again."""
    # A root mean square is this much of the root of the sum.
    scale: Floats = weights / np.sqrt(np.bincount(rows.client, minlength=rows.clients))
    own = np.zeros(rows.clients, dtype=np.int64)
    own[rows.client] = rows.hypothesis
    if (own[rows.client] == rows.hypothesis).all():
        return _lowest(rows, scale, own, kinds=len(start))
    found, before, added = start, math.inf, float(np.ptp(rows.target)) ** 2
    for _ in range(_STEPS):
        squares = _sums(rows, (rows.target - found[rows.hypothesis]) ** 2)
        loss = float(scale @ np.sqrt(squares + added))
        if before - loss <= _STILL * loss:
            break
        before, added = loss, added * _SHRINKS
        pull = (scale / np.sqrt(np.maximum(squares + added, _TINY)))[rows.client]
        of_each = np.maximum(_added(rows.hypothesis, pull), _TINY)
        found = _added(rows.hypothesis, pull * rows.target) / of_each
    return found


_HALVINGS = 60


def _lowest(rows: MeasuredRows, scale: Floats, own: Ints, *, kinds: int) -> Floats:
    """The same where all rows of a client are of its `own` hypothesis [clients]: the loss is then
    convex in each constant by itself, and the place where its slope changes sign is bisected."""
    size = _added(rows.client)
    mean = _sums(rows, rows.target) / size
    spread = _sums(rows, (rows.target - mean[rows.client]) ** 2)
    low, high = np.full(kinds, mean.min()), np.full(kinds, mean.max())
    for _ in range(_HALVINGS):
        middle: Floats = (low + high) / 2
        gap = middle[own] - mean
        pull = scale * size / np.sqrt(np.maximum(spread + size * gap**2, _TINY))
        falls = _added(own, pull * gap, kinds=kinds) < 0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    return middle


NORMAL_95 = 1.959964
"""The quantile that leaves 2.5 % of the normal distribution above it."""
Gain = Literal["accuracy", "loss", "outcome"]
"""A gain in right classifications, in the loss before any root, or in right outcomes."""


def _by_rows(gains: Floats, weights: Floats) -> Interval:
    """The interval at 95 % of the mean of gains [rows], by rows that are taken one by one."""
    half = NORMAL_95 * math.sqrt((gains**2).sum())
    low, high = ((gains.sum() + end) / weights.sum() for end in (-half, half))
    return Interval(float(low), float(high))


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
    by_rows: Mapping[Gain, Interval]
    """Intervals of the gains by rows that are taken one by one, as of `_by_rows`."""
    decided: Floats
    """Its rows, weighted by `MeasuredRows.weights`."""
    decision_gain: Floats | None
    """Weighted rows that only the model classifies correctly, minus those that only the constant
    that is best under these weights does. None for a number."""
    outcome_gain: Floats | None
    """The same for outcomes, favourable or not."""
    threshold: float = 0.5
    counts: Ints | None = None
    """[4]: true and false positives and negatives of all rows; None without two outcomes."""
    ranking: Ranking | None = None
    """Ranking of the judged rows; None where predictions have no scores."""

    @property
    def accuracy_gain(self) -> Ints | None:
        """Rows that the model alone classifies correctly, less those that the constant alone does;
        None for a number."""
        if self.correct is None or self.constant_correct is None:
            return None
        return self.correct - self.constant_correct

    @property
    def saved(self) -> Floats:
        """How much smaller than the constant's the losses are, as clients count."""
        return (self.constant_loss - self.loss) * self.weights


def compare_with_constant(rows: MeasuredRows, shape: LossShape) -> ConstantComparison:
    """The model's rows beside the best constant for them."""
    constant_values = best_constant(rows, shape)
    constant: ConstantKind = "number" if shape.root_mean else "mean"
    correct = constant_correct = None
    if shape.classes:
        constant, truth = "majority", rows.target.astype(np.int64)
        correct = _count(rows, rows.predicted == rows.target)
        constant_correct = _count(rows, truth == most_frequent(truth, rows))
    outcomes, true_outcomes, counts = _outcomes(rows)
    gains = _gains(rows, constant_values, classifies=shape.classes > 0)
    return ConstantComparison(
        constant=constant,
        rows=_count(rows, np.ones(len(rows.client), dtype=np.bool_)),
        correct=correct,
        constant_correct=constant_correct,
        loss=shape.of_clients(rows.values, rows),
        constant_loss=shape.of_clients(constant_values, rows),
        weights=shape.client_weights(rows),
        outcomes=outcomes,
        true_outcomes=true_outcomes,
        by_rows={
            name: _by_rows(gain, np.ones(len(gain)) if name == "loss" else rows.weights)
            for name, gain in gains.items()
        },
        decided=_sums(rows, rows.weights),
        decision_gain=_sums(rows, gains["accuracy"]) if "accuracy" in gains else None,
        outcome_gain=_sums(rows, gains["outcome"]) if "outcome" in gains else None,
        rows_by_group={
            name: np.bincount(codes[codes >= 0], minlength=groups)
            for name, (groups, codes) in rows.groups.items()
        },
        threshold=rows.threshold,
        counts=counts,
        ranking=_ranking(rows),
    )


def _ranking(rows: MeasuredRows) -> Ranking | None:
    """Rank the judged rows only, as `outcomes`: with the others in it, a difference of the two
    would give the outcomes of these few."""
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


def _count(rows: MeasuredRows, which: Bools) -> Ints:
    return np.bincount(rows.client[which], minlength=rows.clients)


def _sums(rows: MeasuredRows, values: Floats) -> Floats:
    return _added(rows.client, values, kinds=rows.clients)


def _added(places: Ints, values: Floats | None = None, *, kinds: int = 0) -> Floats:
    """The sums of the values at each place, of at least so many: [places]; counts without any."""
    return np.bincount(places, values, minlength=kinds).astype(np.float64, copy=False)


def _gains(rows: MeasuredRows, constant_values: Floats, *, classifies: bool) -> dict[Gain, Floats]:
    """How much better the model is on each row: [rows]. Decisions count by their weights, beside
    the constant that is best when they do."""
    weights = rows.weights
    found: dict[Gain, Floats] = {"loss": constant_values - rows.values}
    if classifies:
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


def _outcomes(rows: MeasuredRows) -> tuple[Ints | None, Ints | None, Ints | None]:
    """Predicted by hypothesis, true, and the four counts of two outcomes. Rows for which no rule
    decides have the outcome -1."""
    if rows.outcome is None or rows.true_outcome is None:
        return None, None, None
    judged = rows.outcome >= 0
    predicted, true = rows.outcome[judged], rows.true_outcome[judged]
    kinds = 1 + int(max(predicted.max(initial=1), true.max(initial=1)))
    hypotheses = 1 + int(rows.hypothesis.max(initial=0))
    place = rows.hypothesis[judged] * kinds + predicted
    counts = np.bincount(place, minlength=hypotheses * kinds).reshape(hypotheses, kinds)
    # In the order of COUNTS: positives that are true, false, then negatives.
    four = np.bincount(2 * predicted + true, minlength=4)[[3, 2, 0, 1]]
    return counts, np.bincount(true, minlength=kinds), four if rows.two_outcomes else None


_JUDGED_AT = 0.95
MIN_CLIENTS = 20
"""Below this, the variance between clients is not trusted to judge a model."""
NO_INTERVALS = "the spec asks for no intervals"


def over_constant(found: ConstantComparison) -> dict[str, float | None]:
    """The figures of a comparison, None for what a target of its kind has not."""
    rows = int(found.rows.sum())
    baseline = gain = None
    if found.correct is not None and found.constant_correct is not None:
        baseline = int(found.constant_correct.sum()) / rows
        gain = int(found.correct.sum()) / rows - baseline
    loss, constant_loss = (
        float(np.average(values, weights=found.weights))
        for values in (found.loss, found.constant_loss)
    )
    return {
        "baseline_accuracy": baseline,
        "baseline_loss": constant_loss,
        "accuracy_over_baseline": gain,
        "loss_under_baseline": constant_loss - loss,
        "prediction_share": _share(found.outcomes),
        "outcome_share": _share(found.true_outcomes),
    }


def gain_interval(
    gained: Floats | Ints, of: Floats | Ints, *, level: float, are_shares: bool
) -> Interval | str:
    """Interval of what was gained over a fixed constant, [clients], `of` so much of each client, or
    why there is none; `are_shares` as in `gain_intervals`."""
    clients = len(of)
    if clients < MIN_CLIENTS:
        return f"{clients} validation clients; an interval needs {MIN_CLIENTS}"
    own = Clustered(np.stack([gained, of], axis=-1)[:, np.newaxis])
    [found] = gain_intervals(own, level=level, are_shares=are_shares)
    return found


_LOSS = "loss"
NEARLY_CONSTANT = "one outcome is predicted for nearly all rows, so equal rates mean nothing"
OF_OUTCOME = "right predictions of the favourable outcome"
_NEARLY = ((0.99, 0.5), (0.9, 0.1))
"""The share of rows with one prediction from which a model may be nearly constant, and the ratio of
other predictions to other outcomes below which it is: a rare outcome that is predicted half as
often as it occurs is not overlooked."""


@dataclass(frozen=True)
class Judgement:
    """Whether the model is degenerate, or None if unknown, with the reason unless it is shown not
    to be."""

    degenerate: bool | None
    reason: str | None


@dataclass(frozen=True)
class Gained:
    """How much better a model is than the constant in one respect."""

    gain: float
    interval: Interval | None
    """At 95 %; None where clients are of so uneven sizes that nothing can show a gain."""
    how: str = ""
    """How the interval was found, in words; empty where its ends may not be stated."""
    shares: str = ""
    """What of the model's and of the constant's is right, in words; empty where not stated."""

    @property
    def shown(self) -> bool:
        """Whether that it is above 0 is shown."""
        return self.interval is not None and self.interval.low > 0


def judge_model(
    gains: Mapping[Gain, Gained],
    *,
    prediction_share: float | None,
    outcome_share: float | None,
    threshold: float = 0.5,
) -> Judgement:
    """Judges a model by its gains over the constant, those that are known, and by how often it
    predicts the same.

    The gain in accuracy counts by the `threshold`. The shares are as in `over_constant`. The model
    is degenerate where it is nearly constant or better in neither accuracy nor loss, and not known
    to be otherwise where it is not better, or not shown to be, in all of the gains.
    """
    if _is_nearly_constant(prediction_share, outcome_share):
        return Judgement(True, NEARLY_CONSTANT)
    names = {"accuracy": "accuracy", "loss": _LOSS, "outcome": OF_OUTCOME}
    if threshold != 0.5:
        weighed = f"as the threshold of {threshold:g} weighs errors"
        names["accuracy"] = f"right decisions, which count {weighed},"
    known = {names[kind]: one for kind, one in gains.items()}
    first = [one for kind, one in gains.items() if kind != "outcome"] or list(gains.values())
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
            same = "the model is no better than always giving the same answer"
            return f"by {name} {same}{one.shares}"
        if not one.shown and name != _LOSS:
            return _not_shown(name, one)
    return None if any(one.shown for one in first) else _not_shown(*next(iter(known.items())))


def _not_shown(name: str, one: Gained) -> str:
    why = f"clients of so uneven sizes allow no interval of its gain in {name}"
    if one.interval is not None:
        ends = f" ({one.interval.low:.3g} to {one.interval.high:.3g}, {one.how})"
        why = f"the 95% interval of its gain in {name} reaches 0{ends if one.how else ''}"
    return f"the model may be no better than always giving the same answer: {why}"


def _is_nearly_constant(prediction_share: float | None, outcome_share: float | None) -> bool:
    if prediction_share is None:
        return False
    otherwise = 1.0 - prediction_share
    rare = 0.0 if outcome_share is None else 1.0 - outcome_share
    return otherwise == 0 or any(
        prediction_share >= share and otherwise < least * rare for share, least in _NEARLY
    )


def judge_comparison(
    found: ConstantComparison, *, clients_trained: bool, rounded: bool = False
) -> Judgement:
    """Whether the model is degenerate, at 95 % whatever level a spec asks for. Beside `rounded`
    counts the ends of its interval, which would disclose them, are not stated.

    Rows decide one by one, and for these clients alone, where too few were scored for an interval.
    Enough clients without one are of very uneven sizes: rows of the largest say nothing of other
    clients, and decide only if the same `clients_trained`.
    """
    by_rows = clients_trained or len(found.rows) < MIN_CLIENTS
    gains: dict[Gain, tuple[Floats | None, Floats]] = {
        "accuracy": (found.decision_gain, found.decided),
        "loss": (found.saved, found.weights),
        "outcome": (found.outcome_gain, found.decided),
    }
    gained = dict[Gain, Gained]()
    for kind, (gain, of) in gains.items():
        if gain is not None:
            own = gain_interval(gain, of, level=_JUDGED_AT, are_shares=kind != "loss")
            interval, how = (None if isinstance(own, str) else own), "by differences of clients"
            if interval is None and by_rows:
                interval, how = found.by_rows[kind], "by rows taken one by one"
                how += ", before any root" if kind == "loss" else ""
            shares, counts = "", found.counts
            if kind == "outcome" and counts is not None and found.threshold == 0.5 and not rounded:
                right = [int(counts[[0, 2]].sum()) - less for less in (0, gain.sum())]
                own, same = (one / max(1, counts.sum()) for one in right)
                shares = f" (right for {own:.1%} of rows, and the same answer for {same:.1%})"
            gained[kind] = Gained(float(gain.sum()), interval, "" if rounded else how, shares)
    return judge_model(
        gained,
        prediction_share=_share(found.outcomes),
        outcome_share=_share(found.true_outcomes),
        threshold=found.threshold,
    )


def _share(outcomes: Ints | None) -> float | None:
    """The share of the most frequent outcome of each line in all counts [..., outcomes]."""
    if outcomes is None or not outcomes.sum():
        return None
    return int(outcomes.max(axis=-1).sum()) / int(outcomes.sum())


@dataclass(frozen=True, kw_only=True)
class ScoredFigures:
    """What a run's best hypotheses score on all validation clients. Confidential."""

    rounds: int
    best_round: int
    selection_loss: float | None
    """The smallest over hypotheses; None, like the next two, where nothing was scored so."""
    validation_loss: float | None
    accuracy: float | None
    fairness: Mapping[str, Ints]
    """Attribute -> counts of each validation client: [validation clients, groups, 4]."""
    single_row_clients: int = 0
    """Validation clients with one row, scored with the largest hypothesis, or with the first if it
    is secret which one is the largest."""
    collapsed_rounds: int = 0
    scores: Mapping[str, GroupScores] = field(default_factory=dict)
    """Attribute -> loss and accuracy of each validation client's rows, by group."""
    against_constant: ConstantComparison | None = None
    """The same rows under the best constant prediction; None where it was not handed
    over."""
    start_loss: float | None = None
    """The selection loss of the hypotheses that training started from, on the same clients; None
    where unknown."""
    threshold: float | None = None
    """The probability above which the second of two classes is predicted; None for other targets.
    """
