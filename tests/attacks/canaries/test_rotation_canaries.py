"""Canaries in rotation: public places, and noise that is correlated over rounds."""

import os
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from benchmarks.canary_power import alarms, measured, planned_for
from benchmarks.canary_scenarios import rotation
from fedaudit.attacks.canaries.canary_attack import CanaryAudit, draw_companion
from fedaudit.attacks.canaries.planted_canaries import ReleaseEvidence, draw_canaries
from fedaudit.privacy.lower_bounds.e_values import known_noise_e_value
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw, gaussian_epsilon
from fedaudit.privacy.noise.banded_noise import BandedNoise
from fedaudit.randomness import CounterSource
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from tests.attacks.canaries.canary_cells import CENTRAL, canary_cell, section_of
from tests.attacks.canaries.test_run_evidence import CANARIES, played

CORRELATION = {"kind": "banded", "bands": 4}
EVERY = {"sampling": "rotation", "every": 4}


@pytest.mark.parametrize(("rounds", "bands"), [(8, None), (8, 4), (4, 4), (8, 2)])
def test_half_of_the_noise_is_found_and_all_of_it_is_not(rounds: int, bands: int | None) -> None:
    """At a significance of 1 %: a false alarm of three in 33 times; powers are above 99 %."""
    scenario = rotation(2.0, 350, every=4, rounds=rounds, bands=bands)
    planned = planned_for(scenario)
    assert planned.known_noise > 0.99
    assert alarms(measured(scenario, planned, 1000 + seed) for seed in range(3))["any"] == 0
    with scenario.halved():
        assert alarms(measured(scenario, planned, seed) for seed in range(3))["any"] == 3
        # Independent noise that is reported as correlated.
        with patch.object(BandedNoise, "follow", lambda *given, **named: None):
            assert alarms(measured(scenario, planned, seed) for seed in range(3))["any"] == 3


@pytest.mark.parametrize("rounds", [4, 7, 8])
@pytest.mark.parametrize("bands", [1, 2, 4])
def test_bounds_are_wrong_no_more_often_than_they_say(bands: int, rounds: int) -> None:
    """Noise three clips: bounds at a significance of a tenth, and the evidence after each round,
    which reaches ten at most as often. Four standard deviations above 30 of 300."""
    n, sigma, law = 40, 3.0, ReleaseLaw(
        ratio=1 / 3, rate=1.0, compositions=-(-rounds // 4), adjacency="add-or-remove-one",
        every=4, bands=bands,
    )  # fmt: skip
    generator, numbers, wrong = np.random.default_rng(rounds * bands), np.arange(n), np.zeros(3)
    truth = gaussian_epsilon(law.mu, 1e-5)
    for seed in range(300):
        canaries = draw_canaries(
            0 * numbers, n=n, adjacency=law.adjacency, source=CounterSource(seed)
        )
        found, most = ReleaseEvidence(canaries, law), 0.0
        noise = sigma * generator.standard_normal((rounds, n))
        BandedNoise(bands).follow(noise, first=1, earlier=None) if bands > 1 else None
        for at, one in enumerate(noise):
            own = numbers[numbers % 4 == at % 4]
            sent = canaries.sent[own] * canaries.turns(own, found.seen)
            signal = canaries.directions.summed(sent, 0 * own, own, releases=1)
            found.see(
                one + signal, which=0 * numbers, numbers=numbers, took_part=numbers % 4 == at % 4
            )
            most = max(most, known_noise_e_value(found.fit, claimed=law.ratio))
        summed = found.kept.epsilon(law, 1e-5, significance=0.1)
        assert summed is not None
        wrong += [found.fit.least_ratio(0.1) > law.ratio, summed > truth, most >= 10]
    assert (wrong <= 30 + 4 * 27**0.5).all()


@pytest.mark.parametrize("bands", [None, 4])
def test_signal_and_noise_are_what_was_planned(bands: int | None) -> None:
    """All canaries present: the weight is exact; length and deviation within five of theirs."""
    scenario = rotation(2.0, 48, every=4, rounds=8, bands=bands)
    planned = planned_for(scenario)
    spec = CanariesSpec(unit="client", count=48)
    companion, _ = draw_companion(spec, scenario.seeded(5).cell, device="cpu")
    everyone = replace(companion.canaries, sent=np.ones(48), coins=np.ones(48, np.bool_))
    audit = CanaryAudit(replace(companion, canaries=everyone), planned)
    audit.play(progress=lambda share: None)
    fit, sigma = audit._found.fit, 1 / planned.claim.law.ratio
    assert fit.weight == pytest.approx(planned.claim.entries, rel=1e-6)
    assert fit.product / fit.weight == pytest.approx(1, abs=5 * sigma / fit.weight**0.5)
    assert fit.deviation == pytest.approx(sigma, rel=5 / (2 * fit.numbers) ** 0.5)
    assert set(audit._found.participations) == {2}
    # A score adds up what is seen of the lengths of its two participations.
    mean = float(audit._found.scores.mean()) * sigma**2
    assert mean == pytest.approx(2 * fit.weight / 96, abs=5 * sigma * (2 / 48) ** 0.5)


def test_the_section_counts_blocks_and_says_what_is_public_and_undone() -> None:
    privacy = {**CENTRAL, "noise_multiplier": 4.0, "correlation": CORRELATION}
    cell = canary_cell(privacy, training__cohort=EVERY, training__rounds=8)
    section = section_of(cell, 50)
    assert section.claim == pytest.approx(gaussian_epsilon(2**0.5 / 4, 1e-5), rel=0.1)
    assert (section.compositions, section.alarm) == (2, None)
    assert "and who took part." in section.capabilities[2]
    undone = ["correlation is undone" in bound.assumption for bound in section.bounds]
    assert undone == [True, False, False, False]
    alone = canary_cell(
        {**privacy, "correlation": None}, training__cohort=EVERY, training__rounds=4
    )
    assert "undone" not in section_of(alone, 50).model_dump_json()


@pytest.mark.parametrize("noise", ["simulation", "release"])
def test_a_run_in_rotation_ends_where_its_noise_proves_too_small(
    noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", np.random.default_rng(11).bytes)
    stop, given = {**CANARIES, "stop": True}, {"correlation": CORRELATION, "noise": noise}
    broken = played(stop, share=0.4, rounds=40, cohort=EVERY, **given).report
    assert broken["utility"]["stopped_by"] == "audit"
    assert broken["attacks"][0]["stopped_in"] == broken["utility"]["rounds"] < 40
    honest = played(stop, rounds=8, cohort=EVERY, **given).report
    assert honest["utility"]["stopped_by"] == "rounds"
    assert honest["attacks"][0]["alarm"] is None
