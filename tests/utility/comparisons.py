"""Comparisons with a constant that tests of other rooms hand to reports."""

from collections.abc import Mapping

import numpy as np

from fedaudit.arrays import Ints
from fedaudit.fairness.intervals import Interval
from fedaudit.utility import ConstantComparison


def useful_model(
    clients: int, *, rows_by_group: Mapping[str, Ints] | None = None
) -> ConstantComparison:
    """Clients of ten rows each, on whom a regression is twice as good as the constant."""
    return ConstantComparison(
        constant="number",
        rows=np.full(clients, 10),
        correct=None,
        constant_correct=None,
        loss=np.full(clients, 0.5),
        constant_loss=np.full(clients, 1.0),
        weights=np.ones(clients),
        outcomes=np.array([[3, 2], [2, 3]]) * clients,
        true_outcomes=np.array([5, 5]) * clients,
        by_rows={"loss": Interval(0.4, 0.6)},
        decided=np.full(clients, 10.0),
        decision_gain=None,
        outcome_gain=None,
        rows_by_group=rows_by_group or {},
    )
