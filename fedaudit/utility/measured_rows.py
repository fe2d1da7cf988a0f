"""The rows that a model is scored on, end to end, with what it made of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
