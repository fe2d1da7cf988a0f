"""Ways to look better than one is with a declared ledger, and what they meet."""

import json
from typing import Any

import pytest

from tests.api.ledgers import trainings
from tests.api.ledgers.trainings import CENTRAL, POISSON, declared, opened, post, report, reserve
from tests.api.service import Api, body_of

GATE = {"figure": "epsilon_max", "op": "le", "value": 1e6, "allow_declared": True}
LACKING = "insufficient_evidence"
FIXED = {"kind": "fixed-gaussian", "clients": 50, "population": 1000, "noise_multiplier": 4.0}


def gate(api: Api, ledger: str, **allowed: bool) -> Any:
    [found] = trainings.judged(api, ledger, {**GATE, **allowed})
    return found


def test_no_gate_passes_by_rounds_that_charge_no_one(api: Api) -> None:
    ledger = opened(api)
    empty = post(api, ledger, declared(1, []), declared(2, [], {"kind": "none"}))
    named = [one["pointer"] for one in body_of(empty, 422)["errors"]]
    assert named == ["/rounds/0/participants", "/rounds/1/participants"]
    assert gate(api, ledger)["outcome"] == LACKING


def test_a_gate_says_whose_word_it_took_and_what_is_missing(api: Api) -> None:
    ledger = opened(api)
    reserve(api, ledger, 2, ["a"])
    post(api, ledger, declared(3, ["a"]))
    found = gate(api, ledger)
    assert found["outcome"] == "pass"
    assert "as declared by the trainer; 2 round numbers below 3" in found["reason"]
    assert "1 reservations were neither" in found["reason"]


def test_each_step_of_a_fixed_size_draws_anew(api: Api) -> None:
    ledger = opened(api, CENTRAL, adjacency="replace-one")
    event = {**FIXED, "clients": 2, "population": 100, "noise_multiplier": 5.0}
    names = ["a", "b", "c"]
    assert post(api, ledger, declared(1, names, {**event, "steps": 3})).status_code == 200
    assert post(api, ledger, declared(2, names, event)).status_code == 422


def test_jittered_rates_and_noises_are_tested_together(api: Api) -> None:
    """Honest names at rates that change contradict nothing: tests/privacy/declared."""
    ledger = opened(api, CENTRAL, population=1000)
    shifts = [one / 1e5 for one in range(30)]
    events = [{**POISSON, "rate": 0.1 + shift, "noise_multiplier": 1.1 + shift} for shift in shifts]
    rounds = [declared(one, ["a", "b"], event) for one, event in enumerate(events, start=1)]
    assert post(api, ledger, *rounds).status_code == 200
    often, few = report(api, ledger)["contradictions"]
    assert "named in 30 of 30 rounds" in often
    assert "60 participations in 30 rounds" in few


@pytest.mark.parametrize(
    ("event", "more"),
    [({**POISSON, "rate": 0.05}, {}), (FIXED, {"adjacency": "replace-one"})],
    ids=["poisson", "fixed"],
)
def test_the_attack_naming_no_one_turns_no_test_off(api, event, more):
    """Of 1,000 participations none is named, whose chance is e^-1000; nor only two thirds."""
    honest = {"population": 1000, **more}
    for named in (0, 33):
        ledger = opened(api, CENTRAL, **honest)
        names = [f"c{one}" for one in range(named)]
        assert post(api, ledger, *(declared(n, names, event) for n in range(1, 21)))
        found = report(api, ledger)["contradictions"]
        assert any("fewer than the declared sampling gives" in one for one in found)
        assert gate(api, ledger)["outcome"] == LACKING
    # Who failed was drawn too.
    drawn = [[f"c{50 * n + one}" for one in range(50)] for n in range(20)]
    rounds = [declared(n + 1, one[:20], event, failures=one[20:]) for n, one in enumerate(drawn)]
    ledger = opened(api, CENTRAL, rounds=rounds, **honest)
    assert report(api, ledger)["contradictions"] == []
    assert gate(api, ledger)["outcome"] == "pass"


def test_a_trainer_that_cannot_name_participants_says_so_and_its_figures_are_conditional(api):
    unnamed = {"names_participants": False}
    refused = body_of(api.post("/v1/ledgers", json={**trainings.LOCAL, **unnamed}), 422)
    assert refused["errors"][0]["pointer"] == "/names_participants"
    ledger = opened(api, CENTRAL, population=1000, **unnamed)
    assert gate(api, ledger)["outcome"] == LACKING
    assert post(api, ledger, *(declared(n, [], POISSON) for n in range(1, 21))).status_code == 200
    said = report(api, ledger)
    assert said["contradictions"] == []
    assert any("nothing tests whether the sampling" in one for one in said["limits"])
    judged = gate(api, ledger)
    assert (judged["outcome"], "set allow_conditional" in judged["reason"]) == (LACKING, True)
    assert gate(api, ledger, allow_conditional=True)["outcome"] == "pass"


def test_bundles_do_not_name_who_was_drawn(api: Api) -> None:
    ledger = opened(api, CENTRAL, population=3, budget={"epsilon": 1e-3})
    told = post(api, ledger, declared(1, ["z", "k"], POISSON), declared(2, ["p"])).json()
    # Everyone is over the budget, drawn or not; and a later round finds the names again.
    assert [one["over_budget"] for one in told["rounds"]] == [3, 1]
    assert post(api, ledger, declared(3, ["k", "q"], POISSON)).status_code == 422
    assert post(api, ledger, declared(3, ["k"], POISSON)).status_code == 200
    with trainings.bundle(api, ledger) as bundle:
        assert json.loads(bundle.read("subjects.json")) == ["everyone", "p"]
    assert trainings.verified(api, ledger)["valid"]


def test_what_a_reservation_replaced_stays_on_record(api: Api) -> None:
    ledger, other = opened(api), opened(api, budget={"epsilon": 5.0})
    reserve(api, ledger, 1, ["a", "b", "c"])
    reserve(api, ledger, 1, ["a", "b", "c", "d"])  # contains the one before
    reserve(api, ledger, 1, ["z"])
    post(api, ledger, declared(1, ["z"]))
    # One that is refused takes nothing's place.
    reserve(api, other, 1, ["a"])
    loud = {**trainings.GAUSSIAN, "noise_multiplier": 0.01}
    assert reserve(api, other, 1, ["z"], loud)["admitted"] == []
    post(api, other, declared(2, ["z"]))
    for one in (ledger, other):
        assert report(api, one)["ledger"]["unanswered_reservations"] == 1
