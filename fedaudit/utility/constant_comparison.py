"""A model beside the best constant on the same rows, client by client."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedaudit.utility.constant_prediction import (
    ConstantKind,
    ConstantPrediction,
    best_constant,
    most_frequent,
)
from fedaudit.utility.measured_rows import LossShape, MeasuredRows

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
