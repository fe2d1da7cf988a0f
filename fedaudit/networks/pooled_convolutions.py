"""A convolution, the largest of the squares behind it and a ReLU before it, by a compiled kernel.

The kernel does a third of the arithmetic that they take one after the other, and its numbers differ
from theirs in rounding alone. Where it does not fit, torch computes them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from fedaudit.native.library import kernels
from fedaudit.native.tensors import call
from fedaudit.networks.shape import Convolution, Operation, Pool

_WIDE = 16
"""The kernel takes numbers of channels that are multiples of it."""


@dataclass(frozen=True)
class PooledConvolution:
    """A convolution and a pool of 2 by 2 behind it."""

    convolution: Convolution
    rectified: bool
    """Whether a ReLU is before it."""

    def __call__(self, maps: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
        """Pooled outputs [rows, outputs, ...] on maps [rows, inputs, height, width]; first
        derivatives only."""
        if kernels() is None or maps.device.type != "cpu":
            maps = torch.relu(maps) if self.rectified else maps
            return functional.max_pool2d(functional.conv2d(maps, weights, bias), 2)
        found: Tensor = _Kernel.apply(self.rectified, maps, weights, bias)  # type: ignore[no-untyped-call]
        return found


def pooled_together(operations: Sequence[Operation]) -> Iterator[Operation | PooledConvolution]:
    """The operations, in which the kernel takes the place of those that it computes.

    A ReLU before the pool comes behind it: the largest stays the largest.
    """
    left = list(operations)
    while left:
        before: list[Operation] = [left.pop(0)] if left[0] == "relu" else []
        first = left.pop(0) if left else None
        inside = left[:1] == ["relu"]
        pool = left[inside : inside + 1]
        if isinstance(first, Convolution) and _has_kernel(first) and pool == [_POOL]:
            del left[inside]
            yield PooledConvolution(first, rectified=bool(before))
            continue
        yield from before
        if first is not None:
            yield first


_POOL = Pool("max-pooling", 2)


def _has_kernel(one: Convolution) -> bool:
    plain = one.size == 3 and one.stride == 1 and one.padding == 0
    return plain and one.inputs % _WIDE == 0 and one.outputs % _WIDE == 0


class _Kernel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rectified: bool, maps: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        ctx.library = kernels()
        # Channels innermost: a view of maps that a convolution left.
        maps, weights = (one.permute(0, 2, 3, 1).contiguous() for one in (maps, weights))
        rows, height, width, _ = maps.shape
        pooled = maps.new_empty(rows, len(bias), (height - 2) // 2, (width - 2) // 2)
        places = torch.empty_like(pooled, dtype=torch.uint8)
        sizes = *maps.shape, len(bias), int(rectified)
        call(ctx.library.fedaudit_pooled, maps, weights, bias, *sizes, pooled, places)
        ctx.sizes = sizes
        ctx.save_for_backward(maps, weights, bias, places)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[None, Tensor, Tensor, Tensor]:
        maps, weights, bias, places = ctx.saved_tensors
        to_maps, to_weights, to_bias = (torch.empty_like(one) for one in (maps, weights, bias))
        given = maps, weights, slopes.contiguous(), places
        found = to_weights, to_bias, to_maps
        call(ctx.library.fedaudit_pooled_back, *given, *ctx.sizes, *found)
        return None, to_maps.permute(0, 3, 1, 2), to_weights.permute(0, 3, 1, 2), to_bias
