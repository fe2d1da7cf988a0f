"""Networks that are computed one cell at a time, by matrix products and autograd.

A cell is computed alone, so its numbers cannot depend on the stack; clients stay on a tensor axis.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from fedaudit.networks.losses import Loss


class CellByCell(ABC):
    """Forward and gradient of a network, given how it maps inputs to outputs."""

    n: int
    """Parameters."""
    rows_at_once: int | None = None
    """How many rows of each client to compute at once, for temporaries to stay small; None for all
    of them."""

    def forward(self, theta: Tensor, features: Tensor) -> Tensor:
        """Outputs [out, k, rows, cells, clients] of hypotheses theta [cells, k, n].

        `features`: [inputs, rows, cells, clients].
        """
        rows, clients = features.shape[1], features.shape[3]
        cells = []
        for cell in range(theta.shape[0]):
            pieces = []
            for piece in self._pieces(rows):
                inputs = features[:, piece, cell].permute(1, 2, 0).flatten(0, 1)
                outputs = self._apply(theta[cell], inputs.expand(theta.shape[1], -1, -1))
                pieces.append(torch.unflatten(outputs.permute(2, 0, 1), 2, (-1, clients)))
            cells.append(pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=2))
        return torch.stack(cells, dim=3)

    def gradient(
        self, theta: Tensor, features: Tensor, target: Tensor, weight: Tensor, loss: Loss
    ) -> Tensor:
        """Gradient [n, cells, clients] of each client's loss at its own theta [n, cells, clients].

        `features` [inputs, rows, cells, clients]; `target` and `weight` [rows, cells, clients]; the
        weights of a client sum to 1, or to 0 where it has no rows in the batch.
        """
        cells = []
        for cell in range(theta.shape[1]):
            own = theta[:, cell].t().contiguous().requires_grad_()
            found = []
            for piece in self._pieces(features.shape[1]):
                with torch.enable_grad():
                    inputs = features[:, piece, cell].permute(2, 1, 0)
                    outputs = self._apply(own, inputs).permute(2, 1, 0)
                    values = loss.values(outputs, target[piece, cell])
                    means = (values * weight[piece, cell]).sum(0)
                    # Clients share no parameter: one pass gives every client its own gradient.
                    (slope,) = torch.autograd.grad(means.sum(), own)
                found.append((means.detach(), slope))
            means, slope = (sum(parts[1:], parts[0]) for parts in zip(*found, strict=True))
            cells.append(slope * loss.client_slope(means)[:, None])
        return torch.stack(cells).permute(2, 0, 1)

    def _pieces(self, rows: int) -> list[slice]:
        step = self.rows_at_once or rows
        return [slice(start, start + step) for start in range(0, rows, step)]

    @abstractmethod
    def _apply(self, theta: Tensor, inputs: Tensor) -> Tensor:
        """Outputs [batch, rows, out] of parameters [batch, n] on inputs [batch, rows, in]."""
