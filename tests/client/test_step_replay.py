"""Steps of trainings elsewhere, replayed on neighbours with their noise held."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from fedaudit_client import replay
from fedaudit_client.step_replay import RecordedDraws, replay_sampler

N, NOISE = 100, 1.5
ALONG = np.ones(N) / N**0.5
OTHERS = np.tile(100 * ALONG, (7, 1))
DATA, LOUDER = (np.vstack([OTHERS, -long * ALONG]) for long in (10_000, 20_000))


def clipped(rows: Any) -> Any:
    return rows * np.minimum(1.0, 1.0 / np.linalg.norm(rows, axis=1, keepdims=True))


def summed(
    draw: Callable[[int], Any],
    *,
    bounded: Callable[[Any], Any] = clipped,
    share: float = 1.0,
    divisor: Callable[[Any], float] = lambda _: 8.0,
) -> Callable[[Any], Any]:
    """A step: the sum of what each row gives, with noise, over a divisor."""

    def step(rows: Any) -> Any:
        noise = share * NOISE * np.asarray(draw(N))
        return (bounded(rows).sum(axis=0) + noise) / divisor(rows)

    return step


def replayed(step: Any, *generators: Any, neighbour: Any = OTHERS, **more: Any) -> Any:
    asked: dict[str, Any] = {"clip": 1.0, "noise_multiplier": NOISE, "divisor": 8.0}
    return replay(step, DATA, neighbour, generators=generators, **{**asked, **more})


@pytest.mark.parametrize(
    ("fault", "stage"),
    [
        ({}, None),
        ({"bounded": lambda rows: rows}, "clip"),
        ({"share": 0.5}, "noise"),
        ({"divisor": len}, "normaliser"),
        ({"divisor": lambda _: 4.0}, "normaliser"),
    ],
    ids=["honest", "unclipped", "half the noise", "over the rows", "over four"],
)
def test_the_stage_that_broke_is_named(fault: dict[str, Any], stage: str | None) -> None:
    own = np.random.default_rng(7)
    found = replayed(summed(own.standard_normal, **fault), own, louder=LOUDER)
    assert found.broken == stage, found
    if stage is None:
        assert found.measured["noise_multiplier"] == pytest.approx(NOISE, rel=0.05)


def test_generators_of_torch_are_held() -> None:
    assert replayed(summed(torch.randn), louder=LOUDER).broken is None


def test_noise_that_repeats_or_follows_itself_is_found() -> None:
    def seeded(size: int) -> Any:
        return np.random.default_rng(1).standard_normal(size)

    assert replayed(summed(seeded)).broken == "noise"
    draws, before = np.random.default_rng(4), np.zeros(N)

    def smoothed(size: int) -> Any:
        before[:] = 0.7 * before + 0.714 * draws.standard_normal(size)
        return before

    # It depends on the step before: no generator holds that.
    with pytest.raises(ValueError, match="another release"):
        replayed(summed(smoothed), draws)


def test_noise_without_a_state_is_held_by_recording_it() -> None:
    def secret(size: int) -> Any:
        return np.random.default_rng(secrets.randbits(64)).standard_normal(size)

    with pytest.raises(ValueError, match="RecordedDraws"):
        replayed(summed(secret))
    draws = RecordedDraws(secret)
    assert replayed(summed(draws), draws).broken is None


@pytest.mark.parametrize(
    ("adjacency", "broken"), [("add-or-remove-one", "sum"), ("replace-one", None)]
)
def test_a_client_that_may_be_replaced_moves_a_sum_by_two_clips(adjacency, broken):
    own, opposite = np.random.default_rng(2), np.vstack([OTHERS, 10_000 * ALONG])
    step = summed(own.standard_normal)
    assert replayed(step, own, neighbour=opposite, adjacency=adjacency).broken == broken


class Coins:
    """Batches of 200 units at a rate of 0.1, ten an epoch."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(3)

    def poisson(self, rate: float = 0.1) -> Iterator[Any]:
        return (np.flatnonzero(self.random.random(200) < rate) for _ in range(10))

    def parts(self, ends: Any) -> Iterator[Any]:
        return iter(np.split(self.random.permutation(200), ends))


@pytest.mark.parametrize(
    ("epoch", "why"),
    [
        (Coins.poisson, None),
        (lambda coins: coins.poisson(0.2), "with a chance of 0.2"),
        (lambda coins: coins.parts(10), "do not vary in size"),
        (
            lambda coins: coins.parts(np.sort(coins.random.choice(200, 9))),
            "coins depend on one another",
        ),
        (lambda _: Coins().poisson(), "repeats the batches"),
    ],
    ids=["poisson", "often", "shuffled", "parted", "seeded"],
)
def test_samplers_are_distinguished_from_poissons_coins(epoch: Any, why: str | None) -> None:
    coins = Coins()
    found = replay_sampler(lambda: epoch(coins), population=200, rate=0.1)
    assert (found.broken is None) == (why is None)
    assert why is None or any(why in one.text for one in found.findings), found.findings
