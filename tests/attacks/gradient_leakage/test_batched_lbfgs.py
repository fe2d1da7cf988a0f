"""L-BFGS on many functions at once: minima, and that no function disturbs another."""

import pytest
import torch
from torch import Tensor

from fedaudit.attacks.gradient_leakage.reconstruction import minimise

KINDS = 6


def valleys(points: Tensor, which: Tensor) -> Tensor:
    """Rosenbrock's function in four dimensions, of another steepness for each function."""
    steep = 1.0 + 20.0 * which.to(points)
    bends = (points[:, 1:] - points[:, :-1] ** 2).square().sum(-1)
    return steep * bends + (1 - points[:, :-1]).square().sum(-1)


def start() -> Tensor:
    return torch.randn(KINDS, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_every_function_comes_to_its_minimum() -> None:
    points, values = minimise(valleys, start(), iterations=120)
    # A narrow valley has a second, local minimum near (-0.78, 0.61, 0.38, 0.15).
    assert (values < 1e-12).sum() >= KINDS - 2
    points.requires_grad_()
    valleys(points, torch.arange(KINDS)).sum().backward()
    assert points.grad.abs().max() < 1e-4


def test_together_is_the_same_as_one_by_one() -> None:
    for iterations in (1, 7, 30):
        points, values = minimise(valleys, start(), iterations=iterations)
        for kind in range(0, KINDS, 2):

            def one(points: Tensor, which: Tensor, kind: int = kind) -> Tensor:
                return valleys(points, which + kind)

            alone, value = minimise(one, start()[kind : kind + 1], iterations=iterations)
            torch.testing.assert_close(alone[0], points[kind], rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(value[0], values[kind], rtol=1e-9, atol=1e-9)


def test_what_is_no_number_stays_where_it_is_and_disturbs_nobody() -> None:
    def broken(points: Tensor, which: Tensor) -> Tensor:
        return valleys(points, which) * torch.where(which == 2, torch.nan, 1.0)

    points, values = minimise(broken, start(), iterations=40)
    expected, _ = minimise(valleys, start(), iterations=40)
    others = torch.arange(KINDS) != 2
    torch.testing.assert_close(points[others], expected[others])
    assert torch.equal(points[2], start()[2])
    assert values[2].isnan()


def test_progress_may_stop_it() -> None:
    def cancel(share: float) -> None:
        if share >= 0.5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        minimise(valleys, start(), iterations=10, progress=cancel)
