"""The sum of what clients send for each hypothesis."""

import torch
from torch import Tensor

from fedaudit.reproducible import fixed_order_sum


def block_sums(updates: Tensor, present: Tensor, chosen: Tensor, *, hypotheses: int) -> Tensor:
    """Sums [cells, k, n] of the updates [cells, clients, n] of those who chose each hypothesis.

    In float64: rounding in single precision can let one client among thousands move the sum by
    more than the norm of its update, which the noise is scaled to.

    `present` bool and `chosen` int64 [cells, clients]. Clients who are not present only pad, and
    neither they nor other cells move the rounding: the axis is filled up to a power of two.
    """
    clients = updates.shape[1]
    missing = (1 << max(0, clients - 1).bit_length()) - clients
    filled = torch.nn.functional.pad(updates.double(), (0, 0, 0, missing))
    member = torch.nn.functional.pad(
        present[:, None]
        & (chosen[:, None] == torch.arange(hypotheses, device=chosen.device)[:, None]),
        (0, missing),
    )
    blocks = [
        fixed_order_sum(torch.where(one[..., None], filled, 0.0), 1) for one in member.unbind(1)
    ]
    return torch.stack(blocks, dim=1)
