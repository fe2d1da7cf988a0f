"""Which hypothesis fits a client's own data (Algorithm 1, line 5)."""

import torch
from torch import Tensor

from fedaudit.networks.losses import Loss
from fedaudit.networks.network_choice import Network
from fedaudit.reproducible import fixed_order_sum
from fedaudit.training.stacked.client_tensors import Lanes


def choose_hypotheses(network: Network, theta: Tensor, lanes: Lanes, loss: Loss) -> Tensor:
    """The hypothesis with the smallest loss on each client's data: int64 [cells, clients].

    `theta`: [cells, k, n].
    """
    if theta.shape[1] == 1:
        return torch.zeros(lanes.count.shape, dtype=torch.int64, device=theta.device)
    values = loss.values(network.forward(theta, lanes.features), lanes.target)
    # The indices of `min`, because `argmin` over a leading axis is many times slower.
    return (totals(real_rows(values, lanes)) / lanes.count).min(0).indices


def client_losses(network: Network, theta: Tensor, lanes: Lanes, loss: Loss) -> Tensor:
    """Each client's loss under each hypothesis theta [cells, k, n]: [k, cells, clients]."""
    values = loss.values(network.forward(theta, lanes.features), lanes.target)
    return loss.client_loss(totals(real_rows(values, lanes)) / lanes.count)


def real_rows(values: Tensor, lanes: Lanes) -> Tensor:
    """Rows' values [k, rows, cells, clients] with 0 on padding, whatever was computed there."""
    return torch.where(lanes.mask > 0, values, 0.0)


def totals(values: Tensor) -> Tensor:
    """The sum over rows, [k, cells, clients]; infinite where a hypothesis has overflowed."""
    return without_nan(fixed_order_sum(values, 1))


def without_nan(losses: Tensor) -> Tensor:
    """Infinity, in place, for NaN, which `min` would take for the smallest loss."""
    return losses.nan_to_num_(nan=torch.inf, posinf=torch.inf)


def own_hypotheses(theta: Tensor, chosen: Tensor) -> Tensor:
    """The chosen parameters: [cells, clients, n]."""
    return theta.gather(1, chosen[..., None].expand(-1, -1, theta.shape[2]))
