"""Sanitising layer by layer and as a whole: the noise, what is caught, and what it bounds.


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


# -- a whole vector: which radius, which clip, and what leaves a client (Algorithm 2) -------------


def sanitiser(*, n: int = 2, nu: float = 1.0, **settings: float | None) -> Sanitiser:
    return layer_sanitiser((n,), nu=nu, per_layer=False, **settings)  # type: ignore[arg-type]


START = torch.tensor([[[1.0, -2.0]]])
UPDATE = torch.tensor([[[3.0, 4.0]]])  # of norm 5
NOISE = torch.tensor([[[0.5, -0.25]]]).double()


def test_an_adaptive_radius_is_the_norm_of_the_update() -> None:
    uploads, radii = sanitiser(nu=3.0)(START, START + UPDATE, NOISE)
    assert radii.item() == 5.0
    # 1/epsilon = nu * radius / n.
    assert torch.equal(uploads, START + UPDATE + NOISE * 3 * 5 / 2)
    assert uploads.dtype == torch.float32
    assert radii.dtype == torch.float64


def test_a_fixed_radius_knows_nothing_of_the_update() -> None:
    uploads, radii = sanitiser(radius=0.25)(START, START + UPDATE, NOISE)
    assert radii.item() == 0.25
    assert torch.equal(uploads, START + UPDATE + NOISE * 0.125)
    far, _ = sanitiser(radius=0.25)(START, START + 100 * UPDATE, NOISE)
    assert torch.equal(far - START - 100 * UPDATE, uploads - START - UPDATE)


def test_an_update_of_nothing_gets_the_floor() -> None:
    uploads, radii = sanitiser(floor=0.125)(START, START, NOISE)
    assert radii.item() == 0.125
    assert not torch.equal(uploads, START)
    # Without a floor it would leave as it is: what the floor is there for.
    bare, zero = sanitiser(floor=0.0)(START, START, NOISE)
    assert zero.item() == 0.0
    assert torch.equal(bare, START)


def test_a_clip_shortens_the_update_and_the_radius() -> None:
    uploads, radii = sanitiser(clip=0.5)(START, START + UPDATE, 0 * NOISE)
    assert radii.item() == 0.5
    torch.testing.assert_close(uploads - START, UPDATE / 10)
    kept, own = sanitiser(clip=6.0)(START, START + UPDATE, 0 * NOISE)
    assert torch.equal(kept, START + UPDATE)
    assert own.item() == 5.0


def test_a_clip_also_holds_under_a_fixed_radius() -> None:
    uploads, radii = sanitiser(clip=0.5, radius=2.0)(START, START + UPDATE, 0 * NOISE)
    assert radii.item() == 2.0
    # A standard deviation is 3^(1/2): half a cell of its grid is 2^-12.
    assert norms(uploads - START).item() == pytest.approx(0.5, abs=2.0**-11)


def test_settings_of_a_whole_vector_may_differ_from_cell_to_cell() -> None:
    stacked = Sanitiser(
        sizes=(2,),
        noise_multiplier=column(1.0, 2.0, 4.0),
        fixed_radius=column(math.nan, 2.0, math.nan),
        radius_floor=column(1e-6, 1e-6, 7.0),
        clip=column(math.inf, math.inf, 1.0),
    )
    uploads, radii = stacked(
        START.expand(3, 1, 2), (START + UPDATE).expand(3, 1, 2), NOISE.expand(3, 1, 2)
    )
    assert radii.flatten().tolist() == [5.0, 2.0, 7.0]
    torch.testing.assert_close(uploads[0], (START + UPDATE + NOISE * 2.5).float()[0])
    torch.testing.assert_close(uploads[1], (START + UPDATE + NOISE * 2.0).float()[0])
    # The grid is that of the floor, at which a standard deviation is 14 * 3^(1/2).
    released = (START + UPDATE / 5 + NOISE * 14.0).float()[0]
    torch.testing.assert_close(uploads[2], released, rtol=0, atol=2.0**-8)


@given(
    st.lists(st.floats(-(2.0**50), 2.0**50, width=32), min_size=1, max_size=8),
    st.floats(1e-5, 1e10),
    st.sampled_from([None, 0.5]),
)
def test_before_noise_no_upload_is_farther_than_the_clip(update, clip, radius):
    n = len(update)
    start = torch.zeros(1, 1, n)
    updated = torch.tensor(update)[None, None]
    sanitise = sanitiser(n=n, clip=clip, radius=radius)
    uploads, radii = sanitise(start, updated, torch.zeros(1, 1, n).double())
    cell = float(sanitise.spacings[0]) / 2 * math.sqrt(n)
    assert norms(uploads).item() <= clip * (1 + 1e-6) + cell
    if radius is None:
        assert 1e-6 <= radii.item() <= max(clip, 1e-6)


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("radius", [None, 0.5])
@pytest.mark.parametrize("sizes", [(2,), (1, 1)], ids=["whole", "layers"])
def test_an_update_that_is_not_finite_has_no_finite_upload(sizes, clip, radius):
    """Training withholds what is not finite; no setting may turn such an update into numbers."""
    sanitise = layer_sanitiser(sizes, clip=clip, radius=radius, per_layer=len(sizes) > 1)
    for bad in (math.nan, math.inf, -math.inf):
        uploads, _ = sanitise(START, torch.tensor([[[1.0, bad]]]), NOISE)
        assert not torch.isfinite(uploads).all()


def test_norms_are_taken_in_float64() -> None:
    huge = torch.full((1, 1, 4), 1e38)
    assert norms(huge).item() == pytest.approx(2e38)
    assert norms(torch.full((1, 1_000_000), 1e-3)).item() == pytest.approx(1.0, rel=1e-6)


def test_in_one_dimension_noise_goes_both_ways() -> None:
    noise = torch.tensor([[[2.0], [-2.0]]]).double()
    updated = torch.tensor([[[1.5], [1.5]]])
    uploads, radii = sanitiser(n=1)(torch.ones(1, 2, 1), updated, noise)
    assert radii.tolist() == [[0.5, 0.5]]
    assert uploads.flatten().tolist() == [2.5, 0.5]
