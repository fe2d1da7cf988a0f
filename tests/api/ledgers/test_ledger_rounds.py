"""Rounds of trainings elsewhere: what they cost, and how somebody would cheat."""

import json
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from sqlalchemy import update

from fedaudit.privacy.accounting.accountant import RDP_ORDERS
from models.tables.ledger import DeclaredLedger, Ledger
from tests.api.ledgers import trainings
from tests.api.ledgers.trainings import (
    CENTRAL,
    GAUSSIAN,
    LOCAL,
    POISSON,
    declared,
    epsilon,
    opened,
    post,
    read,
    report,
    reserve,
    verified,
)
from tests.api.service import Api, body_of

REPLACED = {**CENTRAL, "adjacency": "replace-one"}
FIXED = {"kind": "fixed-gaussian", "clients": 10, "population": 100, "noise_multiplier": 4.0}
METRIC = {name: LOCAL[name] for name in ("name", "observer", "unit")}
METRIC |= {"mechanism": "laplace-l2", "population": 10}
LAPLACE = {"kind": "laplace-l2", "n": 10, "noise_multiplier": 1.0, "radius": 1.0, "clip": 1.0}
ZERO_OUT = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE


@pytest.fixture
def api(shared_api: Api) -> Api:
    """Each test has its own ledgers."""
    return shared_api


def library(event: Any, count: int, relation: Any) -> float:
    """The epsilon by dp-accounting alone."""
    accountant = RdpAccountant(list(RDP_ORDERS), relation).compose(event, count)
    return float(accountant.get_epsilon(1e-5))


def test_epsilon_is_that_of_dp_accounting(api: Api) -> None:
    gaussian = dp_accounting.GaussianDpEvent
    sampled = dp_accounting.PoissonSampledDpEvent(0.1, gaussian(1.1))
    by_steps = {**CENTRAL, "mechanism": "gaussian", "unit": "record", "observer": "server"}
    for ledger in (
        opened(api, CENTRAL, rounds=[declared(one, ["a"], POISSON) for one in range(1, 31)]),
        opened(api, by_steps, rounds=[declared(1, ["silo"], {**POISSON, "steps": 30})]),
    ):
        assert epsilon(api, ledger) == pytest.approx(library(sampled, 30, ZERO_OUT), rel=1e-12)
    names = (["a", "b"] if one < 4 else ["b"] for one in range(1, 6))
    local = opened(api, rounds=[declared(one, some) for one, some in enumerate(names, start=1)])
    # Of two uploads a replaced client moves both ends: half the noise multiplier.
    assert epsilon(api, local) == pytest.approx(library(gaussian(4.0), 5, REPLACE), rel=1e-12)
    three = [declared(one, ["a"], POISSON) for one in range(1, 4)]
    tighter = opened(api, CENTRAL, accountant="pld", rounds=three)
    exact = PLDAccountant(ZERO_OUT, 1e-4).compose(sampled, 3).get_epsilon(1e-5)
    assert epsilon(api, tighter) == pytest.approx(exact, rel=1e-12)
    assert exact < library(sampled, 3, ZERO_OUT)


def test_who_may_have_uploaded_or_been_drawn_is_charged(api: Api) -> None:
    failing, answering = opened(api), opened(api)
    post(api, failing, declared(1, ["a"], failures=["b"]), declared(2, [], failures=["b"]))
    post(api, answering, declared(1, ["a", "b"]), declared(2, ["b"]))
    assert epsilon(api, failing) == epsilon(api, answering) > 0
    lines = read(api, failing, "/privacy-ledger?client=b")["items"]
    assert [(line["release"], line["guarantee"]) for line in lines] == [(1, "declared")] * 2
    # Rounds of secret samples are charged to everyone, and name no one.
    ledger = opened(api, CENTRAL)
    answer = post(api, ledger, declared(1, ["a"], POISSON), declared(2, ["b"], POISSON))
    assert {one["charged"] for one in answer.json()["rounds"]} == {"population"}
    lines = read(api, ledger, "/privacy-ledger")["items"]
    named = [(line["subject"], line["subject_kind"]) for line in lines]
    assert named == [("everyone", "population")] * 2


def test_a_release_without_noise_leaves_no_bound(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a", "b"]), declared(2, ["b"], {"kind": "none"})])
    [figure] = read(api, ledger)["epsilon"]
    assert (figure["value"], "without noise" in figure["reason"]) == (None, True)
    assert "nothing bounds what they reveal" in report(api, ledger)["verdict"]
    assert verified(api, ledger)["valid"]


def test_noise_by_distance_is_heuristic_and_has_no_epsilon(api: Api) -> None:
    terms = {**METRIC, "mechanism": "gaussian-distance", "observer": "final_model"}
    by_distance = {"kind": "gaussian-distance", "noise_multiplier": 0.01}
    ledger = opened(api, terms, rounds=[declared(1, ["a", "b"], by_distance)])
    # An epsilon cannot be smuggled in, and the term bounds nothing in another ledger.
    for other, event in ((ledger, GAUSSIAN), (opened(api), by_distance)):
        [fault] = body_of(post(api, other, declared(2, ["a"], event)), 422)["errors"]
        assert fault["pointer"] == "/rounds/0/event/kind"
    assert read(api, ledger)["epsilon"] == []
    said = report(api, ledger)
    guarantee, privacy = said["guarantee"], said["privacy"]
    assert (guarantee["kind"], guarantee["label"]) == ("declared", "heuristic")
    assert "not enforced as a formal guarantee" in guarantee["statement"]
    assert privacy["epsilon_max"] is None
    assert privacy["reasons"]["epsilon_max"]
    assert "nothing bounds what they reveal" in said["verdict"]
    assert verified(api, ledger)["valid"]


def test_metric_privacy_is_counted_as_leakage(api: Api) -> None:
    # Terms may state a delta and an adjacency that nothing is counted under.
    stated = {name: LOCAL[name] for name in ("delta", "adjacency")}
    ledger = opened(api, METRIC, **stated, budget={"leakage": 70})
    event = {**LAPLACE, "n": 61, "noise_multiplier": 3, "clip": 0.5}
    post(api, ledger, declared(1, ["a"], event), declared(2, ["a", "b"], event))
    shown = read(api, ledger)
    assert (shown["epsilon"], shown["leakage_max"]) == ([], 2 * 61 / 3)
    assert shown["log_ratio_max"] == pytest.approx(2 * 61 / 3)
    other = post(api, ledger, declared(3, ["a"], {**event, "radius": 2.0}))
    assert other.json()["errors"][0]["pointer"] == "/rounds/0/event/radius"
    assert verified(api, ledger)["valid"]
    # The extremes within the bounds have figures.
    bounds = {"n": 10**12, "noise_multiplier": 1e-3, "radius": 1e-9, "clip": 1e9}
    extreme = opened(api, METRIC, rounds=[declared(1, ["a"], {**LAPLACE, **bounds})])
    found = report(api, extreme)["privacy"]
    assert found["log_ratio_max"] == pytest.approx(2e33)
    assert found["leakage_max"] == pytest.approx(1e15)


def test_the_same_round_again_is_answered_alike_and_another_is_refused(api: Api) -> None:
    ledger = opened(api)
    first = body_of(post(api, ledger, declared(1, ["a", "b"], failures=["c"])))
    before = read(api, ledger)
    assert body_of(post(api, ledger, declared(1, ["b", "a"], failures=["c"]))) == first
    longer = post(api, ledger, declared(1, ["a", "b"], failures=["c"]), declared(2, ["a"]))
    again, new = longer.json()["rounds"]
    assert again == first["rounds"][0]
    assert new["chain_head"] != before["chain_head"]
    cheaper = post(api, ledger, declared(1, ["a"], failures=["c"]))
    assert body_of(cheaper, 409)["round"] == 1


def test_answers_do_not_tell_who_was_drawn_in_secret(api: Api) -> None:
    path = f"/v1/ledgers/{opened(api, CENTRAL, population=3)}/rounds"
    body = {"rounds": [declared(1, ["a", "b"], POISSON)]}
    writer, trainer = (
        api.key_with("experiments:write", *more) for more in ((), ("experiments:read",))
    )
    first = api.post(path, json=body, key=trainer)
    assert first.status_code == 200
    assert api.post(path, json=body, key=trainer).json() == first.json()

    def answers(guess: str) -> list[str]:
        asked = {"event": POISSON, "participants": ["x", "y", "z", guess]}
        again = {"rounds": [declared(1, ["a", guess], POISSON)]}
        answers = [
            api.post(f"{path}/2/reservation", json=asked, key=writer),
            api.post(path, json={"rounds": [declared(2, ["x", "y", "z", guess])]}, key=writer),
            api.post(path, json=again, key=writer),
        ]
        assert [one.status_code for one in answers] == [422, 422, 409]
        return [one.json()["detail"] for one in answers]

    assert answers("b") == answers("c")


def test_a_round_that_comes_late_is_refused_and_its_gap_is_shown(api: Api) -> None:
    ledger = opened(api, rounds=[declared(2, ["a"]), declared(6, ["a"])])
    assert body_of(post(api, ledger, declared(3, ["a"]), declared(7, ["a"])), 409)["round"] == 3
    shown = read(api, ledger)
    assert (shown["rounds"], shown["gaps"], shown["missing_rounds"]) == (2, [[1, 1], [3, 5]], 4)
    said = report(api, ledger)
    assert said["ledger"]["missing_rounds"] == 4
    assert "4 numbers below round 6 never declared" in said["verdict"]


def test_every_fault_is_named_at_once_and_nothing_is_entered(api: Api) -> None:
    ledger = opened(api, population=3)
    answer = post(
        api,
        ledger,
        declared(1, ["a"]),
        declared(2, ["a", "a", "everyone"], {"kind": "gaussian", "noise_multiplier": 0}),
        declared(3, ["b", "c", "d"], POISSON, failures=["b"]),
        {"round": 3, "event": {"kind": "shuffled"}, "participants": []},
        declared(2, [], groups={"sex": {"f": {"true_positives": -1}}}),
    )
    of_group = [f"/rounds/4/groups/sex/f/{name}" for name in trainings.COUNTS]
    assert [one["pointer"] for one in body_of(answer, 422)["errors"]] == [
        *("/rounds/1/event/noise_multiplier", "/rounds/2/participants/2", "/rounds/2/failures/0"),
        *("/rounds/2/event/kind", "/rounds/3/event/kind", *of_group),
    ]
    assert read(api, ledger)["rounds"] == 0


TOO_SMALL = {"n": 2**53 - 1, "noise_multiplier": 1e-300, "radius": 1e-300, "clip": 1e300}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "the server sees who was drawn": (LOCAL, POISSON, ["event/kind"]),
    "a fixed cohort has no bound under zero-out": (CENTRAL, FIXED, ["event/kind"]),
    "drawn clients are not replaced": (REPLACED, POISSON, ["event/kind"]),
    "of another population": (REPLACED, {**FIXED, "population": 1000}, ["event/population"]),
    "of another mechanism": (LOCAL, LAPLACE, ["event/kind"]),
    "more clients than were drawn": (REPLACED, {**FIXED, "clients": 2}, ["participants"]),
    "a name that is not listed": (
        {**LOCAL, "population": 3, "subjects": ["a", "b", "d"]},
        GAUSSIAN,
        ["participants/2"],
    ),
    "numbers of metric privacy": (
        METRIC,
        {**LAPLACE, **TOO_SMALL},
        [f"event/{name}" for name in TOO_SMALL],
    ),
    "numbers of sampling": (
        CENTRAL,
        {**POISSON, "rate": 1e-300, "noise_multiplier": 1e-170},
        ["event/rate", "event/noise_multiplier"],
    ),
    "numbers of loss distributions": (
        {**LOCAL, "accountant": "pld"},
        {**GAUSSIAN, "noise_multiplier": 1e-10, "steps": 10**9},
        ["event/noise_multiplier", "event/steps"],
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_rounds_that_cost_less_than_they_did_are_refused_at_their_field(api: Api, why: str) -> None:
    terms, event, fields = REFUSED[why]
    answer = post(api, opened(api, terms), declared(1, ["a", "b", "c"], event))
    found = {one["pointer"] for one in body_of(answer, 422)["errors"]}
    assert found == {f"/rounds/0/{field}" for field in fields}


def test_a_ledger_that_cannot_be_signed_holds_up_no_other(api_on_both: Api) -> None:
    api = api_on_both
    round_ = declared(1, ["a"], LAPLACE)
    broken, sound = (opened(api, METRIC, rounds=[round_]) for _ in range(2))
    # An error of a kind that no list has: KeyError, and neither ValueError nor TypeError.
    wrong = update(Ledger).where(Ledger.experiment_id == broken)
    api.change(wrong.values(event="{}", delta=1e-5, epsilons=np.zeros(1)))
    assert trainings.sign(api) == 1
    rows = [api.row(DeclaredLedger, one) for one in (broken, sound)]
    assert [row.signed_entries for row in rows] == [-1, 1]


@pytest.mark.parametrize("event", [{"noise_multiplier": 1e-3}, {"steps": 10_000_000}])
def test_loss_distributions_that_are_too_large_give_the_renyi_bound_and_say_so(api, event):
    ledger = opened(api, accountant="pld", budget={"epsilon": 1})
    answer = post(api, ledger, declared(1, ["a"], {**GAUSSIAN, "noise_multiplier": 1, **event}))
    assert answer.json()["rounds"][0]["over_budget"] == 1
    [found] = read(api, ledger)["epsilon"]
    assert (found["accountant"], "too large" in found["reason"]) == ("rdp", True)
    privacy = report(api, ledger)["privacy"]
    assert privacy["epsilon_max"] == pytest.approx(found["value"])
    assert privacy["epsilon"][0]["accountant"] == "rdp"
    assert "too large" in privacy["reasons"]["accountant"]
    assert len(read(api, ledger, "/privacy-ledger")["items"]) == 1


# -- ways to look better than one is, and what they meet ------------------------------------------

GATE = {"figure": "epsilon_max", "op": "le", "value": 1e6, "allow_declared": True}
LACKING = "insufficient_evidence"
OF_FIFTY = {"kind": "fixed-gaussian", "clients": 50, "population": 1000, "noise_multiplier": 4.0}


def gate(api: Api, ledger: str, **allowed: bool) -> Any:
    [found] = trainings.judged(api, ledger, {**GATE, **allowed})
    return found


def test_a_gate_says_whose_word_it_took_and_what_is_missing(api: Api) -> None:
    ledger = opened(api)
    # Rounds that charge no one let none pass.
    empty = post(api, ledger, declared(1, []), declared(2, [], {"kind": "none"}))
    named = [one["pointer"] for one in body_of(empty, 422)["errors"]]
    assert named == ["/rounds/0/participants", "/rounds/1/participants"]
    assert gate(api, ledger)["outcome"] == LACKING
    reserve(api, ledger, 2, ["a"])
    post(api, ledger, declared(3, ["a"]))
    found = gate(api, ledger)
    assert found["outcome"] == "pass"
    assert "as declared by the trainer; 2 round numbers below 3" in found["reason"]
    assert "1 reservations were neither" in found["reason"]


def test_the_attack_a_population_below_the_clients_turns_no_rule_of_delta_off(api: Api) -> None:
    """At a delta of 0.9 in a population of one an epsilon of 0 allowed any record to be given
    away."""
    terms = {**CENTRAL, "mechanism": "gaussian", "unit": "record", "observer": "server"}
    named = {"participants": [f"c{one}" for one in range(20)], "failures": ["d", "e"]}
    rounds = [declared(1, event={**GAUSSIAN, "noise_multiplier": 0.5}, **named)]
    few, true = (
        opened(api, {**terms, "delta": 0.9, "population": size}, rounds=rounds) for size in (1, 22)
    )
    said = report(api, few)
    assert "22 clients were named" in said["contradictions"][0]
    assert "declared population is 1:" in said["contradictions"][0]
    assert said["answer"]["reasons"][0]["code"] == "declarations-contradict"
    assert gate(api, few, allow_conditional=True)["outcome"] == LACKING
    # Nor does one pass by a report that was signed before there was this rule.
    earlier = {"report": {**said, "contradictions": []}, "report_hash": "-"}
    stored = update(DeclaredLedger).where(DeclaredLedger.id == few)
    api.change(stored.values(**earlier, signed_entries=DeclaredLedger.entries))
    assert gate(api, few, allow_conditional=True)["outcome"] == LACKING
    # One record each: nothing is contradicted, and the delta is what it is.
    said = report(api, true)
    assert said["contradictions"] == []
    assert "delta-gives-data-away" in {one["code"] for one in said["answer"]["reasons"]}


def test_how_many_a_secret_sample_held_is_confidential(api: Api) -> None:
    asked = {"participants": ["a", "b"], "failures": ["c"]}
    hidden = opened(api, CENTRAL, rounds=[declared(1, event=POISSON, **asked)])
    open_ = opened(api, rounds=[declared(1, **asked)])
    as_reader = {"Authorization": f"Bearer {api.key_with('experiments:read', 'reports:read')}"}
    for ledger, secret in ((hidden, True), (open_, False)):
        path = f"/v1/ledgers/{ledger}"
        shown = api.client.get(path, headers=as_reader).json()
        said = api.client.get(f"{path}/report.json", headers=as_reader).json()
        counts = said["ledger"]
        found = (shown["subjects"], counts["participations"], counts["failures"])
        assert found == ((None, None, None) if secret else (3, 2, 1))
        unset = {"participations", "failures"} if secret else set()
        assert (set(counts["reasons"]), "subjects" in shown["reasons"]) == (unset, secret)
        assert any("failure within rounds" in one for one in said["limits"]) is not secret
        assert ("samples are secret" in api.get(f"{path}/report.html").text) is secret
        assert verified(api, ledger)["valid"]
    assert read(api, hidden)["subjects"] == 3


def test_each_step_of_a_fixed_size_draws_anew(api: Api) -> None:
    ledger = opened(api, CENTRAL, adjacency="replace-one")
    event = {**OF_FIFTY, "clients": 2, "population": 100, "noise_multiplier": 5.0}
    names = ["a", "b", "c"]
    assert post(api, ledger, declared(1, names, {**event, "steps": 3})).status_code == 200
    assert post(api, ledger, declared(2, names, event)).status_code == 422
    ten = [f"c{one}" for one in range(10)]
    assert post(api, opened(api, REPLACED), declared(1, ten, FIXED)).status_code == 200


def test_jittered_rates_and_noises_are_tested_together(api: Api) -> None:
    """Honest names at rates that change contradict nothing: tests/privacy/declared."""
    ledger = opened(api, CENTRAL, population=1000)
    shifts = [one / 1e5 for one in range(15)]
    events = [{**POISSON, "rate": 0.1 + shift, "noise_multiplier": 1.1 + shift} for shift in shifts]
    rounds = [declared(one, ["a", "b"], event) for one, event in enumerate(events, start=1)]
    assert post(api, ledger, *rounds).status_code == 200
    often, few = report(api, ledger)["contradictions"]
    assert "named in more of 15 rounds" in often
    assert "participations in 15 rounds" in few


@pytest.mark.parametrize(
    ("event", "more"),
    [({**POISSON, "rate": 0.05}, {}), (OF_FIFTY, {"adjacency": "replace-one"})],
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
    answer = post(api, ledger, declared(1, ["z", "k"], POISSON), declared(2, ["p"])).json()
    # Everyone is over the budget, drawn or not; and a later round finds the names again.
    assert [one["over_budget"] for one in answer["rounds"]] == [3, 1]
    assert post(api, ledger, declared(3, ["k"], POISSON)).status_code == 200
    with trainings.bundle(api, ledger) as bundle:
        assert json.loads(bundle.read("subjects.json")) == ["everyone", "p"]
    assert trainings.verified(api, ledger)["valid"]
    # One more than there are is no fault, which would show who was drawn before.
    assert report(api, ledger)["contradictions"] == []
    assert post(api, ledger, declared(4, ["k", "q"], POISSON)).status_code == 200
    # Nor is it said how many are named in all: a name that adds none was drawn.
    assert report(api, ledger)["contradictions"] == []
    assert post(api, ledger, declared(5, ["r", "s"], POISSON)).status_code == 200
    [many] = report(api, ledger)["contradictions"]
    assert "more clients were named than the declared population of 3" in many
    assert api.row(DeclaredLedger, ledger).drawn_names == ["z", "k", "q", "r"]
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
