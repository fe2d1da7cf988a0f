"""Ways to look better than one is with a declared ledger, and what they meet."""

import io
import json
import zipfile
from typing import Any

import pytest

from tests.api.ledgers.trainings import (
    CENTRAL,
    GAUSSIAN,
    LOCAL,
    POISSON,
    declared,
    opened,
    post,
    reserve,
)
from tests.api.service import Api


def _gate(api: Api, ledger: str, **allowed: bool) -> Any:
    gate = {"figure": "epsilon_max", "op": "le", "value": 1e6, "allow_declared": True, **allowed}
    answer = api.post("/v1/gates/evaluations", json={"ledger_id": ledger, "gates": [gate]})
    return answer.json()["gates"][0]


def test_no_gate_passes_by_rounds_that_charge_no_one(api: Api) -> None:
    ledger = opened(api)
    assert _gate(api, ledger)["outcome"] == "insufficient_evidence"
    empty = post(api, ledger, declared(1, []), declared(2, [], {"kind": "none"}))
    assert empty.status_code == 422
    named = [one["pointer"] for one in empty.json()["errors"]]
    assert named == ["/rounds/0/participants", "/rounds/1/participants"]
    assert _gate(api, ledger)["outcome"] == "insufficient_evidence"


def test_a_gate_says_whose_word_it_took_and_what_is_missing(api: Api) -> None:
    ledger = opened(api)
    reserve(api, ledger, 2, ["a"])
    post(api, ledger, declared(3, ["a"]))
    found = _gate(api, ledger)
    assert found["outcome"] == "pass"
    assert "as declared by the trainer; 2 round numbers below 3" in found["reason"]
    assert "1 reservations were neither" in found["reason"]


def test_each_step_of_a_fixed_size_draws_anew(api: Api) -> None:
    ledger = opened(api, CENTRAL, adjacency="replace-one")
    event = {"kind": "fixed-gaussian", "clients": 2, "population": 100, "noise_multiplier": 5.0}
    three = {**event, "steps": 3}
    assert post(api, ledger, declared(1, ["a", "b", "c"], three)).status_code == 200
    assert post(api, ledger, declared(2, ["a", "b", "c"], event)).status_code == 422


def test_jittered_rates_and_noises_are_tested_together(api: Api) -> None:
    ledger, honest = opened(api, CENTRAL, population=1000), opened(api, CENTRAL, population=1000)
    events = [
        {**POISSON, "rate": 0.1 + one / 1e5, "noise_multiplier": 1.1 + one / 1e5}
        for one in range(30)
    ]
    rounds = [declared(one + 1, ["a", "b"], event) for one, event in enumerate(events)]
    assert post(api, ledger, *rounds).status_code == 200
    often, few = api.get(f"/v1/ledgers/{ledger}/report").json()["contradictions"]
    assert "named in 30 of 30 rounds" in often
    assert "60 participations in 30 rounds" in few
    # Each client drawn three times in 30 rounds, as is to be expected.
    drawn = [[f"c{10 * n + one % 10}" for n in range(100)] for one in range(30)]
    posted = [declared(n + 1, drawn[n], event) for n, event in enumerate(events)]
    assert post(api, honest, *posted).status_code == 200
    assert api.get(f"/v1/ledgers/{honest}/report").json()["contradictions"] == []


@pytest.mark.parametrize(
    ("event", "more"),
    [
        ({"kind": "poisson-gaussian", "rate": 0.05, "noise_multiplier": 1.1}, {}),
        (
            {"kind": "fixed-gaussian", "clients": 50, "population": 1000, "noise_multiplier": 4.0},
            {"adjacency": "replace-one"},
        ),
    ],
)
def test_the_attack_naming_no_one_turns_no_test_off(api, event, more):
    """Of 1,000 participations none is named, whose chance is e^-1000; nor only two thirds."""
    honest = {"population": 1000, **more}
    for named in (0, 33):
        ledger = opened(api, CENTRAL, **honest)
        names = [f"c{one}" for one in range(named)]
        assert post(api, ledger, *(declared(n, names, event) for n in range(1, 21)))
        found = api.get(f"/v1/ledgers/{ledger}/report").json()["contradictions"]
        assert any("fewer than the declared sampling gives" in one for one in found)
        assert _gate(api, ledger)["outcome"] == "insufficient_evidence"
    # Who failed was drawn too.
    ledger = opened(api, CENTRAL, **honest)
    drawn = [[f"c{50 * n + one}" for one in range(50)] for n in range(20)]
    rounds = [declared(n + 1, one[:20], event, failures=one[20:]) for n, one in enumerate(drawn)]
    assert post(api, ledger, *rounds).status_code == 200
    assert api.get(f"/v1/ledgers/{ledger}/report").json()["contradictions"] == []
    assert _gate(api, ledger)["outcome"] == "pass"


def test_a_trainer_that_cannot_name_participants_says_so_and_its_figures_are_conditional(api):
    unnamed = {"names_participants": False}
    refused = api.post("/v1/ledgers", json={**LOCAL, **unnamed})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/names_participants"
    ledger = opened(api, CENTRAL, population=1000, **unnamed)
    assert _gate(api, ledger)["outcome"] == "insufficient_evidence"
    assert post(api, ledger, *(declared(n, [], POISSON) for n in range(1, 21))).status_code == 200
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    assert report["contradictions"] == []
    assert any("nothing tests whether the sampling" in one for one in report["limits"])
    judged = _gate(api, ledger)
    assert judged["outcome"] == "insufficient_evidence"
    assert "set allow_conditional" in judged["reason"]
    assert _gate(api, ledger, allow_conditional=True)["outcome"] == "pass"


def test_bundles_do_not_name_who_was_drawn(api: Api) -> None:
    ledger = opened(api, CENTRAL, population=3, budget={"epsilon": 1e-3})
    told = post(api, ledger, declared(1, ["z", "k"], POISSON), declared(2, ["p"])).json()
    # Everyone is over the budget, drawn or not; and a later round finds the names again.
    assert [one["over_budget"] for one in told["rounds"]] == [3, 1]
    assert post(api, ledger, declared(3, ["k", "q"], POISSON)).status_code == 422
    assert post(api, ledger, declared(3, ["k"], POISSON)).status_code == 200
    with zipfile.ZipFile(io.BytesIO(api.get(f"/v1/ledgers/{ledger}/bundle").content)) as bundle:
        assert json.loads(bundle.read("subjects.json")) == ["everyone", "p"]
    assert api.get(f"/v1/ledgers/{ledger}/report/verification").json()["valid"]


def test_what_a_reservation_replaced_stays_on_record(api: Api) -> None:
    ledger, budget = opened(api), {"epsilon": 5.0}
    reserve(api, ledger, 1, ["a", "b", "c"])
    reserve(api, ledger, 1, ["a", "b", "c", "d"])  # contains the one before
    reserve(api, ledger, 1, ["z"])
    post(api, ledger, declared(1, ["z"]))
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    assert report["ledger"]["unanswered_reservations"] == 1

    # One that is refused takes nothing's place.
    other = opened(api, budget=budget)
    reserve(api, other, 1, ["a"])
    loud = {**GAUSSIAN, "noise_multiplier": 0.01}
    assert reserve(api, other, 1, ["z"], loud)["admitted"] == []
    post(api, other, declared(2, ["z"]))
    report = api.get(f"/v1/ledgers/{other}/report").json()
    assert report["ledger"]["unanswered_reservations"] == 1
