"""SanitizeUpdate: which radius, which clip, and what leaves a client (Algorithm 2)."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.privacy.noise.laplace import Sanitiser, norms
from tests.privacy.layered_noise import column, layer_sanitiser


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


def test_settings_may_differ_from_cell_to_cell() -> None:
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
