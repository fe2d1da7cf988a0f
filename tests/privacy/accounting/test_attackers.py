"""Attackers who see sums of releases refute no figure of an accountant, and refute wrong ones."""

import math

import numpy as np
import pytest
from scipy import special, stats

from fedaudit.arrays import Floats
from fedaudit.privacy.accounting import accountant, two_stage
from fedaudit.privacy.accounting.privacy_events import Gaussian, TwoStage
from fedaudit.privacy.accounting.two_stage import log_moments
from tests.privacy.accounting.spending import by_orders
from tests.privacy.gaussian_exact import exact_delta

_CELLS = 1500
_NEGLIGIBLE = 1e-14


def least_delta(
    epsilon: float, *, weights: Floats, releases: int, noise: float, replaces: bool = False
) -> float:
    """A lower bound on delta between a unit that came in k times with chance `weights[k]` in so
    many releases, and one that sent nothing; with `replaces`, one that sent the opposite."""
    times = np.flatnonzero(weights > _NEGLIGIBLE)
    chance, deviation = weights[times], noise * math.sqrt(releases)
    reach = float(times.max(initial=0)) + 9 * deviation
    edges = np.concatenate([[-np.inf], np.linspace(-reach, reach, _CELLS), [np.inf]])
    there = _cells(edges, times.astype(np.float64), chance, deviation)
    other = (-times.astype(np.float64), chance) if replaces else (np.zeros(1), np.ones(1))
    away = _cells(edges, *other, deviation)
    return max(
        float(np.maximum(left - math.exp(epsilon) * right, 0.0).sum())
        for left, right in ((there, away), (away, there))
    )


def of_coins(
    epsilon: float, *, rate: float, rounds: int, noise: float, replaces: bool = False
) -> float:
    """Of rounds that a unit enters by a coin."""
    weights = stats.binom(rounds, rate).pmf(np.arange(rounds + 1))
    return least_delta(epsilon, weights=weights, releases=rounds, noise=noise, replaces=replaces)


def of_two_stages(epsilon: float, event: TwoStage, rounds: int) -> float:
    """Of rounds that a client enters by a coin, which an attacker sees of one that is alone, and a
    record each of their steps by another."""
    return sum(
        float(stats.binom(rounds, event.client_rate).pmf(entered))
        * of_coins(
            epsilon,
            rate=event.record_rate,
            rounds=entered * event.steps,
            noise=event.noise_multiplier,
        )
        for entered in range(1, rounds + 1)
    )


def _cells(edges: Floats, means: Floats, weights: Floats, deviation: float) -> Floats:
    """The chance of each interval under a mixture of normal numbers."""
    found = np.zeros(len(edges) - 1)
    for mean, weight in zip(means.tolist(), weights.tolist(), strict=True):
        away = (edges - mean) / deviation
        below, above = special.ndtr(away), special.ndtr(-away)
        # The smaller tails keep their digits: beside a factor of exp(epsilon) they count.
        found += weight * np.where(away[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    return found


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_least_delta_is_that_of_the_gaussian_mechanism(epsilon: float) -> None:
    """Intervals lose little."""
    exact = exact_delta(epsilon, 2.0 / math.sqrt(4))
    found = least_delta(epsilon, weights=np.eye(5)[4], releases=4, noise=2.0)
    assert 0.98 * exact < found <= exact * (1 + 1e-9)


@pytest.mark.parametrize(("client_rate", "record_rate"), [(1.0, 1.0), (0.5, 0.3), (0.2, 0.05)])
def test_two_stages_are_refuted_below_their_epsilon_alone(client_rate, record_rate):
    event = TwoStage(client_rate, record_rate, 3.0, 5)
    epsilon = by_orders(event, 6, delta=1e-3)
    assert of_two_stages(epsilon, event, 6) <= 1e-3
    assert of_two_stages(epsilon / 4, event, 6) > 1e-3


def test_one_coin_for_all_steps_is_not_one_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    event = TwoStage(0.4, 0.3, 2.0, 5)

    def coin_by_coin(rates, event, *, order, observer):
        noise, both = event.noise_multiplier, event.client_rate * rates
        return event.steps * log_moments(both, order=order, noise_multiplier=noise) / (order - 1)

    monkeypatch.setattr(two_stage, "round_divergence", coin_by_coin)
    wrong = by_orders(event, 8, delta=1e-3)
    assert of_two_stages(wrong, event, 8) > 1e-3


def test_replaced_clients_are_two_clips_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def missed(noise: float) -> float:
        epsilon = by_orders(Gaussian(noise), 4, adjacency="replace-one", delta=1e-3)
        return of_coins(epsilon, rate=1.0, rounds=4, noise=noise, replaces=True)

    assert missed(1.0) <= 1e-3
    monkeypatch.setitem(accountant._CLIPS_APART, "replace-one", 1.0)
    assert missed(1.01) > 1e-3  # of which no curve is kept
