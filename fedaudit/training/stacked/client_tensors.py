"""The clients of all cells on tensor axes, rows and features in front, clients last."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.federations.federation import Federation
from fedaudit.training.base.cell import Cell


@dataclass(frozen=True)
class Lanes:
    """Some clients of each cell: the last two axes are [cells, clients]."""

    features: Tensor
    """float32 [features, rows, cells, clients]."""
    target: Tensor
    """float32 [rows, cells, clients]; the class index for classification."""
    mask: Tensor
    """float32 [rows, cells, clients]: 1 for a row, 0 for padding."""
    count: Tensor
    """float32 [cells, clients]: rows of a client."""
    scored: Tensor | None = None
    """bool [rows, cells, clients]: the rows that are scored, where others choose for them."""

    @property
    def weight(self) -> Tensor:
        """float32 [rows, cells, clients]: each of a client's rows counts the same."""
        return self.mask / self.count


class StackData:
    """The federations behind a stack; cells that share one share its tensors."""

    def __init__(self, cells: Sequence[Cell], device: torch.device, *, trims: bool) -> None:
        """With `trims`, lanes are cut to the rows that their longest client needs."""
        federations: list[Federation] = []
        offsets: dict[int, int] = {}
        total = 0
        for cell in cells:
            if id(cell.federation) not in offsets:
                offsets[id(cell.federation)] = total
                federations.append(cell.federation)
                total += cell.federation.clients
        self.federations = federations
        self.offsets = np.array([offsets[id(cell.federation)] for cell in cells], dtype=np.int64)
        self._rows_of = np.concatenate([part.counts for part in federations])
        # Of clients that all need as many rows none has to be looked at.
        ends = (self._rows_of.min(), self._rows_of.max())
        shortest, longest = (lane_rows(int(rows), trims=True) for rows in ends)
        self._trims = trims and shortest < longest
        self._columns = torch.from_numpy(_packed(federations, trims)).to(device)
        self._count = torch.from_numpy(self._rows_of.astype(np.float32)).to(device)
        self.device = device
        self.elements = self._columns.shape[0] * self._columns.shape[1]
        """Numbers held for one client."""

    def columns(self, clients: NDArray[np.int64], positions: Sequence[int]) -> NDArray[np.int64]:
        """Columns of the tensors for clients [..., cells, clients] of the cells at `positions`."""
        return clients + self.offsets[positions, None]

    def rows_needed(self, columns: NDArray[np.int64]) -> int:
        """The rows to compute for the clients at columns, padding included."""
        if not self._trims:
            return self._columns.shape[1]
        return lane_rows(int(self._rows_of[columns].max()), trims=True)

    def by_client(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Features, target and mask, client by client, [clients, features + 2, rows], and each
        client's rows [clients]: on the host, in one piece."""
        packed = self._columns.cpu().numpy().transpose(2, 0, 1)
        return np.ascontiguousarray(packed), self._count.cpu().numpy()

    def lanes(self, columns: NDArray[np.int64]) -> Lanes:
        """The data of the clients at columns [cells, clients]."""
        packed = self._columns[:, : self.rows_needed(columns)]
        index = torch.from_numpy(columns.ravel()).to(self.device)
        taken = torch.unflatten(packed.index_select(-1, index), -1, columns.shape)
        count = torch.unflatten(self._count.index_select(0, index), 0, columns.shape)
        return Lanes(features=taken[:-2], target=taken[-2], mask=taken[-1], count=count)


def with_scored(lanes: Lanes, scored: NDArray[np.bool_] | None) -> Lanes:
    """The lanes with their scored rows [cells, clients, rows], however far the lanes are padded."""
    if scored is None:
        return lanes
    rows = min(scored.shape[-1], len(lanes.mask))
    padded = torch.zeros_like(lanes.mask, dtype=torch.bool)
    padded[:rows] = torch.from_numpy(scored[..., :rows]).to(padded.device).permute(2, 0, 1)
    return replace(lanes, scored=padded)


def _packed(federations: Sequence[Federation], trims: bool) -> NDArray[np.float32]:
    """Features, target and mask of all clients, [features + 2, rows, clients].

    One array, so that a cohort is taken out in one go. Where lanes are trimmed, rows are padded
    to a power of two: sums by halves (`fold`) are then the same with and without the padding.
    """
    clients = sum(part.clients for part in federations)
    rows, features = federations[0].longest, federations[0].width
    padded = lane_rows(rows, trims=trims)
    packed = np.zeros((features + 2, padded, clients), dtype=np.float32)
    start = 0
    for part in federations:
        own = slice(start, start + part.clients)
        packed[:features, :rows, own] = part.padded(part.side_by_side).transpose(2, 1, 0)
        packed[features, :rows, own] = part.padded(part.target).T
        packed[features + 1, :rows, own] = np.arange(rows)[:, np.newaxis] < part.counts
        start += part.clients
    return packed


def lane_rows(longest: int, *, trims: bool) -> int:
    """To how many rows clients are padded of whom the longest has so many: with `trims` to the
    smallest power of two that is not below it."""
    return 1 << (longest - 1).bit_length() if trims else longest
