"""Figures of a round from what hypotheses score on each of its held-out clients."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from fedaudit.training.base.final_groups import ScoredRows
from fedaudit.training.base.group_counts import GroupCounter, RowPlaces
from fedaudit.training.one_by_one.client_scores import ClientScores
from fedaudit.training.stacked.flat_figures import flat_figures
from fedaudit.training.stacked.validation import Figures


def client_figures(
    counter: GroupCounter,
    found: Sequence[ClientScores],
    places: RowPlaces,
    *,
    scored: NDArray[np.bool_] | None,
    k: int,
    per_client: bool,
) -> Figures:
    """Figures of k hypotheses on clients whose rows lie at `places`; `scored` bool [their rows]."""
    hypotheses = [
        np.zeros(len(one.values), dtype=np.int64) if one.hypotheses is None else one.hypotheses
        for one in found
    ]
    rows = ScoredRows(
        predictions=np.concatenate([one.predictions for one in found]),
        values=np.concatenate([one.values for one in found]),
        hypotheses=np.concatenate(hypotheses),
        scored=scored,
    )
    return flat_figures(
        counter,
        rows,
        places,
        selection_loss=_mean([one.selection_loss for one in found]),
        validation_loss=_mean([one.validation_loss for one in found]),
        k=k,
        per_client=per_client,
    )


def _mean(losses: Sequence[float]) -> NDArray[np.float64]:
    """The mean over clients: [1]."""
    mean: NDArray[np.float64] = torch.tensor(losses, dtype=torch.float64)[:, None].mean(0).numpy()
    return mean
