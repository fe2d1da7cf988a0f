"""Read to the last bit, an upload tells nothing that its noise should hide.

Whoever sees an upload may ask, number by number, which values of the noise would have given it had
the client held something else; where there is not one, the guess is refuted with certainty, however
small an epsilon is claimed (Mironov 2012). With noise in float32 that is what happened to every
wrong guess from 61 numbers on. The attack is carried out here on what the mechanisms release, with
the noise of `release`: neither the truth nor a wrong guess may ever be refuted, and every cell of
the grid must have many values of the noise on either.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.record_gradients import RecordBatch
from fedaudit.privacy.noise.gaussian import (
    LocalGaussian,
    clip_to_norm,
    noised_average,
    unit_gaussian,
)
from fedaudit.privacy.noise.laplace import kept_share, norms
from fedaudit.randomness import EntropySource
from fedaudit.training.base.record_steps import RecordSteps, Sgd, SiloRecords
from tests.privacy.layered_noise import column, layer_sanitiser, unit_laplace

Floats = NDArray[np.float64]
Release = Callable[[Tensor], Tensor]
"""From unit noise [1, uploads, n] to uploads, each number a step function of its own noise."""

NUMBERS = 12_000
"""Of the uploads of one test, 200 at most."""
SECRET = EntropySource(np.zeros((1, 1)))
FEWEST = 2**30
"""Steps of the noise that every cell must hold."""
STEP = 2.0**-50
"""Of unit noise, at the least: `test_gaussian.py` holds the generator to it."""
FAR = 1e4


def ordinals(values: Floats) -> NDArray[np.int64]:
    """The places of float64 numbers among all of them, in ascending order."""
    bits = values.view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def at(places: NDArray[np.int64]) -> Floats:
    """The numbers at these places: the inverse of `ordinals`."""
    return np.where(places < 0, np.int64(-(2**63)) - places, places).view(np.float64)


def smallest(release: Release, like: Tensor, found: Callable[[Tensor], Tensor]) -> Floats:
    """Of every number, the smallest unit noise whose upload is `found`; by bisection."""
    low = ordinals(np.full(like.shape, -FAR))
    high = ordinals(np.full(like.shape, FAR))
    for _ in range(64):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        reached = found(release(torch.from_numpy(at(middle)))).numpy()
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return at(high)


def noise_values(release: Release, uploads: Tensor) -> Floats:
    """How many values of the noise give each number of the uploads.

    Its steps are those of a float64, or `STEP` where these are finer than the generator.
    """
    first = smallest(release, uploads, lambda made: made >= uploads)
    beyond = smallest(release, uploads, lambda made: made > uploads)
    step = np.maximum(np.spacing(np.maximum(np.abs(first), np.abs(beyond))), STEP)
    values: Floats = (beyond - first) / step
    return values


def survives(truth: Release, guess: Release, noise: Floats) -> None:
    """The attack: each upload is explained by what is true, and as well by what is not."""
    uploads = truth(torch.from_numpy(noise))
    assert uploads.dtype == torch.float32
    assert torch.isfinite(uploads).all()
    for candidate in (truth, guess):
        assert noise_values(candidate, uploads).min() >= FEWEST


def two_updates(n: int, *, apart: float, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """A start [1, 1, n], and it after each of two updates of norm `apart` / 2 at right angles."""
    random = np.random.default_rng(seed)
    start, first, second = random.normal(size=(3, 1, 1, n))
    second -= first * (first * second).sum() / (first * first).sum()
    half = apart / 2
    made = [start + half * one / np.linalg.norm(one) for one in (first, second)]
    origin, one, other = (torch.from_numpy(part).float() for part in (start, *made))
    return origin, one, other


def count(n: int) -> int:
    return min(200, NUMBERS // n)


def everywhere(vector: Tensor) -> Tensor:
    n = vector.shape[-1]
    return vector.expand(1, count(n), n)


def refute_nothing(upload: Callable[..., Tensor], n: int, draw: Callable[..., Floats]) -> None:
    """The attack on what `upload` makes of a start, an update and unit noise [1, uploads, n]."""
    start, one, other = two_updates(n, apart=0.5)

    def release(updated: Tensor) -> Release:
        return lambda unit: upload(everywhere(start), everywhere(updated), unit)

    noise = draw(SECRET, n=n, round_=1, counters=np.arange(count(n))[None])
    survives(release(one), release(other), noise)


# -- the attack ----------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [None, 0.125])
@pytest.mark.parametrize(("n", "nu"), [(2, 5.0), (11, 3.0), (11, 30.0), (61, 5.0), (1000, 100.0)])
def test_laplace_uploads_refute_no_guess(n: int, nu: float, clip: float | None) -> None:
    sanitise = layer_sanitiser((n,), nu=nu, radius=0.5, clip=clip, per_layer=False)
    refute_nothing(lambda *given: sanitise(*given)[0], n, unit_laplace)


def test_laplace_uploads_layer_by_layer_refute_no_guess() -> None:
    sizes, n = (1, 10, 50), 61
    sanitise = layer_sanitiser(sizes, nu=5.0, radius=0.5, clip=0.125)
    refute_nothing(lambda *given: sanitise(*given)[0], n, unit_laplace)


@pytest.mark.parametrize("n", [2, 61, 1000])
def test_gaussian_uploads_refute_no_guess(n: int) -> None:
    gaussian = LocalGaussian(clip=column(0.25), noise_multiplier=column(8.0))
    refute_nothing(gaussian, n, unit_gaussian)


@pytest.mark.parametrize("n", [2, 61, 1000])
def test_noised_sums_refute_no_guess(n: int) -> None:
    """All updates but one are known, as the definition of the guarantee allows."""
    average = partial(
        noised_average, clip=column(0.25), noise_multiplier=column(2.0), denominators=column(20.0)
    )
    known = torch.from_numpy(np.random.default_rng(2).normal(size=(1, 1, n)))

    def upload(start: Tensor, updated: Tensor, unit: Tensor) -> Tensor:
        return average(start, known + (updated - start).double(), unit)

    refute_nothing(upload, n, unit_gaussian)


class Known:
    """The same sum of gradients whatever the parameters."""

    def __init__(self, total: Tensor) -> None:
        self.total, self.n = total, total.shape[-1]

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        return self.total.expand(len(batch.sizes), -1).clone()


@pytest.mark.parametrize("n", [61, 1000])
def test_private_steps_refute_no_guess(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, one, other = two_updates(n, apart=0.5)
    silos = count(n)
    records = SiloRecords(
        features=torch.zeros(silos, 1),
        target=torch.zeros(silos),
        first=np.arange(silos),
        inclusion=np.zeros((silos, 1)),
        noise_multipliers=np.full(silos, 1.3),
        silos=np.arange(silos),
    )

    def release(total: Tensor) -> Release:
        steps = RecordSteps(Known(total[0]), Sgd(1.0), steps=1, clip=0.5, normaliser=1.0)

        def step(unit: Tensor) -> Tensor:
            monkeypatch.setattr(
                "fedaudit.training.base.record_steps.unit_gaussian",
                lambda *_, **__: unit.numpy().copy(),
            )
            theta = steps(torch.zeros(n), records, source=EntropySource(), round_=1)
            return -theta[None]  # descent goes against the sum

        return step

    noise = unit_gaussian(SECRET, n=n, round_=1, counters=np.arange(count(n))[None])
    survives(release(one), release(other), noise)


def test_an_attack_on_noise_in_float32_refutes_wrong_guesses() -> None:
    """So the attack is a good one: rounded to float32 at once, as it was, noise gives it away."""
    n, scale = 61, 0.04
    noise = unit_laplace(SECRET, n=n, round_=1, counters=np.arange(count(n))[None])
    start, one, other = two_updates(n, apart=0.5)
    narrow = torch.from_numpy(noise.astype(np.float32)).double()
    uploads = (one + narrow * scale).float()

    def explained(updated: Tensor) -> NDArray[np.bool_]:
        """Whether some float32 noise gives the upload: one beside the difference, if any does."""
        near = ((uploads - updated).double() / scale).float().numpy()
        found = np.zeros(near.shape, dtype=np.bool_)
        for towards in (-np.inf, np.inf):
            tried = near.copy()
            for _ in range(64):
                made = (updated + torch.from_numpy(tried).double() * scale).float()
                found |= (made == uploads).numpy()
                tried = np.nextafter(tried, np.float32(towards))
        return found.all(-1)

    assert explained(one).all()
    assert explained(other).mean() < 0.1
    assert not torch.equal(start, one)


# -- clips ---------------------------------------------------------------------------------------

LARGE, CLIP = 1e4, 0.01


def centres(n: int, *, negative: bool) -> tuple[Tensor, Tensor]:
    """Large parameters, and an update of them that is far beyond the clip.

    For n = 418 its components are clipped to just over half a step of float32 at that size.
    """
    start = torch.full((1, 1, n), LARGE)
    return start, start + (-1 if negative else 1)


def needed(release: Release, uploads: Tensor, scale: float) -> Floats:
    """The noise that takes one from what was hidden to where the cells of the uploads begin."""
    return smallest(release, uploads, lambda made: made >= uploads) * scale


@pytest.mark.parametrize("n", [1, 100, 418])
@pytest.mark.parametrize("mechanism", ["gaussian-local", "laplace-l2"])
def test_large_parameters_do_not_let_an_update_pass_its_clip(mechanism: str, n: int) -> None:
    """Two datasets' centres lie within two clips, as every guarantee takes for granted.

    They are measured by the noise that it takes from either to the same upload. With sums of
    parameter and update in float32, one was 1.997 times as far from the other as it may be.
    """
    apply: Callable[..., Tensor] = LocalGaussian(column(CLIP), column(8.0))
    scale = 8 * CLIP
    if mechanism == "laplace-l2":
        laplace = layer_sanitiser((n,), nu=0.5 * n, radius=0.25, clip=CLIP, per_layer=False)
        apply, scale = (lambda *given: laplace(*given)[0]), 0.125
    start, up = centres(n, negative=False)
    _, down = centres(n, negative=True)
    uploads = apply(start, up, torch.full_like(start, 0.3, dtype=torch.float64))
    to_up, to_down = (
        needed(lambda unit, to=to: apply(start, to, unit), uploads, scale)  # type: ignore[misc]
        for to in (up, down)
    )
    apart = np.linalg.norm(to_up - to_down)
    assert 1.99 * CLIP < apart <= 2 * CLIP * (1 + 1e-9)


@pytest.mark.parametrize("n", [1, 11, 10_000])
def test_no_clipped_update_is_longer_than_the_clip(n: int) -> None:
    """Not even by what rounds upwards: without any tolerance, and with room for sums of many."""
    random = np.random.default_rng(n)
    for length in (CLIP * (1 - 1e-7), CLIP, CLIP * (1 + 1e-7), 3.0):
        update = random.normal(size=(1, 50, n))
        update *= length / np.linalg.norm(update, axis=-1, keepdims=True)
        vectors = torch.from_numpy(update).float()
        kept = kept_share(norms(vectors), column(CLIP))
        assert norms(vectors * kept[..., None]).max() <= CLIP
        clipped, _ = clip_to_norm(vectors, clip=column(CLIP))
        assert norms(clipped).max() <= CLIP * (1 - 2.0**-21)
