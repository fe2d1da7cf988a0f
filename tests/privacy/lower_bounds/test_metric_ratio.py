"""Two inputs under metric privacy: what can be told, and that it is told honestly."""

import numpy as np
import pytest
from scipy.stats import binom

from fedaudit.privacy.lower_bounds.e_values import least_leakage, plan_metric_test


def test_the_bound_is_exact() -> None:
    """At the bound's own chance so many right guesses are as rare as the significance."""
    found = least_leakage(right=95, wrong=5, significance=0.01)
    chance = 1 / (1 + np.exp(-found))
    assert binom.sf(94, 100, chance) == pytest.approx(0.01, rel=1e-6)
    assert least_leakage(right=5, wrong=95, significance=0.01) == 0.0
    assert least_leakage(right=0, wrong=0, significance=0.01) == 0.0


def test_few_dimensions_can_be_audited_and_many_cannot() -> None:
    few = plan_metric_test(
        n=2, noise_multiplier=1.0, releases=2000, most_share=1.0, significance=0.01
    )
    many = plan_metric_test(
        n=1000, noise_multiplier=300.0, releases=2000, most_share=1.0, significance=0.01
    )
    assert few is not None
    assert few.power > 0.95
    assert many is not None
    assert many.power < 0.05


def test_a_leakage_beyond_all_distances_has_no_test() -> None:
    assert (
        plan_metric_test(
            n=1000, noise_multiplier=1.0, releases=100, most_share=1.0, significance=0.01
        )
        is None
    )
