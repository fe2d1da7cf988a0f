"""The rows of one federation's clients, brought to the device a part of a client at a time."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.federations.federation import ClientRows, Federation

Rows = slice | NDArray[np.int64]


@dataclass(frozen=True)
class ClientData:
    """Features and targets by client; nothing is copied but the rows asked for."""

    federation: Federation
    device: torch.device

    def rows(self, client: int) -> int:
        """How many rows a client has."""
        return int(self.federation.counts[client])

    def features(self, client: int, rows: Rows) -> Tensor:
        """float32 [rows, features]."""
        kept = self.federation.features
        assert isinstance(kept, ClientRows)
        own = kept.values[self.federation.own(client)][rows]
        values = np.divide(own, kept.divisor, dtype=np.float32)
        return torch.from_numpy(values).to(self.device)

    def target(self, client: int, rows: Rows) -> Tensor:
        """float32 [rows]."""
        own = self.federation.target[self.federation.own(client)][rows]
        return torch.from_numpy(own).to(self.device)
