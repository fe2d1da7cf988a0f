"""One client's long vector gets the numbers that a stack of clients would."""

import numpy as np
import pytest
import torch

from fedaudit.privacy.noise.gaussian import drawn_normals, wide_normals
from fedaudit.privacy.noise.laplace import (
    Sanitiser,
    _squared_length,
    release_in_place,
    squared_distances,
)
from fedaudit.randomness import CounterSource, Purpose
from tests.native_fallback import fallback_only
from tests.privacy.layered_noise import column

PART = 1 << 16


PRIVACY = {
    "adaptive": (None, None),
    "fixed": (2.5, None),
    "clipped": (None, 0.75),
    "clipped and fixed": (2.5, 0.75),
    "a clip that is not reached": (None, 1e6),
}


@pytest.mark.parametrize(("radius", "clip"), PRIVACY.values(), ids=PRIVACY)
@pytest.mark.parametrize("n", [3, 1000, 2 * PART + 5])
def test_a_release_is_that_of_a_stack(radius: float | None, clip: float | None, n: int) -> None:
    sanitise = Sanitiser(
        n=n,
        noise_scale=column(0.5 / n),
        fixed_radius=None if radius is None else column(radius),
        radius_floor=column(1e-6),
        clip=None if clip is None else column(clip),
    )
    random = np.random.default_rng(n)
    start, updated = (random.normal(size=n).astype(np.float32) for _ in range(2))
    noise = random.normal(size=n)
    expected, radii = sanitise(*(torch.from_numpy(x)[None, None] for x in (start, updated, noise)))
    upload = torch.from_numpy(updated.copy())
    found = release_in_place(sanitise, torch.from_numpy(start), upload, noise)
    torch.testing.assert_close(found, radii, rtol=1e-12, atol=0)
    torch.testing.assert_close(upload, expected[0, 0], rtol=1e-6, atol=1e-7)
    same = torch.from_numpy(updated.copy())
    with fallback_only():
        release_in_place(sanitise, torch.from_numpy(start), same, noise)
    assert torch.equal(same, upload)


@pytest.mark.parametrize("clip", [None, 0.5])
def test_an_update_that_is_not_finite_does_not_become_so(clip: float | None) -> None:
    one = torch.ones(1, 1, dtype=torch.float64)
    sanitise = Sanitiser(3, one, None, one, None if clip is None else one * clip)
    for broken in (np.nan, np.inf):
        upload = torch.tensor([1.0, broken, 2.0])
        release_in_place(sanitise, torch.zeros(3), upload, np.ones(3))
        assert not torch.isfinite(upload).all()


def test_distances_are_those_in_double_precision() -> None:
    random = np.random.default_rng(1)
    for clients, n in ((1, 3), (4, 3 * PART + 7), (PART + 1, 2)):
        vectors = random.normal(size=(clients, n)).astype(np.float32)
        point = random.normal(size=n).astype(np.float32)
        found = squared_distances(torch.from_numpy(vectors), torch.from_numpy(point))
        expected = np.square((vectors - point).astype(np.float64)).sum(1)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("n", [65_537, 131_080, 524_289, 1_206_590])
def test_squared_lengths_are_those_of_all_numbers_at_once(n: int) -> None:
    vectors = np.random.default_rng(1).standard_normal((2, n + 1))[:, :n]
    assert np.array_equal(_squared_length(vectors), np.square(vectors).sum(-1))


@pytest.mark.parametrize("n", [1, 300, 40_001])
def test_numbers_in_the_place_of_their_words_are_the_same(n: int) -> None:
    source, purpose, counters = CounterSource(1), Purpose.DIRECTION, np.arange(3)
    words = source.wide_words(purpose=purpose, round_=1, counters=counters, count=n + n % 2)
    expected = wide_normals(words)[:, :n]
    drawn = drawn_normals(source, purpose=purpose, n=n, round_=1, counters=counters)
    assert np.array_equal(drawn, expected)
    with fallback_only():
        drawn = drawn_normals(source, purpose=purpose, n=n, round_=1, counters=counters)
    assert np.array_equal(drawn, expected)
