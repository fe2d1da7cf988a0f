"""Steps of trainings elsewhere, replayed on neighbours with their noise held."""

import secrets
from collections.abc import Iterator
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


class Steps:
    """A step that is honest, and some that are not."""

    def __init__(self) -> None:
        self.own = np.random.default_rng(7)

    def noise(self, share: float = 1.0) -> Any:
        return share * NOISE * self.own.standard_normal(N)

    def honest(self, rows: Any) -> Any:
        return (clipped(rows).sum(axis=0) + self.noise()) / 8

    def of_torch(self, rows: Any) -> Any:
        return (clipped(rows).sum(axis=0) + NOISE * torch.randn(N).numpy()) / 8

    def unclipped(self, rows: Any) -> Any:
        return (rows.sum(axis=0) + self.noise()) / 8

    def halved(self, rows: Any) -> Any:
        return (clipped(rows).sum(axis=0) + self.noise(0.5)) / 8

    def seeded(self, rows: Any) -> Any:
        self.own = np.random.default_rng(1)
        return self.honest(rows)

    def counted(self, rows: Any) -> Any:
        return (clipped(rows).sum(axis=0) + self.noise()) / len(rows)

    def over_four(self, rows: Any) -> Any:
        return (clipped(rows).sum(axis=0) + self.noise()) / 4


def replayed(step: Any, *generators: Any, **more: Any) -> Any:
    asked: dict[str, Any] = {"clip": 1.0, "noise_multiplier": NOISE, "divisor": 8.0}
    return replay(step, DATA, OTHERS, louder=LOUDER, generators=generators, **{**asked, **more})


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("honest", None),
        ("of_torch", None),
        ("unclipped", "clip"),
        ("halved", "noise"),
        ("counted", "normaliser"),
        ("over_four", "normaliser"),
    ],
)
def test_the_stage_that_broke_is_named(name: str, stage: str | None) -> None:
    steps = Steps()
    found = replayed(getattr(steps, name), steps.own)
    assert found.broken == stage, found
    if stage is None:
        assert found.measured["noise_multiplier"] == pytest.approx(NOISE, rel=0.05)


def test_noise_that_repeats_or_follows_itself_is_found() -> None:
    assert replayed(Steps().seeded).broken == "noise"
    draws = np.random.default_rng(4)
    before = np.zeros(N)

    def smoothed(rows: Any) -> Any:
        before[:] = 0.7 * before + 0.714 * NOISE * draws.standard_normal(N)
        return (clipped(rows).sum(axis=0) + before) / 8

    # It depends on the step before: no generator holds that.
    with pytest.raises(ValueError, match="another release"):
        replayed(smoothed, draws)


def test_noise_without_a_state_is_held_by_recording_it() -> None:
    def secret(size: int) -> Any:
        return np.random.default_rng(secrets.randbits(64)).standard_normal(size)

    def step(draw: Any) -> Any:
        return lambda rows: (clipped(rows).sum(axis=0) + NOISE * draw(N)) / 8

    with pytest.raises(ValueError, match="RecordedDraws"):
        replayed(step(secret))
    draws = RecordedDraws(secret)
    assert replayed(step(draws), draws).broken is None
    # A client that may be replaced moves a sum by two clips.
    opposite = np.vstack([OTHERS, 10_000 * ALONG])
    asked: dict[str, Any] = {"clip": 1.0, "noise_multiplier": NOISE, "divisor": 8.0}
    own = np.random.default_rng(2)

    def summed(rows: Any) -> Any:
        return (clipped(rows).sum(axis=0) + NOISE * own.standard_normal(N)) / 8

    assert replay(summed, DATA, opposite, generators=[own], **asked).broken == "sum"
    allowed = replay(summed, DATA, opposite, generators=[own], adjacency="replace-one", **asked)
    assert allowed.broken is None


class Coins:
    """Batches of 200 units at a rate of 0.1, ten an epoch."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(3)

    def poisson(self, rate: float = 0.1) -> Iterator[Any]:
        return (np.flatnonzero(self.random.random(200) < rate) for _ in range(10))

    def often(self) -> Iterator[Any]:
        return self.poisson(0.2)

    def shuffled(self) -> Iterator[Any]:
        return iter(np.split(self.random.permutation(200), 10))

    def parted(self) -> Iterator[Any]:
        return iter(np.split(self.random.permutation(200), np.sort(self.random.choice(200, 9))))

    def seeded(self) -> Iterator[Any]:
        self.random = np.random.default_rng(3)
        return self.poisson()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("poisson", None),
        ("often", "with a chance of 0.2"),
        ("shuffled", "do not vary in size"),
        ("parted", "coins depend on one another"),
        ("seeded", "repeats the batches"),
    ],
)
def test_samplers_are_distinguished_from_poissons_coins(name: str, why: str | None) -> None:
    found = replay_sampler(getattr(Coins(), name), population=200, rate=0.1)
    assert (found.broken is None) == (why is None)
    assert why is None or any(why in one.text for one in found.findings), found.findings
