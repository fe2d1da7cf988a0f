"""The number that predicts some rows best, by the compiled kernels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.native.library import kernels, line, place_of


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictedAlike:
    """Rows of which the `own` are predicted as one number, and their clients."""

    target: NDArray[np.float64]
    client: NDArray[np.int64]
    own: NDArray[np.bool_]
    """All three [rows]."""
    values: NDArray[np.float64]
    """[rows]: the losses of the others."""
    weights: NDArray[np.float64]
    """[clients]: how much a client's loss counts, the root of the mean of its rows' values."""


def best_number(
    rows: PredictedAlike, *, low: float, high: float, golden: float, steps: int
) -> float | None:
    """Where the weighted mean loss of the clients is smallest between two ends, by so many steps
    of golden section; None without kernels."""
    library = kernels()
    if library is None:
        return None
    clients = len(rows.weights)
    counts = np.bincount(rows.client, minlength=clients).astype(np.float64)
    touched = np.zeros(clients, dtype=np.bool_)
    touched[rows.client[rows.own]] = True
    here = touched[rows.client]
    sums = np.bincount(rows.client, weights=rows.values, minlength=clients)
    terms = np.sqrt(sums / counts) * rows.weights
    own, places = line(rows.own[here], np.bool_), np.flatnonzero(touched)
    target, fixed, client = rows.target[here], rows.values[here], rows.client[here]
    weights, found = line(rows.weights, np.float64), np.empty(1)
    library.fedaudit_best_number(
        *(place_of(part) for part in (target, fixed, client, own)),
        len(own),
        place_of(places),
        len(places),
        *(place_of(part) for part in (counts, weights, terms, sums)),
        clients,
        float(weights.sum()),
        low,
        high,
        golden,
        steps,
        place_of(found),
    )
    return float(found[0])
