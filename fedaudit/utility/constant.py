"""A model beside the best prediction that looks at nothing, on the same rows, client by client.

That is one answer for every row of a hypothesis. A class is always the most frequent one of the
rows that are scored, and the probabilities behind its loss are their frequencies. A number is that
with the smallest loss. So nothing of the training data goes into it. Of several hypotheses each has
a constant of its own: clients choose between them by their own rows, so a model of constants may be
better than any one of them, and still looks at nothing of the row that it predicts.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.native.library import PredictedAlike, best_number

RowLoss = Literal["squared", "log"]


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredRows:
    """Every array is [rows]. Confidential."""

    client: NDArray[np.int64]
    """The row's client, from 0 and below `clients`; every client has a row."""
    clients: int
    target: NDArray[np.float64]
    """As the loss compares it: scaled, or the class index."""
    predicted: NDArray[np.float64]
    """Likewise."""
    values: NDArray[np.float64]
    """The model's loss of the row, before any root."""
    outcome: NDArray[np.int64] | None
    """What was predicted, as one of few outcomes; None for a number without a favourable
    outcome."""
    true_outcome: NDArray[np.int64] | None
    """The true one; None with `outcome`."""
    hypothesis: NDArray[np.int64]
    """Which hypothesis predicted the row."""
    groups: Mapping[str, tuple[int, NDArray[np.int64]]]
    """Sensitive attribute -> how many groups it has, and the row's, -1 for none."""


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

    def of_clients(self, values: NDArray[np.float64], rows: MeasuredRows) -> NDArray[np.float64]:
        """Each client's loss from its rows' values [rows]: [clients]."""
        return self.client_means(rows)(values)

    def client_means(
        self, rows: MeasuredRows
    ) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
        """`of_clients` of these rows, for many values."""
        counts = np.bincount(rows.client, minlength=rows.clients)

        def losses(values: NDArray[np.float64]) -> NDArray[np.float64]:
            sums = np.bincount(rows.client, weights=values, minlength=rows.clients)
            means: NDArray[np.float64] = sums / counts
            return np.sqrt(means) if self.root_mean else means

        return losses

    def row_weights(self, rows: MeasuredRows) -> NDArray[np.float64]:
        """How much a row counts, [rows], adding up to 1."""
        if not self.by_client:
            return np.full(len(rows.client), 1.0 / len(rows.client))
        counts = np.bincount(rows.client, minlength=rows.clients)
        return np.asarray(1.0 / (rows.clients * counts[rows.client]), dtype=np.float64)

    def client_weights(self, rows: MeasuredRows) -> NDArray[np.float64]:
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
    correct: NDArray[np.bool_] | None
    """[rows]: whether it classifies the row rightly; None for a number."""
    values: NDArray[np.float64]
    """[rows]: its loss of the row, before any root."""


def best_constant(rows: MeasuredRows, shape: LossShape) -> ConstantPrediction:
    """The best constants for the rows."""
    if shape.classes:
        return _majorities(rows, shape)
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


def most_frequent(values: NDArray[np.int64], rows: MeasuredRows) -> NDArray[np.int64]:
    """For each row, the most frequent of `values` [rows] over its hypothesis's rows: [rows]."""
    found = np.zeros(len(values), dtype=np.int64)
    for own in _of_hypotheses(rows):
        if own.any():
            found[own] = np.bincount(values[own]).argmax()
    return found


def _of_hypotheses(rows: MeasuredRows) -> list[NDArray[np.bool_]]:
    return [rows.hypothesis == one for one in range(int(rows.hypothesis.max(initial=0)) + 1)]


def _majorities(rows: MeasuredRows, shape: LossShape) -> ConstantPrediction:
    truth, weights = rows.target.astype(np.int64), shape.row_weights(rows)
    values = np.zeros(len(truth))
    for own in _of_hypotheses(rows):
        if own.any():
            shares = np.bincount(truth[own], weights=weights[own], minlength=shape.classes)
            values[own] = _losses(shares / shares.sum(), truth[own], shape)
    return ConstantPrediction("majority", truth == most_frequent(truth, rows), values)


def _losses(
    shares: NDArray[np.float64], truth: NDArray[np.int64], shape: LossShape
) -> NDArray[np.float64]:
    """The loss of each row of true class [rows] under the probabilities [classes]."""
    match shape.row:
        case "log":
            found: NDArray[np.float64] = -np.log(shares[truth])
            return found
        case "squared":
            # Over all classes: (1 - p)^2 for the true one and p^2 for each of the others.
            others = (shares**2).sum() - shares[truth] ** 2
            return np.asarray(((1.0 - shares[truth]) ** 2 + others) / shape.classes)
        case _:
            assert_never(shape.row)


def _smallest(
    rows: MeasuredRows, shape: LossShape, found: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The constants [k] with the smallest loss, which is convex in them."""
    weights, mean = shape.client_weights(rows), shape.client_means(rows)
    ends = float(rows.target.min()), float(rows.target.max())
    total = weights.sum()
    owners = [np.flatnonzero(own) for own in _of_hypotheses(rows)]
    targets = [rows.target[own] for own in owners]

    def improved(place: int, values: NDArray[np.float64]) -> float:
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
"""The quantile of the normal distribution between whose ends lie 95 % of it."""
Gain = Literal["accuracy", "loss", "outcome"]
"""In right classifications, in the loss before any root, and in right outcomes."""


@dataclass(frozen=True)
class RowGains:
    """What the gains of single rows add up to."""

    total: float
    squares: float

    @classmethod
    def of(cls, gains: NDArray[np.float64]) -> "RowGains":
        """Of the gains of single rows [rows]."""
        return cls(float(gains.sum()), float((gains**2).sum()))

    @property
    def shown(self) -> bool:
        """Whether the rows, taken one by one, show the model to be better (at 95 %, two-sided)."""
        return self.total > NORMAL_95 * math.sqrt(self.squares)


@dataclass(frozen=True, eq=False)
class ConstantByGroup:
    """What the constant gets on the rows of each group: [clients, groups] each. Confidential."""

    rows: NDArray[np.int64]
    correct: NDArray[np.int64] | None
    constant_correct: NDArray[np.int64] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class ConstantComparison:
    """What the scored rows add up to. Confidential; arrays [clients] but for `outcomes`."""

    constant: ConstantKind
    rows: NDArray[np.int64]
    correct: NDArray[np.int64] | None
    """Rows that the model classifies rightly; None for a number."""
    constant_correct: NDArray[np.int64] | None
    """Those that the constant does."""
    loss: NDArray[np.float64]
    """The model's loss of each client."""
    constant_loss: NDArray[np.float64]
    weights: NDArray[np.float64]
    """How much a client counts in the validation loss."""
    outcomes: NDArray[np.int64] | None
    """[k, outcomes]: rows by the hypothesis that predicted them and what it predicted; None where
    a prediction is a number without a favourable outcome."""
    true_outcomes: NDArray[np.int64] | None
    """[outcomes]: the same rows by their true outcome."""
    by_group: Mapping[str, ConstantByGroup]
    """By sensitive attribute."""
    gains: Mapping[Gain, RowGains]
    """How much better the model is on each row."""
    outcome_gain: NDArray[np.int64] | None
    """Rows whose outcome the model alone predicts rightly, less those that the constant alone
    does."""


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
        outcome_gain=None if "outcome" not in gains else _sums(rows, gains["outcome"]),
        by_group={name: _by_group(rows, found, *group) for name, group in rows.groups.items()},
    )


def _count(rows: MeasuredRows, which: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.bincount(rows.client[which], minlength=rows.clients)


def _sums(rows: MeasuredRows, gains: NDArray[np.float64]) -> NDArray[np.int64]:
    # Sums of ones and minus ones are exact.
    return np.bincount(rows.client, weights=gains, minlength=rows.clients).astype(np.int64)


def _gains(rows: MeasuredRows, constant: ConstantPrediction) -> dict[Gain, NDArray[np.float64]]:
    """How much better the model is on each row: [rows]."""
    found: dict[Gain, NDArray[np.float64]] = {"loss": constant.values - rows.values}
    if constant.correct is not None:
        right = rows.predicted == rows.target
        found["accuracy"] = right.astype(np.float64) - constant.correct
    if rows.outcome is not None and rows.true_outcome is not None:
        judged = rows.outcome >= 0
        true = np.where(judged, rows.true_outcome, 0)
        usual = most_frequent(true, rows)
        right = (rows.outcome == true).astype(np.float64) - (usual == true)
        found["outcome"] = np.where(judged, right, 0.0)
    return found


def _by_group(
    rows: MeasuredRows, constant: ConstantPrediction, groups: int, codes: NDArray[np.int64]
) -> ConstantByGroup:
    grouped = codes >= 0
    place = (rows.client * groups + codes)[grouped]
    shape = rows.clients, groups

    def count(which: NDArray[np.bool_]) -> NDArray[np.int64]:
        chosen = place[which[grouped]]
        return np.bincount(chosen, minlength=rows.clients * groups).reshape(shape)

    right = constant.correct
    return ConstantByGroup(
        rows=count(np.ones(len(codes), dtype=np.bool_)),
        correct=None if right is None else count(rows.predicted == rows.target),
        constant_correct=None if right is None else count(right),
    )


def _outcomes(rows: MeasuredRows) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
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
