"""A clip that follows a quantile: its noise, its steps, and where it settles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.privacy.accounting.accountant import event_curve
from fedaudit.privacy.accounting.privacy_events import Gaussian
from fedaudit.privacy.noise.adaptive_clipping import (
    next_clip,
    noised_share_within,
    spacing_of,
    update_noise_multiplier,
)
from fedaudit.spec.privacy import LEAST_CLIP
from tests.refusals import refused_by


@given(st.floats(0.1, 20), st.floats(1.01, 100))
@settings(deadline=None)  # the first example imports the library
def test_update_and_count_together_cost_the_noise_multiplier(noise, factor):
    """The bits move by one half: the count is a Gaussian mechanism of multiplier 2 sigma_b."""
    count_noise = factor * noise / 2
    update = update_noise_multiplier(noise_multiplier=noise, count_noise=count_noise)
    assert update > noise
    both, one = (
        sum(event_curve(Gaussian(part), (2.0, 8.0, 32.0), "add-or-remove-one") for part in parts)
        for parts in ((update, 2 * count_noise), (noise,))
    )
    assert both == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("count_noise", [0.5, 1.0])
def test_a_count_that_costs_everything_is_refused(count_noise):
    (error,) = refused_by(update_noise_multiplier, noise_multiplier=2.0, count_noise=count_noise)
    assert error.pointer == "/privacy/clip/adaptive/count_noise"
    assert "privacy.noise_multiplier = 2" in error.message
    assert "must exceed 1" in error.message


def test_the_share_is_normalised_by_the_public_cohort():
    share = noised_share_within(within=6, taking_part=10, noise=0.0, deviation=1, expected=10)
    assert share == pytest.approx(0.6)
    # Half as many came as expected, all within: 5 halves over 10, and one half.
    public = {"deviation": 1.0, "expected": 10}
    assert noised_share_within(within=5, taking_part=5, noise=0.0, **public) == 0.75
    assert noised_share_within(within=0, taking_part=0, noise=0.0, **public) == 0.5
    assert noised_share_within(within=0, taking_part=0, noise=-20.0, **public) == -1.5


@given(st.floats(-50, 50), st.floats(0.1, 20))
def test_the_noised_count_lies_on_the_grid_of_its_noise(noise, deviation):
    """And within half a cell of what it was, which is fine against the noise."""
    share = noised_share_within(
        within=6, taking_part=10, noise=noise, deviation=deviation, expected=1.0
    )
    cells = (share - 0.5) / spacing_of(deviation)
    assert cells == round(cells)
    assert abs(share - 0.5 - 1 - noise) <= deviation * 2.0**-12 + 1e-12


@given(st.integers(0, 50), st.booleans())
def test_one_client_moves_the_sum_by_one_half(others, within):
    def total(taking_part, inside):
        share = noised_share_within(
            within=inside, taking_part=taking_part, noise=0, deviation=1.0, expected=100
        )
        return 100 * (share - 0.5)

    moved = total(others + 1, others // 2 + within) - total(others, others // 2)
    assert abs(moved) == pytest.approx(0.5)


def test_the_clip_settles_at_the_quantile():
    """Norms uniform on 0 to 4 have the median 2; the mean of 200 late clips is within 5 % of it."""
    random = np.random.default_rng(0)
    clip, tail = 0.1, []
    for step in range(400):
        norms = random.uniform(0, 4, 200)
        share = noised_share_within(
            within=int((norms <= clip).sum()),
            taking_part=200,
            noise=random.normal(0, 10),
            deviation=10.0,
            expected=200,
        )
        clip = next_clip(clip, share_within=share, quantile=0.5, step_size=0.2)
        if step >= 200:
            tail.append(clip)
    assert np.mean(tail) == pytest.approx(2.0, rel=0.05)


def test_a_clip_that_all_updates_lie_within_ends_at_the_least_one():
    assert next_clip(2e-30, share_within=1.5, quantile=0, step_size=2) == LEAST_CLIP


@given(st.floats(1e-6, 1e6), st.floats(-2, 3), st.floats(0, 1), st.floats(0.01, 2))
def test_the_clip_moves_against_the_share_and_stays_positive(clip, share, quantile, step):
    moved = next_clip(clip, share_within=share, quantile=quantile, step_size=step)
    assert moved > 0
    if abs(share - quantile) > 1e-9:
        assert (moved < clip) == (share > quantile)
