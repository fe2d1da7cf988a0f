"""A convolution, its ReLU and its pool by one kernel are what torch makes of them in turn."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fedaudit.native.library import kernels
from fedaudit.networks.pooled_convolutions import PooledConvolution, pooled_together
from fedaudit.networks.shape import Convolution, Flattening, Operation, Pool
from tests.native_fallback import fallback_only

compiled = pytest.mark.skipif(kernels() is None, reason="there are no compiled kernels")
HALVES = Pool("max-pooling", 2)


def convolution(inputs: int, outputs: int, **changes: int) -> Convolution:
    return Convolution(inputs, outputs, 0, True, **{"size": 3, **changes})


def drawn(*sizes: tuple[int, ...]) -> list[Tensor]:
    random = torch.Generator().manual_seed(1)
    return [torch.randn(size, generator=random) for size in sizes]


# Rows of squares that are fewer, as many and more than are computed at once; sides that leave a
# pixel over; one square alone.
CASES = [(3, 26, 26, 32, 64), (2, 4, 4, 16, 16), (1, 7, 16, 16, 48), (2, 9, 31, 48, 16)]


@compiled
@pytest.mark.parametrize("rectified", [True, False])
@pytest.mark.parametrize(("rows", "height", "width", "inputs", "outputs"), CASES)
def test_outputs_and_slopes_are_those_of_torch(rows, height, width, inputs, outputs, rectified):
    sizes = rows, outputs, (height - 2) // 2, (width - 2) // 2
    given = drawn((rows, inputs, height, width), (outputs, inputs, 3, 3), (outputs,))
    (slopes,) = drawn(sizes)
    given[1] /= inputs
    one = PooledConvolution(convolution(inputs, outputs), rectified)

    def in_turn(maps: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        maps = maps.relu() if rectified else maps
        return functional.max_pool2d(functional.conv2d(maps, weights, bias), 2)

    found, expected = [], []
    for made, kind in ((found, one), (expected, in_turn)):
        leaves = [part.clone().requires_grad_() for part in given]
        pooled = kind(*leaves)
        made += [pooled.detach(), *torch.autograd.grad(pooled, leaves, slopes.clamp(min=0))]
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@compiled
def test_an_image_is_computed_the_same_beside_others() -> None:
    maps, weights, bias = drawn((5, 16, 12, 11), (32, 16, 3, 3), (32,))
    one = PooledConvolution(convolution(16, 32), rectified=True)
    together = one(maps, weights, bias)
    for row, image in enumerate(maps):
        assert torch.equal(one(image[None], weights, bias)[0], together[row])


@compiled
@pytest.mark.parametrize("place", [(3, 3), (2, 3), (3, 2), (2, 2)])
def test_what_is_no_number_is_not_overlooked(place: tuple[int, int]) -> None:
    maps, weights, bias = drawn((1, 16, 6, 6), (16, 16, 3, 3), (16,))
    maps[0, 0, place[0], place[1]] = torch.nan
    found = PooledConvolution(convolution(16, 16), rectified=True)(maps, weights, bias)
    assert found.isnan().any()


def test_without_kernels_torch_computes_it() -> None:
    given = drawn((2, 16, 8, 8), (16, 16, 3, 3), (16,))
    one = PooledConvolution(convolution(16, 16), rectified=True)
    with fallback_only():
        expected = one(*given)
    torch.testing.assert_close(one(*given), expected, rtol=1e-4, atol=1e-4)


def test_a_relu_before_the_pool_comes_behind_it() -> None:
    first, second = convolution(1, 16), convolution(16, 32)
    operations: list[Operation] = [first, "relu", second, "relu", HALVES, Flattening()]
    joined = [first, PooledConvolution(second, rectified=True), "relu", Flattening()]
    assert list(pooled_together(operations)) == joined


@pytest.mark.parametrize(
    "operations",
    [
        [convolution(1, 16), HALVES],
        [convolution(16, 8), HALVES],
        [convolution(16, 16, padding=1), HALVES],
        [convolution(16, 16, stride=2), HALVES],
        [convolution(16, 16, size=5), HALVES],
        [convolution(16, 16), Pool("max-pooling", 3)],
        [convolution(16, 16), Pool("average-pooling", 2)],
        [convolution(16, 16), "tanh", HALVES],
        ["relu", "relu", convolution(16, 16), "relu"],
    ],
)
def test_others_stay_as_they_are(operations: list[Operation]) -> None:
    assert list(pooled_together(operations)) == operations
