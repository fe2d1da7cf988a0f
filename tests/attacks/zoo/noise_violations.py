"""What goes wrong with noise over rounds, coordinates, seeds and words, and with the kept model."""

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.privacy.noise.gaussian import LocalGaussian
from fedaudit.privacy.noise.laplace import Sanitiser
from fedaudit.randomness import CounterSource, EntropySource
from fedaudit.training.mechanisms.base import drawn
from fedaudit.training.mechanisms.gaussian import GaussianUploads, TrustedServer
from fedaudit.training.stacked.stack_state import StackState
from tests.attacks.zoo.cells import central, fixed, layered, local, moving
from tests.attacks.zoo.violations import violation

Numbers = NDArray[np.float64]
Rounds = NDArray[np.int64]
Change = Callable[[Callable[[Rounds], Numbers], Rounds], Numbers]
"""From what is drawn for rounds [..., cells], and such rounds, to noise [..., cells, k, n]."""


def _server_noise(patch: pytest.MonkeyPatch, change: Change) -> None:
    real = TrustedServer.draw

    def draw(self, draws, rounds, clients):
        found = real(self, draws, rounds, clients)
        changed = change(lambda which: drawn(real(self, draws, which, clients).vectors), rounds)
        return replace(found, vectors=changed)

    patch.setattr(TrustedServer, "draw", draw)


def _by_round(factor):
    return np.asarray(factor, dtype=np.float64)[..., None, None]


@violation(central, "noise", "noise used once")
def reuse_every_third(patch: pytest.MonkeyPatch) -> None:
    """Every third round of a server takes the noise of the round before."""
    _server_noise(patch, lambda of, rounds: of(rounds - (rounds % 3 == 0)))


@violation(local, "noise", "noise at any lag", at=(GaussianUploads, "draw"))
def reuse_every_third_of_clients(real, self, draws, rounds, clients):
    """Every third round of a client takes its noise of the round before."""
    return real(self, draws, rounds - (rounds % 3 == 0), clients)


@violation(central, "noise", "sums over rounds")
def take_minus_the_round_before(patch: pytest.MonkeyPatch) -> None:
    """Even rounds take minus the noise of the round before."""

    def change(of, rounds):
        even = rounds % 2 == 0
        return of(rounds - even) * _by_round(1 - 2 * even)

    _server_noise(patch, change)


@violation(central, "noise", "normal numbers")
def leave_a_parameter_bare(patch: pytest.MonkeyPatch) -> None:
    """One parameter has no noise."""

    def change(of, rounds):
        found = of(rounds)
        found[..., 1] = 0
        return found

    _server_noise(patch, change)


@violation(central, "noise", "their size")
def noise_the_first_hypothesis(patch: pytest.MonkeyPatch) -> None:
    """Only the first hypothesis has noise."""
    _server_noise(patch, lambda of, rounds: of(rounds) * np.array([[1.0], [0.0]]))


@violation(lambda: central(training__rounds=40), "noise", "size over rounds")
def halve_it_later(patch: pytest.MonkeyPatch) -> None:
    """Noise is halved from round 21 on, and 20 rounds are played."""
    _server_noise(patch, lambda of, rounds: of(rounds) * _by_round(np.where(rounds > 20, 0.5, 1)))


@violation(local, "noise", "normal numbers", at=(GaussianUploads, "draw"))
def spare_a_client(real, self, draws, rounds, clients):
    """One client has a tenth of the noise."""
    found = real(self, draws, rounds, clients)
    vectors = found.vectors * np.where(clients == 7, 0.1, 1.0)[..., None]
    return replace(found, vectors=vectors)


@violation(local, "noise", "noise added", at=(LocalGaussian, "__call__"))
def spare_the_short(real, self, start, updated, unit):
    """Noise is halved for updates shorter than a tenth of the clip, where none is."""
    short = (updated - start).norm(dim=-1) < 0.1 * self.clip
    return real(self, start, updated, unit * torch.where(short, 0.5, 1.0)[..., None])


@violation(central, "noise", "noise added")
def lower_the_clip(patch: pytest.MonkeyPatch) -> None:
    """The clip is lowered to the largest update where that is smaller, and the noise with it."""
    largest: dict[int, Tensor] = {}
    real_clip, real_average = TrustedServer.clip, TrustedServer.average

    def clip(self, updates, clips):
        largest[0] = updates.double().norm(dim=-1).amax(-1, keepdim=True)
        return real_clip(self, updates, clips)

    def average(self, *given, clips, **named):
        return real_average(self, *given, clips=torch.minimum(clips, largest[0]), **named)

    patch.setattr(TrustedServer, "clip", clip)
    patch.setattr(TrustedServer, "average", average)


@violation(central, "release", "kept hypotheses")
def keep_bare_hypotheses(patch: pytest.MonkeyPatch) -> None:
    """The best hypotheses are kept without noise."""
    bare: dict[int, Tensor] = {}
    real_average, real_keep = TrustedServer.average, StackState.keep_best

    def average(self, theta, sums, noise, **given):
        bare[0] = real_average(self, theta, sums, np.zeros_like(noise), **given)
        return real_average(self, theta, sums, noise, **given)

    def keep(self, cells, played, improved):
        real_keep(self, cells, [replace(one, hypotheses=bare[0]) for one in played], improved)

    patch.setattr(TrustedServer, "average", average)
    patch.setattr(StackState, "keep_best", keep)


@violation(moving, "noise", "normal numbers, of the count", at=(TrustedServer, "draw"))
def draw_no_noise_on_the_count(real, self, *given):
    """No noise is drawn for the count that the clip follows."""
    found = real(self, *given)
    assert found.counts is not None
    return replace(found, counts=np.zeros_like(found.counts))


@violation(layered, "noise", "radius")
def exchange_radii(patch: pytest.MonkeyPatch) -> None:
    """Layers have each other's radius."""
    real = Sanitiser.radii
    patch.setattr(Sanitiser, "radii", lambda *given: real(*given).flip(-1))


@violation(layered, "noise", "noise added")
def take_the_size_of_the_other_layer(patch: pytest.MonkeyPatch) -> None:
    """The rate of a layer's noise is made of the other layer's size."""
    wrong = property(lambda self: tuple(self.noise_multiplier / size for size in self.sizes[::-1]))
    patch.setattr(Sanitiser, "scales", wrong)


@violation(central, "noise", "noise of other seeds", at=(CounterSource, "__init__"))
def cut_seeds_short(real, self, seed):
    """Seeds are cut to 8 bits."""
    real(self, np.asarray(seed, dtype=np.uint64) & np.uint64(255))


@violation(
    lambda: fixed(noise="release"),
    "noise",
    "entropy of secret words",
    at=(EntropySource, "wide_words"),
)
def draw_little_entropy(real, self, **given):
    """Secret words have 16 bits of entropy a call."""
    shape = real(self, **given).shape
    seed = int.from_bytes(os.urandom(2), "little")
    return np.random.default_rng(seed).integers(0, 2**64, size=shape, dtype=np.uint64)


@violation(
    lambda: central(noise="release"),
    "noise",
    "bits of random words",
    at=(EntropySource, "wide_words"),
)
def repeat_half_a_word(real, self, **given):
    """Secret words have 32 random bits twice."""
    half = real(self, **given) & np.uint64(2**32 - 1)
    return half | half << np.uint64(32)
