"""The best prediction that looks at nothing: for each hypothesis one answer for every row of its.

A class is always the most frequent one of the rows that are scored, and the probabilities behind
its loss are their frequencies. A number is that with the smallest loss. So nothing of the training
data goes into it. Of several hypotheses each has a constant of its own: clients choose between
them by their own rows, so a model of constants may be better than any one of them, and still looks
at nothing of the row that it predicts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.native.best_number import PredictedAlike, best_number
from fedaudit.utility.measured_rows import LossShape, MeasuredRows

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
