"""Local steps record by record, and their optimisers."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from fedaudit.networks.record_gradients import RecordBatch, clipped_gradients
from fedaudit.networks.shape import DenseShape
from fedaudit.networks.stacked_network import Loss
from fedaudit.privacy.noise.gaussian import unit_gaussian
from fedaudit.privacy.records.record_use import tossed_coins
from fedaudit.randomness import CounterSource, EntropySource
from fedaudit.spec.training import PoissonCohort
from fedaudit.training.base import record_steps
from fedaudit.training.base.cohort import Block, Draws, client_coins, draw_block
from fedaudit.training.base.record_steps import Adam, RecordSteps, RmsProp, Sgd, SiloRecords
from tests.native_fallback import fallback_only

FALSE_ALARM = 1e-6
SMALL = DenseShape((4, 1), intercept=True)
LARGE = DenseShape((20, 30, 1), intercept=True)
LOSS = Loss("cross-entropy", 2)


def silos_of(
    sizes: list[int],
    *,
    width: int = 4,
    chance: float | None = None,
    noise: float = 1.3,
    seed: int = 1,
) -> SiloRecords:
    """Silos with these numbers of records, numbered from 10 on in steps of 3."""
    random = np.random.default_rng(seed)
    total, longest = sum(sizes), max(sizes)
    inclusion = np.zeros((len(sizes), longest))
    for silo, size in enumerate(sizes):
        inclusion[silo, :size] = random.uniform(size=size) if chance is None else chance
    return SiloRecords(
        features=torch.from_numpy(random.normal(size=(total, width)).astype(np.float32)),
        target=torch.from_numpy(random.integers(0, 2, total).astype(np.float32)),
        first=np.cumsum([0, *sizes[:-1]]),
        inclusion=inclusion,
        noise_multipliers=np.full(len(sizes), noise),
        silos=10 + 3 * np.arange(len(sizes)),
    )


def only(records: SiloRecords, silo: int) -> SiloRecords:
    """One of the silos, with the records of all at other places and without padding."""
    rows = np.arange(records.inclusion.shape[1])[records.inclusion[silo] > 0]
    longest = rows.max() + 1
    begin = records.first[silo]
    return SiloRecords(
        features=records.features[begin : begin + longest],
        target=records.target[begin : begin + longest],
        first=np.array([0]),
        inclusion=records.inclusion[[silo], :longest],
        noise_multipliers=records.noise_multipliers[[silo]],
        silos=records.silos[[silo]],
    )


def steps(shape: DenseShape = SMALL, **changes: Any) -> RecordSteps:
    given: dict[str, Any] = {"optimiser": Sgd(0.1), "steps": 6, "clip": 0.7, "normaliser": 5.0}
    return RecordSteps(**{"gradients": clipped_gradients(shape, LOSS), **given, **changes})


@pytest.mark.parametrize("noise", [0.0, 1.3])
@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_the_kernels_give_the_bits_of_the_fallback(shape: DenseShape, noise: float) -> None:
    records = silos_of([40, 3, 70], width=shape.sizes[0], noise=noise)

    def trained() -> Tensor:
        return steps(shape)(torch.ones(shape.n), records, source=CounterSource(5), round_=2)

    here = trained()
    with fallback_only():
        assert torch.equal(trained(), here)


NOISED = {"clip": 0.7, "normaliser": 5.0, "optimiser": Adam(0.05)}
PLAIN = {"clip": math.inf, "normaliser": 40.0, "optimiser": Sgd(0.1)}


@pytest.mark.parametrize(("noise", "settings_"), [(1.3, NOISED), (0.0, PLAIN)], ids=str)
def test_a_round_is_what_a_plain_loop_makes_of_it(noise: float, settings_: dict[str, Any]) -> None:
    records, play = silos_of([12, 1, 30], noise=noise), steps(**settings_)
    start = torch.linspace(-1, 1, SMALL.n)
    source = CounterSource(4)
    theta = play(start, records, source=source, round_=3)
    for position, silo in enumerate(records.silos.tolist()):
        own = start.clone().requires_grad_()
        adam, sgd = torch.optim.Adam([own], lr=0.05), torch.optim.SGD([own], lr=0.1)
        for step in range(12, 18):  # the third round of six steps
            coins = tossed_coins(
                source, steps=step, silos=silo, inclusion=records.inclusion[position]
            )
            total = torch.zeros(SMALL.n)
            for row in np.nonzero(coins)[0]:
                place = records.first[position] + row
                logit = own[:4] @ records.features[place] + own[4]
                loss = torch.nn.functional.binary_cross_entropy_with_logits(
                    logit, records.target[place]
                )
                (slope,) = torch.autograd.grad(loss, own)
                total = total + slope * min(1, settings_["clip"] / slope.norm().item())
            if noise:
                # The standard deviation is 0.91, and the grid's spacing 2^-12.
                drawn = unit_gaussian(source, n=SMALL.n, round_=step, counters=silo)
                noised = 0.7 * noise * drawn + total.numpy()
                total = torch.from_numpy(np.round(noised * 2.0**12) * 2.0**-12).float()
            own.grad = total / settings_["normaliser"]
            (adam if noise else sgd).step()
        torch.testing.assert_close(theta[position], own.detach(), rtol=1e-5, atol=1e-5)
    assert theta.dtype == torch.float32


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 150), min_size=1, max_size=5), st.integers(0, 2**31))
@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=str)
def test_a_silo_does_not_notice_its_neighbours(shape, sizes, seed):
    """To the last bit."""
    records = silos_of(sizes, width=shape.sizes[0], seed=seed)
    play = steps(shape, optimiser=RmsProp(0.01))
    start = torch.linspace(-1, 1, shape.n)
    together = play(start, records, source=CounterSource(seed), round_=2)
    for silo in range(len(sizes)):
        alone = play(start, only(records, silo), source=CounterSource(seed), round_=2)
        assert torch.equal(alone[0], together[silo])


@pytest.mark.parametrize("drawn", [1, 40, 1 << 18])
def test_drawing_ahead_changes_nothing(drawn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    records = silos_of([12, 30])
    expected = steps()(torch.zeros(SMALL.n), records, source=CounterSource(1), round_=1)
    monkeypatch.setattr(record_steps, "_DRAWN_ELEMENTS", drawn)
    found = steps()(torch.zeros(SMALL.n), records, source=CounterSource(1), round_=1)
    assert torch.equal(found, expected)


class Recorded:
    """No gradient at all; notes how many records each step had."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.sizes: list[NDArray[np.int64]] = []

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        self.sizes.append(batch.sizes)
        return torch.zeros(len(batch.sizes), self.n)


def test_each_silo_has_its_own_noise_whether_its_batch_is_empty_or_full() -> None:
    """And the normaliser is public. 41 tests of a false alarm of 1e-6 each."""
    records, idle = silos_of([3, 3, 3], chance=0.3), Recorded(2000)
    records.noise_multipliers[:] = [0.5, 0.0, 4.0]
    play = steps(gradients=idle, optimiser=Sgd(1.0), steps=1)
    for round_ in range(1, 21):
        theta = play(torch.zeros(2000), records, source=CounterSource(3), round_=round_)
        assert torch.equal(theta[1], torch.zeros(2000))
        for silo, multiplier in ((0, 0.5), (2, 4.0)):
            scaled = theta[silo].double().numpy() * 5.0 / (0.7 * multiplier)
            assert stats.kstest(scaled, "norm").pvalue > FALSE_ALARM
    sizes = np.concatenate(idle.sizes)
    assert (sizes == 0).any()
    assert stats.binomtest(int(sizes.sum()), 3 * sizes.size, 0.3).pvalue > FALSE_ALARM


def test_secret_steps_are_never_the_same() -> None:
    records = silos_of([12, 30])
    first, second = (
        steps()(torch.zeros(SMALL.n), records, source=EntropySource(), round_=1) for _ in range(2)
    )
    assert (first != second).all()


def test_records_that_are_left_out_make_no_difference() -> None:
    records = silos_of([12, 30])
    records.inclusion[1, 5:] = 0.0
    start, source = torch.zeros(SMALL.n), CounterSource(1)
    expected = steps()(start, records, source=source, round_=1)
    records.features[17:] = math.nan
    found = steps()(start, records, source=source, round_=1)
    assert torch.equal(found, expected)


# -- poisson sampling: every client by itself, the same however rounds are drawn ------------------


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
    again = indicators(block(rate=rate, rounds=64, secret=secret))
    assert np.array_equal(again, taken[:64]) == (not secret), "secret coins follow from no seed"


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
        CLIENTS[client_coins(source, round_=number, clients=CLIENTS, rate=0.1)].tolist()
        for number in range(1, 21)
    ]
    assert alone == whole
