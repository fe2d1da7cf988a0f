"""The clients of all cells on tensor axes, rows and features in front, clients last."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.federations.federation import Federation
from fedaudit.federations.split import split_clients
from fedaudit.training.cell import Cell


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

    @property
    def weight(self) -> Tensor:
        """float32 [rows, cells, clients]: each of a client's rows counts the same."""
        return self.mask / self.count


class StackData:
    """The federations behind a stack; cells that share one share its tensors."""

    def __init__(self, cells: Sequence[Cell], device: torch.device) -> None:
        federations: list[Federation] = []
        offsets: dict[int, int] = {}
        total = 0
        for cell in cells:
            if id(cell.federation) not in offsets:
                offsets[id(cell.federation)] = total
                federations.append(cell.federation)
                total += cell.federation.clients
        self.federations = federations
        self.offsets = [offsets[id(cell.federation)] for cell in cells]
        splits = [
            split_clients(
                cell.federation.clients,
                validation_fraction=cell.spec.federation.validation_fraction,
                seed=cell.spec.seed,
            )
            for cell in cells
        ]
        # [cells, clients]: client indices within each cell's own federation.
        self.training = np.stack([split.training for split in splits]).astype(np.int64)
        self.validation = np.stack([split.validation for split in splits]).astype(np.int64)
        features = np.concatenate([part.features for part in federations])
        self._features = torch.from_numpy(features).permute(2, 1, 0).contiguous().to(device)
        self._target = self.columns([part.target for part in federations], device)
        mask = self.columns([part.mask for part in federations], device)
        self._mask = mask.to(torch.float32)
        self._count = self._mask.sum(0)
        self.device = device

    @staticmethod
    def columns(parts: Sequence[NDArray[np.generic]], device: torch.device) -> Tensor:
        """Arrays [clients, rows] of each federation as one tensor [rows, all clients]."""
        return torch.from_numpy(np.concatenate(parts)).t().contiguous().to(device)

    def index(self, clients: NDArray[np.int64], positions: Sequence[int]) -> Tensor:
        """Columns of the tensors for clients [cells, clients] of the cells at `positions`."""
        offsets = np.array([self.offsets[position] for position in positions])[:, None]
        return torch.from_numpy(clients + offsets).to(self.device)

    def lanes(self, index: Tensor) -> Lanes:
        """The data of the clients at index [cells, clients]."""
        return Lanes(
            features=take(self._features, index),
            target=take(self._target, index),
            mask=take(self._mask, index),
            count=take(self._count, index),
        )


def take(columns: Tensor, index: Tensor) -> Tensor:
    """Columns [..., all clients] at index [cells, clients]: [..., cells, clients]."""
    return columns.index_select(-1, index.flatten()).unflatten(-1, tuple(index.shape))
