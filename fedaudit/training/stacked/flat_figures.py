"""Figures of one cell's validation clients from their rows end to end."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.training.base.final_groups import ScoredRows, final_groups
from fedaudit.training.base.group_counts import GroupCounter, RowPlaces
from fedaudit.training.stacked.validation import Figures


def flat_figures(
    counter: GroupCounter,
    rows: ScoredRows,
    places: RowPlaces,
    *,
    selection_loss: NDArray[np.float64],
    validation_loss: NDArray[np.float64],
    k: int,
    per_client: bool,
) -> Figures:
    """Figures as of a stack of one; the losses are [1]. `k`: hypotheses."""
    right, accuracy = counter.right(rows.predictions, places.place), None
    if right is not None:
        scored = right if rows.scored is None else right[rows.scored]
        accuracy = np.array([int(scored.sum()) / len(scored)])
    final = None
    if per_client:
        final = final_groups(counter, rows, places, k=k)
        counts = counter.count_clients(rows.predictions, places, scored=rows.scored)
    else:
        together = np.zeros(len(places.place), dtype=np.int64)
        counts = counter.count_rows(
            rows.predictions, places.place, together, slots=1, scored=rows.scored
        )
    return Figures(selection_loss, validation_loss, accuracy, counts, final)
