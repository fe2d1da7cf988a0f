"""Poisson sampling: every client by itself, the same however rounds are drawn."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedaudit.spec.training import PoissonCohort
from fedaudit.training.base.cohort import Block, Draws, draw_block, drawn_clients

CLIENTS = np.arange(7, 67)


def block(*, rate: float, rounds: int, secret: bool = False, first: int = 1) -> Block:
    return draw_block(
        Draws(seeds=np.array([3], dtype=np.uint64), secret=secret),
        first_rounds=np.array([first]),
        rounds=rounds,
        training=CLIENTS[None],
        cohort=PoissonCohort(sampling="poisson", rate=rate),
        validation=np.arange(7)[None],
        validation_size=None,
    )


def members(drawn: Block) -> list[list[int]]:
    pairs = zip(drawn.cohort[:, 0], drawn.drawn[:, 0], strict=True)
    return [clients[taken].tolist() for clients, taken in pairs]


def indicators(drawn: Block) -> NDArray[np.float64]:
    """[rounds, clients]: 1 where a client takes part."""
    return np.array([np.isin(CLIENTS, part) for part in members(drawn)], dtype=np.float64)


@pytest.mark.parametrize("secret", [False, True], ids=["simulation", "release"])
@pytest.mark.parametrize("rate", [0.03, 0.4])
def test_cohorts_are_binomial_and_clients_independent(rate: float, secret: bool) -> None:
    """4,000 rounds of 60 coins: five deviations on each figure, by the normal approximation.

    Of the 240,000 coins' share, of the variance of sizes, and of 60 clients' shares, which ring
    falsely with a chance of 6e-7 each: below 4e-5 for a case. Fixed cohorts have no variance.
    """
    taken = indicators(block(rate=rate, rounds=4000, secret=secret))
    spread = np.sqrt(rate * (1 - rate))
    assert abs(taken.mean() - rate) < 5 * spread / np.sqrt(taken.size)
    assert np.abs(taken.mean(0) - rate).max() < 5 * spread / np.sqrt(len(taken))
    sizes = taken.sum(1)
    variance = 60 * rate * (1 - rate)
    # The fourth moment of a binomial number: 3 variance**2 and a little.
    kurtosis = 3 + (1 - 6 * rate * (1 - rate)) / variance
    bound = 5 * variance * np.sqrt((kurtosis - 1) / len(taken))
    assert abs(sizes.var() - variance) < bound


def test_who_only_fills_up_stands_behind() -> None:
    drawn = block(rate=0.1, rounds=64)
    sizes = drawn.drawn.sum(-1)
    assert drawn.cohort.shape == (64, 1, sizes.max())
    for clients, taken in zip(drawn.cohort[:, 0], drawn.drawn[:, 0], strict=True):
        assert np.all(np.diff(taken.astype(int)) <= 0)
        assert np.all(np.diff(clients[taken]) > 0)
        assert len(set(clients.tolist())) == len(clients)


def test_the_same_clients_however_rounds_are_cut() -> None:
    whole = members(block(rate=0.1, rounds=20))
    parts = members(block(rate=0.1, rounds=7)) + members(block(rate=0.1, rounds=13, first=8))
    assert parts == whole
    source = Draws(seeds=np.array([3], dtype=np.uint64), secret=False).source()
    alone = [
        drawn_clients(source, round_=number, clients=CLIENTS, rate=0.1).tolist()
        for number in range(1, 21)
    ]
    assert alone == whole
