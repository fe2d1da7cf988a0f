"""Sanitising layer by layer: each layer's noise, what is caught, and what it bounds.

Distributions are judged by `looks_right` at `FALSE_ALARM` = 1e-6 for a verdict; each broken
mechanism is caught with a power of at least `POWER` = 0.999, by the bound of `looks_right.power`.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.privacy.noise.laplace import Sanitiser, layer_slices, norms, unit_layers
from fedaudit.randomness import CounterSource, EntropySource
from tests.native_fallback import fallback_only
from tests.privacy.layered_noise import (
    BROKEN,
    NORMS,
    NU,
    SIZES,
    an_update,
    column,
    layer_checks,
    layer_sanitiser,
    mechanism,
)
from tests.privacy.looks_right import FALSE_ALARM, looks_right, power

POWER = 0.999
PART = 1 << 16


def test_every_layers_noise_looks_right() -> None:
    assert looks_right(layer_checks(mechanism())) > FALSE_ALARM


@pytest.mark.parametrize("name", BROKEN)
def test_broken_noise_of_layers_is_caught(name: str) -> None:
    checks = layer_checks(BROKEN[name]())
    assert looks_right(checks) < FALSE_ALARM
    assert power(checks) >= POWER


def test_secret_noise_of_layers_looks_right_and_is_never_the_same() -> None:
    source = EntropySource(np.zeros(1))
    one, other = (unit_layers(source, sizes=SIZES, round_=1, counters=1) for _ in range(2))
    assert one.shape == other.shape == (1, sum(SIZES))
    assert not np.isin(one, other).any()


@pytest.mark.parametrize(
    "sizes",
    [
        SIZES,
        (1, 1),
        (320, 18496, 2 * PART + 5, 62 * 129),
        *((n,) for n in (1, 2, 7, 16, 17, 1000, 2 * PART, 2 * PART + 1, 5 * PART + 333)),
    ],
)
def test_a_long_vector_gets_the_noise_of_a_stack(sizes: tuple[int, ...]) -> None:
    seeds = np.array([3], dtype=np.uint64)
    together = unit_layers(
        CounterSource(seeds[:, None]), sizes=sizes, round_=[[9]], counters=np.array([[4, 8]])
    )
    for place, client in enumerate((4, 8)):
        alone = unit_layers(CounterSource(seeds), sizes=sizes, round_=9, counters=client)
        assert alone.tobytes() == together[0, place].tobytes()


def test_an_adaptive_radius_is_the_norm_of_the_layers_update() -> None:
    update, noise = an_update(), torch.ones(1, 1, sum(SIZES)).double()
    uploads, radii = layer_sanitiser()(torch.zeros_like(update), update, noise)
    assert radii.shape == (1, 1, len(SIZES))
    np.testing.assert_allclose(radii[0, 0], NORMS, rtol=1e-6)
    for part, size, norm in zip(layer_slices(SIZES), SIZES, NORMS, strict=True):
        # 1/epsilon_l = nu * radius_l / n_l.
        expected = update[..., part] + NU * norm / size
        torch.testing.assert_close(uploads[..., part], expected)


def test_a_fixed_radius_holds_for_every_layer_and_the_floor_for_each() -> None:
    update, noise = an_update(), torch.ones(1, 1, sum(SIZES)).double()
    _, fixed = layer_sanitiser(radius=0.75)(torch.zeros_like(update), update, noise)
    assert fixed.flatten().tolist() == [0.75] * len(SIZES)
    _, floored = layer_sanitiser(floor=0.75)(torch.zeros_like(update), update, noise)
    np.testing.assert_allclose(floored[0, 0], np.maximum(NORMS, 0.75), rtol=1e-6)


def test_a_clip_bounds_the_whole_update_before_it_is_taken_apart() -> None:
    update, noise = an_update(), torch.zeros(1, 1, sum(SIZES)).double()
    uploads, radii = layer_sanitiser(clip=0.5)(torch.zeros_like(update), update, noise)
    assert norms(uploads).item() == pytest.approx(0.5)
    shrink = 0.5 / np.linalg.norm(NORMS)
    np.testing.assert_allclose(radii[0, 0], np.array(NORMS) * shrink, rtol=1e-6)
    kept, own = layer_sanitiser(clip=9.0)(torch.zeros_like(update), update, noise)
    assert torch.equal(kept, update)
    np.testing.assert_allclose(own[0, 0], NORMS, rtol=1e-6)


PRIVACY = {
    "adaptive": (None, None),
    "fixed": (2.5, None),
    "clipped": (None, 0.75),
    "clipped and fixed": (2.5, 0.75),
    "a clip that is not reached": (None, 1e6),
}


@pytest.mark.parametrize(("radius", "clip"), PRIVACY.values(), ids=PRIVACY)
@pytest.mark.parametrize("sizes", [(3,), (1000,), (2 * PART + 5,), SIZES, (7, 2 * PART + 5, 11)])
def test_a_release_of_one_client_is_that_of_several(radius, clip, sizes):
    """Of a whole vector as well, and without kernels to the last bit."""
    layers = layer_sanitiser(sizes, radius=radius, clip=clip)
    sanitise = replace(layers, per_layer=len(sizes) > 1)
    random, n = np.random.default_rng(1), sum(sizes)
    start, updated = (random.normal(size=n).astype(np.float32) for _ in range(2))
    noise = random.normal(size=n)
    one = [torch.from_numpy(x)[None, None] for x in (start, updated, noise)]
    expected, radii = sanitise(*(torch.cat([x, x], dim=1) for x in one))
    upload, found = sanitise(*one)
    torch.testing.assert_close(found, radii[:, :1], rtol=1e-6, atol=0)
    torch.testing.assert_close(upload, expected[:, :1], rtol=1e-5, atol=1e-6)
    with fallback_only():
        same, _ = sanitise(*one)
    assert torch.equal(same, upload)


def test_settings_may_differ_from_cell_to_cell() -> None:
    stacked = Sanitiser(
        (2, 1),
        noise_multiplier=column(2.0, 4.0),
        fixed_radius=column(math.nan, 3.0),
        radius_floor=column(1e-6, 1e-6),
        clip=column(math.inf, 2.5),
        per_layer=True,
    )
    update = torch.tensor([[[3.0, 4.0, 12.0]]])
    uploads, radii = stacked(torch.zeros(2, 1, 3), update.expand(2, 1, 3), torch.ones(2, 1, 3))
    assert radii[:, 0].tolist() == [[5.0, 12.0], [3.0, 3.0]]
    assert uploads[0, 0].tolist() == [8.0, 9.0, 36.0]
    # A standard deviation is 12 * 2^(1/2) at most: half a cell of its grid is 2^-8.
    noised = update[0] * (2.5 / 13) + torch.tensor([6.0, 6.0, 12.0])
    torch.testing.assert_close(uploads[1], noised, rtol=0, atol=2.0**-8)


def test_no_two_layers_or_clients_share_a_norm() -> None:
    """12 rounds, 40 clients, 5 layers of one size: norms on a grid finer than 2**-40."""
    sizes = (3,) * 5
    noise = unit_layers(
        CounterSource(2), sizes=sizes, round_=np.arange(1, 13)[:, None], counters=np.arange(40)
    )
    lengths = [np.sqrt(np.square(noise[..., part]).sum(-1)) for part in layer_slices(sizes)]
    assert len(np.unique(np.round(np.array(lengths), 10))) == 12 * 40 * 5


@given(
    st.lists(
        st.tuples(st.floats(0.01, 100), st.integers(1, 4), st.integers(0, 2**32 - 1)),
        min_size=1,
        max_size=4,
    )
)
def test_the_theorem_adds_rate_times_distance_over_layers(layers):
    """Log-densities of independent layers, at any output and for any two uploads."""
    gap = bound = 0.0
    for epsilon, size, seed in layers:
        output, one, other = np.random.default_rng(seed).normal(size=(3, size))
        gap += epsilon * (np.linalg.norm(output - other) - np.linalg.norm(output - one))
        bound += epsilon * np.linalg.norm(one - other)
    assert abs(gap) <= bound * (1 + 1e-12)
