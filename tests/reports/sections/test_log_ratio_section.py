"""The theorem's sum over a run, beside the leakage of the paper's convention."""

import pytest

from fedaudit.reports.report import assemble

_FIXED = {"mechanism": "laplace-l2", "noise_multiplier": 3.0, "radius": 0.5, "clip": 0.2}


def section(material, **privacy):
    return assemble(material({"privacy": {**_FIXED, **privacy}}))["privacy"]


def test_a_fixed_radius_with_a_clip_has_the_theorems_sum(material):
    found = section(material)
    # Four rounds of the busiest client, n = 3: each 2 * 0.2 * 3 / (3 * 0.5).
    assert found["participations_max"] == 4
    assert found["log_ratio_max"] == pytest.approx(4 * 0.8, rel=1e-15)
    assert found["leakage_max"] == 4.0
    assert "log_ratio_max" not in found["reasons"]


def test_updates_that_lie_further_apart_than_the_radius_cost_more_than_the_convention(material):
    found = section(material, clip=1.0)
    assert found["log_ratio_max"] == pytest.approx(4 * found["leakage_max"], rel=1e-15)


@pytest.mark.parametrize(
    ("privacy", "why"),
    [({"radius": "adaptive"}, "rates are secret"), ({"clip": None}, "not clipped")],
)
def test_without_public_rates_or_a_clip_there_is_none(material, privacy, why):
    found = section(material, **privacy)
    assert found["log_ratio_max"] is None
    assert why in found["reasons"]["log_ratio_max"]
