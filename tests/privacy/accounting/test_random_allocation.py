"""Random allocation against exact integrals, simulation, and what coins of the same rate cost."""

import math
from collections.abc import Callable

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedaudit.privacy.accounting.accountant import RDP_ORDERS, epsilon_of_events
from fedaudit.privacy.accounting.epsilon_tables import EpsilonCurve, EpsilonTerms, RepeatedEvent
from fedaudit.privacy.accounting.privacy_events import Gaussian, PoissonSampled, RandomAllocated
from fedaudit.privacy.accounting.random_allocation import allocation_curve, allocation_loss
from fedaudit.privacy.lower_bounds.release_law import gaussian_epsilon
from tests.privacy.accounting.spending import DELTA, spent

Floats = NDArray[np.float64]
SETTINGS = [(22, 4.0, 10, 1e-3), (10, 0.5, 3, 1e-5), (100, 1.0, 1, 1e-6)]
"""Rounds of a block, noise multiplier, blocks, delta."""


def epsilon(rounds: int, noise: float, blocks: int, delta: float, **how: bool) -> float:
    loss = allocation_loss(rounds, noise, **how).self_compose(blocks)
    return float(loss.get_epsilon_for_delta(delta))


def likelihood_ratio(z: Floats, noise: float) -> Floats:
    """S of noise [..., rounds], written out."""
    found: Floats = np.exp(z / noise - 1 / (2 * noise**2)).mean(-1)
    return found


def of_two(function: Callable[[Floats], Floats], noise: float) -> float:
    """The mean under Q of a function of S, for two rounds, by the trapezoid rule."""
    axis = np.linspace(-12, 12, 801)
    z = np.stack(np.meshgrid(axis, axis), axis=-1)
    density = np.exp(-np.square(z).sum(-1) / 2) / (2 * math.pi) * (axis[1] - axis[0]) ** 2
    return float((function(likelihood_ratio(z, noise)) * density).sum())


@pytest.mark.parametrize("noise", [0.7, 2.0])
def test_two_rounds_agree_with_an_integral(noise: float) -> None:
    loss, below = allocation_loss(2, noise), allocation_loss(2, noise, pessimistic=False)
    for at in (0.1, 1.0):
        exact = max(
            of_two(lambda s, at=at: np.maximum(s - math.exp(at), 0.0), noise),
            of_two(lambda s, at=at: np.maximum(1 - math.exp(at) * s, 0.0), noise),
        )
        found = float(loss.get_delta_for_epsilon(at))
        assert exact <= found + 1e-8 <= exact * 1.001 + 1e-7
        assert float(below.get_delta_for_epsilon(at)) <= exact + 1e-8
    for order in (2.0, 3.0, 2.5):
        taking_part = math.log(of_two(lambda s, a=order: s**a, noise)) / (order - 1)
        absent = math.log(of_two(lambda s, a=order: s ** (1 - a), noise)) / (order - 1)
        [found] = allocation_curve(2, noise, [order])
        assert max(taking_part, absent) <= found + 1e-6
        if order.is_integer():
            assert found == pytest.approx(max(taking_part, absent), rel=1e-3)


@settings(max_examples=4, deadline=None)
@given(
    rounds=st.integers(1, 20),
    noise=st.floats(0.5, 8),
    blocks=st.integers(1, 6),
    delta=st.sampled_from([1e-3, 1e-6]),
)
def test_bounds_are_in_order(rounds: int, noise: float, blocks: int, delta: float) -> None:
    """From below, from above, by Renyi orders, and of a round that everybody is known to enter."""
    above = epsilon(rounds, noise, blocks, delta)
    event = RandomAllocated(rounds, Gaussian(noise))
    renyi = spent(event, blocks, delta=delta)
    known = gaussian_epsilon(math.sqrt(blocks) / noise, delta)
    assert epsilon(rounds, noise, blocks, delta, pessimistic=False) <= above <= renyi + 1e-9
    assert above <= known * 1.001 + 1e-3
    if rounds == 1:
        assert above == pytest.approx(known, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(("rounds", "noise", "blocks", "delta"), SETTINGS)
def test_it_costs_no_more_than_coins(rounds: int, noise: float, blocks: int, delta: float) -> None:
    library = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-3)
    gaussian = dp_accounting.GaussianDpEvent(noise)
    library.compose(dp_accounting.PoissonSampledDpEvent(1 / rounds, gaussian), rounds * blocks)
    assert epsilon(rounds, noise, blocks, delta) < library.get_epsilon(delta)


def test_a_simulated_attack_stays_below() -> None:
    """Delta of three blocks from 400,000 draws, tilted so that half of them count; a right bound
    fails with a chance of at most 1e-6."""
    rounds, noise, blocks, at = 8, 1.0, 3, 1.5
    draws, generator = 400_000, np.random.default_rng(5)
    z = generator.standard_normal((draws, blocks, rounds))
    chosen = generator.integers(rounds, size=(draws, blocks, 1))
    np.put_along_axis(z, chosen, np.take_along_axis(z, chosen, -1) + 1 / noise, axis=-1)
    losses = np.log(likelihood_ratio(z, noise)).sum(-1)
    values = np.maximum(-np.expm1(at - losses), 0.0)
    # Hoeffding, two-sided: values lie between 0 and 1.
    error = math.sqrt(math.log(2 / 1e-6) / (2 * draws))
    found = float(allocation_loss(rounds, noise).self_compose(blocks).get_delta_for_epsilon(at))
    assert abs(values.mean() - found) < error + 0.001 * found


def test_a_block_is_charged_with_its_first_round() -> None:
    event = RandomAllocated(5, Gaussian(1.0))
    for by_pld in (True, False):
        line = EpsilonCurve.of_events(
            (RepeatedEvent(event),),
            10,
            EpsilonTerms(adjacency="add-or-remove-one", observer="final_model", delta=DELTA),
            by_pld=by_pld,
        )
        one, two = (spent(event, count, by="pld" if by_pld else "rdp") for count in (1, 2))
        assert line.epsilons[[0, 1, 5, 6, 10]] == pytest.approx([0, one, one, two, two], rel=1e-2)
        assert line.steps_within(one * 1.01) == 5
        assert line.after(11) > two


def test_little_noise_is_counted_as_a_known_round() -> None:
    event = RandomAllocated(5, Gaussian(0.01))
    assert spent(event) == pytest.approx(spent(Gaussian(0.01)))
    assert np.isfinite(allocation_curve(5, 0.06, RDP_ORDERS)).all()


def test_what_it_is_not_composed_with() -> None:
    mixed = (RandomAllocated(5, Gaussian(1.0)), 1), (PoissonSampled(0.1, Gaussian(1.0)), 1)
    with pytest.raises(TypeError, match="RandomAllocated"):
        epsilon_of_events(mixed, "pld", adjacency="add-or-remove-one", delta=DELTA)
