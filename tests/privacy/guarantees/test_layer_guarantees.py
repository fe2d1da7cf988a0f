"""What noise layer by layer is said to guarantee, and that it never claims more than is proven."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.privacy.accounting.privacy_events import Component
from fedaudit.privacy.leakage import covers_every_pair, leakage, worst_log_ratio
from fedaudit.privacy.mechanisms.registry import mechanism_of
from tests.privacy.specs_of_privacy import laplace

SIZES = (8, 3)


def said(sizes=SIZES, **settings):
    spec = laplace(noise="release", per_layer=True, **settings)
    return mechanism_of(spec).guarantee(n=sum(sizes), layers=sizes)


def test_adaptive_radii_are_no_theorem_and_add_up_to_the_whole():
    found = said(radius_floor=0.01, clip=2)
    assert (found.kind, found.delta, found.observers) == ("heuristic", None, ("server",))
    assert "n_l/nu in layer l (1.6, 0.6)" in found.statement
    assert "over layers that is n/nu = 2.2" in found.statement
    assert "no theorem" in found.statement
    assert "at least 0.01, and at most 2, to which the whole update is clipped" in found.statement
    assert "in any layer" in found.statement
    assert "layer of the network" in found.adjacency


def test_a_fixed_radius_adds_the_exponents_of_the_layers():
    found = said(radius=0.5)
    assert found.kind == "formal"
    assert "exp(sum of epsilon_l*d_l)" in found.statement
    assert "within r of each other in every layer" in found.statement
    assert "Updates are not clipped" in found.statement
    assert "n/nu covers" not in found.statement
    assert "||theta_i - theta_j|| within layer l" in found.statement
    assert "theta_i" not in said(radius=0.5, hypotheses=1).statement
    assert "without any noise" in said(radius=0.5, clustering="reported").statement


def test_a_clip_bounds_all_layers_together():
    # 2c/(nu r) * sqrt(8^2 + 3^2) = 2c * 3.417601...; n/nu = 2.2. A bound is rounded up.
    assert "n/nu covers every two datasets" in said(radius=0.5, clip=0.25).statement
    covering = 2.2 / (2 / 0.5 * math.hypot(*SIZES) / 5)
    assert "n/nu covers" in said(radius=0.5, clip=covering * (1 - 1e-9)).statement
    beyond = said(radius=0.5, clip=covering * (1 + 1e-9)).statement
    assert "n/nu covers" not in beyond
    assert "not by n/nu" in beyond
    far = said(radius=0.5, clip=1).statement
    assert "bounded by 2c/r * sqrt(sum of n_l^2)/nu = 6.83521," in far


@pytest.mark.parametrize("per_layer", [True, False])
@pytest.mark.parametrize(("clip", "covered"), [(0.25, True), (0.25005, False)])
def test_leakage_is_evidence_only_where_the_clip_keeps_uploads_within_the_radius(
    per_layer, clip, covered
):
    """Of a vector in one part: clips of a half of the radius cover every two datasets."""
    privacy = laplace(radius=0.5, clip=clip, per_layer=per_layer, hypotheses=1)
    found = mechanism_of(privacy).guarantee(n=11, layers=(11,))
    assert ("leakage_max" not in found.conditions) == covered
    assert ("n/nu covers" in found.statement) == covered
    assert f"lie within {2 * clip:g}" in found.statement
    if not covered:
        within = f"a clip of {clip:g} only keeps two uploads within {2 * clip:g} of"
        assert within in found.conditions["leakage_max"]


@given(
    st.lists(st.integers(1, 10_000), min_size=1, max_size=5),
    st.floats(1e-3, 1e3),
    st.floats(0.1, 1.5),
)
def test_n_over_nu_covers_what_the_theorem_bounds_by_no_more(sizes, radius, relative):
    clip, nu = relative * radius / 2, 5.0
    theorem = worst_log_ratio(1, sizes=sizes, noise_multiplier=nu, radius=radius, clip=clip)
    ratio = theorem / leakage(1, n=sum(sizes), noise_multiplier=nu)
    covered = covers_every_pair(clip=clip, radius=radius, sizes=sizes)
    assert covered == (ratio <= 1) or ratio == pytest.approx(1, rel=1e-12)
    found = said(sizes, radius=radius, clip=clip, hypotheses=1)
    assert ("leakage_max" not in found.conditions) == ("n/nu covers" in found.statement) == covered


@given(
    st.lists(st.integers(1, 10_000), min_size=1, max_size=5),
    st.integers(0, 2**32 - 1),
    st.floats(0.01, 10),
)
def test_no_two_clipped_uploads_pass_the_bound(sizes, seed, clip):
    """The exponents of any distances within a ball of 2c, and that the bound is met by some."""
    nu, radius = 5.0, 0.5
    rates = np.array(sizes) / (nu * radius)
    bound = 2 * clip / radius * math.hypot(*sizes) / nu
    distances = np.abs(np.random.default_rng(seed).normal(size=(100, len(sizes))))
    distances *= 2 * clip / np.linalg.norm(distances, axis=1, keepdims=True)
    assert (distances @ rates <= bound * (1 + 1e-12)).all()
    worst = rates * 2 * clip / np.linalg.norm(rates)
    assert worst @ rates == pytest.approx(bound)


def test_the_ledger_records_the_layers():
    layered, whole = (
        mechanism_of(laplace(radius=0.5, per_layer=per_layer)) for per_layer in (True, False)
    )
    inputs = layered.inputs(n=11, layers=SIZES)
    assert inputs.components == (Component("layer-1", 8), Component("layer-2", 3))
    assert inputs.component_sizes == SIZES
    assert whole.inputs(n=11, layers=SIZES).components is None
    for asked in (layered.inputs, layered.guarantee):
        with pytest.raises(ValueError, match="needs the parameters of each layer"):
            asked(n=11)
    with pytest.raises(ValueError, match="do not add up to 12"):
        layered.inputs(n=12, layers=SIZES)
