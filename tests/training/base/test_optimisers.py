"""Optimisers against torch's, and their independence of the layout."""

from collections.abc import Callable, Iterable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedaudit.training.base.record_steps import Adam, Optimiser, OptimiserState, RmsProp, Sgd

Torch = Callable[[Iterable[Tensor]], torch.optim.Optimizer]

PAIRS: list[tuple[Optimiser, Torch]] = [
    (Sgd(0.05), lambda theta: torch.optim.SGD(theta, lr=0.05)),
    (Adam(0.01), lambda theta: torch.optim.Adam(theta, lr=0.01)),
    (
        Adam(0.005, beta1=0.8, beta2=0.9, epsilon=1e-4),
        lambda theta: torch.optim.Adam(theta, lr=0.005, betas=(0.8, 0.9), eps=1e-4),
    ),
    (RmsProp(0.001), lambda theta: torch.optim.RMSprop(theta, lr=0.001)),
]
OPTIMISERS = [pair[0] for pair in PAIRS]


def gradients(*shape: int, seed: int = 1) -> Tensor:
    """Of magnitudes from 1e-5 to 1."""
    random = torch.Generator().manual_seed(seed)
    size = 10 ** (5 * torch.rand(shape, generator=random) - 5)
    return size * torch.randn(shape, generator=random)


def run(
    optimiser: Optimiser, theta: Tensor, slopes: Tensor, state: OptimiserState | None = None
) -> tuple[Tensor, OptimiserState]:
    state = state or optimiser.start(theta)
    for slope in slopes:
        theta, state = optimiser.step(theta, slope, state)
    return theta, state


@pytest.mark.parametrize(("optimiser", "reference"), PAIRS, ids=[str(pair[0]) for pair in PAIRS])
def test_steps_are_those_of_torch(optimiser: Optimiser, reference: Torch) -> None:
    start = torch.randn(3, 41, generator=torch.Generator().manual_seed(2))
    slopes = gradients(50, 3, 41)
    parameters = start.clone().requires_grad_()
    theirs = reference([parameters])
    for slope in slopes:
        parameters.grad = slope
        theirs.step()
    theta, _ = run(optimiser, start, slopes)
    assert theta.dtype == torch.float32
    torch.testing.assert_close(theta, parameters.detach(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=str)
@given(silos=st.integers(1, 9), n=st.integers(1, 70), seed=st.integers(0, 2**31))
def test_a_silo_does_not_notice_its_neighbours(
    optimiser: Optimiser, silos: int, n: int, seed: int
) -> None:
    slopes = gradients(4, silos, n, seed=seed)
    together, _ = run(optimiser, slopes[0], slopes)
    for silo in range(silos):
        alone, _ = run(optimiser, slopes[0, silo], slopes[:, silo])
        assert torch.equal(alone, together[silo])


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=str)
def test_what_is_passed_in_stays_as_it_is_and_a_run_can_be_continued(optimiser: Optimiser) -> None:
    slopes = gradients(8, 2, 5)
    start = torch.ones(2, 5)
    half, state = run(optimiser, start, slopes[:4])
    kept = [moment.clone() for moment in state.moments]
    theta, after = run(optimiser, half, slopes[4:], state)
    assert torch.equal(start, torch.ones(2, 5))
    assert all(torch.equal(one, other) for one, other in zip(kept, state.moments, strict=True))
    assert torch.equal(run(optimiser, start, slopes)[0], theta)
    assert after.steps.flatten().tolist() == [8, 8]


def test_silos_may_have_taken_part_unequally() -> None:
    """Adam corrects each by its own number of steps."""
    optimiser, slopes = Adam(0.01), gradients(6, 2, 5)
    theta, early = run(optimiser, torch.ones(1, 5), slopes[:3, :1])
    both = torch.cat((theta, torch.ones(1, 5)))
    fresh = optimiser.start(torch.ones(1, 5))
    state = OptimiserState(
        torch.cat((early.steps, fresh.steps)),
        tuple(torch.cat(pair) for pair in zip(early.moments, fresh.moments, strict=True)),
    )
    found, _ = run(optimiser, both, slopes[3:], state)
    assert torch.equal(found[:1], run(optimiser, torch.ones(1, 5), slopes[:, :1])[0])
    assert torch.equal(found[1:], run(optimiser, torch.ones(1, 5), slopes[3:, 1:])[0])
