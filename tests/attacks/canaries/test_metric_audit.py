"""Canaries under metric privacy: leakage is tested where it can be, and refused where it cannot."""

from unittest.mock import patch

import pytest

from fedaudit.privacy.noise.laplace import unit_laplace
from tests.attacks.canaries.canary_cells import canary_cell, section_of

NOISE = "fedaudit.training.mechanisms.laplace_l2.unit_laplace"
FIXED = {"mechanism": "laplace-l2", "noise_multiplier": 2.0, "radius": 1.0}
SMALL = {
    "model": {"kind": "linear", "intercept": False},
    "federation__clients_per_group": [2200, 200],
    "federation__validation_fraction": 0.1,
    "training__rounds": 1,
    "training__cohort": {"clients": 2160},
}


def test_halved_noise_is_found_in_few_dimensions() -> None:
    cell = canary_cell(FIXED, **SMALL)
    assert cell.shape.n <= 2
    whole = section_of(cell, 2000)
    assert whole.alarm is None
    assert whole.metric.power is not None
    assert whole.metric.power > 0.95
    assert whole.metric.leakage_lower_bound is not None
    assert 0 < whole.metric.leakage_lower_bound <= whole.metric.leakage_claim
    assert whole.bounds == []
    with patch(NOISE, lambda *given, **named: unit_laplace(*given, **named) / 2):
        half = section_of(cell, 2000)
    assert "leakage" in half.alarm.claim


def test_many_dimensions_cannot_be_audited_and_it_says_so() -> None:
    section = section_of(canary_cell({**FIXED, "noise_multiplier": 100.0}), 50)
    assert section.status == "not-done"
    assert "cannot be audited" in (section.reason or "")
    assert "no all-clear" in section.statement
    assert section.alarm is None
    assert section.metric.leakage_lower_bound is None


def test_an_adaptive_radius_has_no_theorem_to_refute() -> None:
    privacy = {"mechanism": "laplace-l2", "noise_multiplier": 10.0}
    section = section_of(canary_cell(privacy), 50)
    assert (section.status, section.alarm) == ("not-done", None)
    assert "no theorem" in section.reason
    assert section.metric.leakage_claim == pytest.approx(16.1)
    assert section.metric.leakage_lower_bound is None
