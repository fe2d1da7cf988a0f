"""What an audit plants among the clients of a round, and what it is shown of the round."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.training.base.planted import PlantedUpdates, SentUploads, SummedRound


def planted_places(
    planted: PlantedUpdates, clients: NDArray[np.int64]
) -> tuple[Tensor, NDArray[np.int64]]:
    """Where planted clients stand among these [clients], and which of the planted they are."""
    own = np.flatnonzero(np.isin(clients, planted.clients))
    return torch.from_numpy(own), np.searchsorted(planted.clients, clients[own])


def show_sum(
    planted: PlantedUpdates,
    clients: NDArray[np.int64],
    counted: Tensor,
    updates: Tensor,
    *,
    before: Tensor,
    after: Tensor,
) -> None:
    """Shows a round of one cell: `clients` and `counted` bool [1, clients], who added to the sum of
    the first hypothesis; `updates` [1, clients, n]; `before`, `after` [1, k, n]."""
    own = counted[0].cpu().numpy()
    planted.see_sum(
        SummedRound(
            clients=clients[0][own],
            updates=updates[0].cpu().numpy()[own],
            before=before[0, 0].cpu().numpy(),
            after=after[0, 0].cpu().numpy(),
        )
    )


def show_uploads(
    planted: PlantedUpdates,
    clients: NDArray[np.int64],
    present: Tensor,
    start: Tensor,
    uploads: Tensor,
) -> None:
    """Shows what planted clients sent in a round of one cell: `clients` and `present` bool [1,
    clients]; `start` and `uploads` [1, clients, n]."""
    own = np.flatnonzero(np.isin(clients[0], planted.clients) & present[0].cpu().numpy())
    planted.see_uploads(
        SentUploads(
            clients=clients[0][own],
            start=start[0].cpu().numpy()[own],
            uploads=uploads[0].cpu().numpy()[own],
        )
    )
