"""Clients of large data, whose rows are brought from the disk when they are asked for."""

import numpy as np
import torch
from numpy.typing import NDArray

from fedaudit.federations.federation import Federation
from fedaudit.training.base.length_classes import LengthClass
from fedaudit.training.stacked.client_tensors import Lanes, lane_rows


class GatheredLanes:
    """The clients of a length class as `StackData` gives them; nothing of them is kept."""

    def __init__(
        self, federation: Federation, one: LengthClass, device: torch.device, *, trims: bool
    ) -> None:
        """With `trims`, lanes are cut to the rows that their longest client needs."""
        self._federation = federation
        self._class = one
        self._device = device
        self._trims = trims

    def lanes(self, places: NDArray[np.int64]) -> Lanes:
        """The data of the clients at places [1, clients] of the class."""
        federation, clients = self._federation, self._class.clients[places[0]]
        counts, width = federation.counts[clients], federation.width
        rows = lane_rows(int(counts.max()), trims=True) if self._trims else self._class.rows
        packed = np.zeros((width + 2, rows, len(clients)), dtype=np.float32)
        place = federation.rows_of(clients)
        lane = np.repeat(np.arange(len(clients)), counts)
        turn = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        packed[:width, turn, lane] = federation.side_by_side[place].T
        packed[width, turn, lane] = federation.target[place]
        packed[width + 1, turn, lane] = 1
        taken = torch.from_numpy(packed).to(self._device)[:, :, None]
        count = torch.from_numpy(counts.astype(np.float32))[None].to(self._device)
        return Lanes(features=taken[:-2], target=taken[-2], mask=taken[-1], count=count)
