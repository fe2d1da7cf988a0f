"""Canaries by `fedaudit run`: honest runs are attacked often, and broken ones end early."""

import os
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from fedaudit.cli.run import LocalRun
from fedaudit.privacy.noise.gaussian import unit_gaussian
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.parse import parse_spec
from tests.attacks.canaries.canary_cells import CENTRAL, COINS, LOCAL
from tests.training.specs import groups_spec, ran

ROUNDS = 12
CANARIES = {"kind": "canaries", "unit": "client", "count": 40}
FEW = {**LOCAL, "noise_multiplier": 3.0}


def played(
    *attacks: dict[str, Any], share: float = 1.0, rounds: int = ROUNDS, **privacy: Any
) -> LocalRun:
    """50 clients of whom all take part, and noise that is so much of what is claimed."""
    given: dict[str, Any] = {
        "model": {"kind": "mlp", "hidden": [15]},
        "training__loss": "mse",
        "training__rounds": rounds,
        "training__hypotheses": 1,
        "training__cohort": COINS if privacy.get("mechanism") is None else {"clients": 50},
        "privacy": {**CENTRAL, "noise_multiplier": 2.0, "accountant": "pld", **privacy},
    }
    noise = "fedaudit.training.mechanisms.gaussian.unit_gaussian"
    with patch(noise, lambda *some, **named: share * unit_gaussian(*some, **named)):
        return ran({**groups_spec(**given), "attacks": list(attacks)})


@pytest.fixture
def entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system's entropy, the same in every run of the test."""
    monkeypatch.setattr(os, "urandom", np.random.default_rng(11).bytes)


def test_an_honest_run_that_is_attacked_20_times_gets_no_alarm(entropy: None) -> None:
    """Each bound is wrong one time in twenty, as its spec asks, so some of them are: what raised an
    alarm before evidence was put together."""
    asked = {**CANARIES, "significance": 0.05}
    report = played(*[asked] * 20, rounds=1, noise="release").report
    found = report["attacks"]
    assert [one["status"] for one in found] == ["done"] * 20
    passed = [
        one["claim"] < max(bound["epsilon_lower_bound"] for bound in one["bounds"]) for one in found
    ]
    assert any(passed)
    assert not any(one["alarm"] for one in found)
    assert {one["e_basis"] for one in found} == {"fresh"}
    assert {one["alarm_level"] for one in found} == {0.01}
    assert all("too little for an alarm" in one["alarm_reason"] for one in found)
    assert report["gate_outcome_reason"] == "its spec has no gates"
    assert found[passed.index(True)]["statement"].count("are not enough for an alarm") == 1


@pytest.mark.parametrize("privacy", [{}, {"noise": "release"}, FEW])
def test_a_run_ends_in_the_round_in_which_its_noise_proves_too_small(entropy, privacy):
    report = played({**CANARIES, "stop": True}, share=0.5, **privacy).report
    rounds, utility = report["utility"]["rounds"], report["utility"]
    assert 1 < rounds < ROUNDS
    assert utility["stopped_by"] == "audit"
    [found] = report["attacks"]
    assert found["alarm"] is not None
    assert found["stopped_in"] == rounds
    assert found["e_value"] == 200
    assert f"After round {rounds}" in found["statement"]
    assert "which canaries beside it proved its noise too small" in report["verdict"]
    assert report["verdict_parts"]["release"].startswith("No: the attack canaries contradicts")
    # Charged is what was played, and no more.
    assert report["privacy"]["participations_max"] == rounds
    assert report["integrity"]["entries"] == rounds


def test_who_is_honest_plays_on_with_the_same_ledger() -> None:
    plain = played().report
    followed = played({**CANARIES, "stop": True}).report
    assert followed["utility"]["stopped_by"] == "rounds"
    [found] = followed["attacks"]
    assert (found["alarm"], found["stopped_in"]) == (None, None)
    assert found["e_value"] < 10
    assert followed["integrity"]["ledger_hash"] == plain["integrity"]["ledger_hash"]
    assert followed["utility"] == plain["utility"]


def test_what_asks_for_no_end_keeps_its_hash_and_what_cannot_be_followed_is_refused() -> None:
    def parsed(*attacks: dict[str, Any], **privacy: Any) -> Any:
        changes = {"training__hypotheses": 1, "privacy": privacy or CENTRAL}
        return parse_spec(groups_spec(**changes, attacks=list(attacks)))

    assert spec_hash(parsed(CANARIES)) == spec_hash(parsed({**CANARIES, "stop": False}))
    stop = {**CANARIES, "stop": True}
    with pytest.raises(InvalidInputError, match="put them first"):
        parsed(CANARIES, stop)
    with pytest.raises(InvalidInputError, match="claims no epsilon"):
        parsed(stop, mechanism="laplace-l2", noise_multiplier=1.0)
