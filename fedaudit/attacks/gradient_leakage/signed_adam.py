"""Adam on the signs of slopes within a box, as gradients are inverted by Geiping et al. (2020)."""

from collections.abc import Callable

import torch
from torch import Tensor

Slopes = Callable[[Tensor], Tensor]
"""Slopes [functions, d] at points of the same shape."""

_STEP, _SHRINK = 0.1, 0.1
_SHRINKS_AT = (3 / 8, 5 / 8, 7 / 8)
_MEAN, _SQUARE, _LEAST = 0.9, 0.999, 1e-8


def minimise_signed(
    slopes_of: Slopes,
    start: Tensor,
    *,
    boxed: int,
    iterations: int,
    progress: Callable[[float], None] = lambda _: None,
) -> Tensor:
    """The last points [functions, d] from `start`.

    The first `boxed` components of each are kept within 0 and 1. Step sizes shrink to a tenth after
    three, five and seven eighths of the iterations. `progress` is given the share of them done.
    """
    points = start.clone()
    mean, square = torch.zeros_like(points), torch.zeros_like(points)
    for iteration in range(iterations):
        progress(iteration / iterations)
        signs = slopes_of(points).sign()
        mean = _MEAN * mean + (1 - _MEAN) * signs
        square = _SQUARE * square + (1 - _SQUARE) * signs.square()
        taken = iteration + 1
        step = _STEP * _SHRINK ** sum(iteration >= part * iterations for part in _SHRINKS_AT)
        root = (square / (1 - _SQUARE**taken)).sqrt() + _LEAST
        points = points - step * (mean / (1 - _MEAN**taken)) / root
        points[:, :boxed] = points[:, :boxed].clamp(0, 1)
    return points
