"""Rounds of trainings elsewhere: what they cost, and how somebody would cheat."""

from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from sqlalchemy import update

from fedaudit.privacy.accounting.accountant import RDP_ORDERS
from models.tables.ledger import DeclaredLedger, Ledger
from tests.api.ledgers.trainings import (
    CENTRAL,
    GAUSSIAN,
    LOCAL,
    POISSON,
    declared,
    epsilon,
    opened,
    post,
)
from tests.api.service import KEY, Api
from workers.proof.declared_signing import DeclaredLedgerSigner

BY_DISTANCE: dict[str, Any] = {
    "name": "a server of AI4EOSC",
    "mechanism": "gaussian-distance",
    "observer": "final_model",
    "unit": "client",
    "population": 4,
}
FIXED = {"kind": "fixed-gaussian", "clients": 10, "population": 100, "noise_multiplier": 4.0}
ZERO_OUT = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE


def library(event: Any, count: int, relation: Any) -> float:
    """The epsilon by dp-accounting alone."""
    accountant = RdpAccountant(list(RDP_ORDERS), relation).compose(event, count)
    return float(accountant.get_epsilon(1e-5))


def test_epsilon_is_that_of_dp_accounting(api_on_both: Api) -> None:
    api = api_on_both
    gaussian = dp_accounting.GaussianDpEvent
    sampled = dp_accounting.PoissonSampledDpEvent(0.1, gaussian(1.1))
    poisson = opened(api, CENTRAL, rounds=[declared(one, ["a"], POISSON) for one in range(1, 31)])
    assert epsilon(api, poisson) == pytest.approx(library(sampled, 30, ZERO_OUT), rel=1e-12)

    steps = opened(
        api, {**CENTRAL, "mechanism": "gaussian", "unit": "record", "observer": "server"}
    )
    post(api, steps, declared(1, ["silo"], {**POISSON, "steps": 30}))
    assert epsilon(api, steps) == pytest.approx(library(sampled, 30, ZERO_OUT), rel=1e-12)

    local = opened(api)
    post(api, local, *(declared(one, ["a", "b"] if one < 4 else ["b"]) for one in range(1, 6)))
    # Of two uploads a replaced client moves both ends: half the noise multiplier.
    assert epsilon(api, local) == pytest.approx(library(gaussian(4.0), 5, REPLACE), rel=1e-12)


def test_a_tighter_accountant_gives_its_own_figure(api: Api) -> None:
    ledger = opened(api, CENTRAL, accountant="pld")
    post(api, ledger, *(declared(one, ["a"], POISSON) for one in range(1, 4)))
    sampled = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(1.1))
    exact = PLDAccountant(ZERO_OUT, 1e-4).compose(sampled, 3).get_epsilon(1e-5)
    assert epsilon(api, ledger) == pytest.approx(exact, rel=1e-12)
    assert exact < library(sampled, 3, ZERO_OUT)


def test_who_may_have_uploaded_is_charged(api: Api) -> None:
    failing, answering = opened(api), opened(api)
    post(api, failing, declared(1, ["a"], failures=["b"]), declared(2, [], failures=["b"]))
    post(api, answering, declared(1, ["a", "b"]), declared(2, ["b"]))
    assert epsilon(api, failing) == epsilon(api, answering) > 0
    lines = api.get(f"/v1/ledgers/{failing}/privacy-ledger?client=b").json()["items"]
    assert [line["release"] for line in lines] == [1, 1]
    assert {line["guarantee"] for line in lines} == {"declared"}


def test_rounds_of_secret_samples_are_charged_to_everyone_and_name_nobody(api: Api) -> None:
    ledger = opened(api, CENTRAL)
    answer = post(api, ledger, declared(1, ["a"], POISSON), declared(2, ["b"], POISSON))
    assert {one["charged"] for one in answer.json()["rounds"]} == {"population"}
    lines = api.get(f"/v1/ledgers/{ledger}/privacy-ledger").json()["items"]
    assert [(line["subject"], line["subject_kind"]) for line in lines] == [
        ("everyone", "population")
    ] * 2


def test_a_release_without_noise_leaves_no_bound(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a", "b"]), declared(2, ["b"], {"kind": "none"})])
    [figure] = api.get(f"/v1/ledgers/{ledger}").json()["epsilon"]
    assert figure["value"] is None
    assert "without noise" in figure["reason"]
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    assert "nothing bounds what they reveal" in report["verdict"]
    assert api.get(f"/v1/ledgers/{ledger}/report/verification").json()["valid"]


def test_noise_by_distance_is_heuristic_and_has_no_epsilon(api: Api) -> None:
    by_distance = {"kind": "gaussian-distance", "noise_multiplier": 0.01}
    ledger = opened(api, BY_DISTANCE)
    assert post(api, ledger, declared(1, ["a", "b"], by_distance)).status_code == 200
    # An epsilon cannot be smuggled in, and the term bounds nothing in another ledger.
    for other, event in ((ledger, GAUSSIAN), (opened(api), by_distance)):
        answer = post(api, other, declared(2, ["a"], event))
        assert answer.json()["errors"][0]["pointer"] == "/rounds/0/event/kind"
    assert api.get(f"/v1/ledgers/{ledger}").json()["epsilon"] == []
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    guarantee, privacy = report["guarantee"], report["privacy"]
    assert (guarantee["kind"], guarantee["label"]) == ("declared", "heuristic")
    assert "not enforced as a formal guarantee" in guarantee["statement"]
    assert privacy["epsilon_max"] is None
    assert privacy["reasons"]["epsilon_max"]
    assert "nothing bounds what they reveal" in report["verdict"]
    assert api.get(f"/v1/ledgers/{ledger}/report/verification").json()["valid"]


def test_metric_privacy_is_counted_as_leakage(api: Api) -> None:
    # Terms may state a delta and an adjacency that nothing is counted under.
    stated = ("name", "observer", "unit", "population", "delta", "adjacency")
    metric = {name: LOCAL[name] for name in stated}
    ledger = opened(api, {**metric, "mechanism": "laplace-l2", "budget": {"leakage": 70}})
    event = {"kind": "laplace-l2", "n": 61, "noise_multiplier": 3, "radius": 1.0, "clip": 0.5}
    post(api, ledger, declared(1, ["a"], event), declared(2, ["a", "b"], event))
    shown = api.get(f"/v1/ledgers/{ledger}").json()
    assert shown["epsilon"] == []
    assert shown["leakage_max"] == 2 * 61 / 3
    assert shown["log_ratio_max"] == pytest.approx(2 * 61 / 3)
    other = post(api, ledger, declared(3, ["a"], {**event, "radius": 2.0}))
    assert other.json()["errors"][0]["pointer"] == "/rounds/0/event/radius"
    assert api.get(f"/v1/ledgers/{ledger}/report/verification").json()["valid"]


def test_the_same_round_again_is_answered_alike_and_another_is_refused(api: Api) -> None:
    ledger = opened(api)
    first = post(api, ledger, declared(1, ["a", "b"], failures=["c"]))
    before = api.get(f"/v1/ledgers/{ledger}").json()
    again = post(api, ledger, declared(1, ["b", "a"], failures=["c"]))
    assert (again.status_code, again.json()) == (200, first.json())
    longer = post(api, ledger, declared(1, ["a", "b"], failures=["c"]), declared(2, ["a"]))
    assert longer.json()["rounds"][0] == first.json()["rounds"][0]
    assert longer.json()["rounds"][1]["chain_head"] != before["chain_head"]
    cheaper = post(api, ledger, declared(1, ["a"], failures=["c"]))
    assert (cheaper.status_code, cheaper.json()["round"]) == (409, 1)


def test_a_round_that_comes_late_is_refused_and_its_gap_is_told(api: Api) -> None:
    ledger = opened(api, rounds=[declared(2, ["a"]), declared(6, ["a"])])
    late = post(api, ledger, declared(3, ["a"]), declared(7, ["a"]))
    assert (late.status_code, late.json()["round"]) == (409, 3)
    shown = api.get(f"/v1/ledgers/{ledger}").json()
    assert (shown["rounds"], shown["gaps"], shown["missing_rounds"]) == (2, [[1, 1], [3, 5]], 4)
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    assert report["ledger"]["missing_rounds"] == 4
    assert "4 numbers below round 6 never declared" in report["verdict"]


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
    assert answer.status_code == 422
    pointers = [one["pointer"] for one in answer.json()["errors"]]
    assert pointers == [
        *("/rounds/1/event/noise_multiplier", "/rounds/2/participants/2", "/rounds/2/failures/0"),
        *("/rounds/2/event/kind", "/rounds/3/event/kind", "/rounds/4/groups/sex/f/true_positives"),
        *("/rounds/4/groups/sex/f/false_positives", "/rounds/4/groups/sex/f/true_negatives"),
        "/rounds/4/groups/sex/f/false_negatives",
    ]
    assert api.get(f"/v1/ledgers/{ledger}").json()["rounds"] == 0


@pytest.mark.parametrize(
    ("terms", "event", "pointer"),
    [
        (LOCAL, POISSON, "kind"),  # the server sees who was drawn
        (CENTRAL, FIXED, "kind"),  # a fixed cohort has no bound under zero-out
        ({**CENTRAL, "adjacency": "replace-one"}, POISSON, "kind"),
        ({**CENTRAL, "adjacency": "replace-one"}, {**FIXED, "population": 1000}, "population"),
        (LOCAL, {"kind": "laplace-l2", "n": 1, "noise_multiplier": 1, "radius": 1, "clip": 1}, ""),
    ],
)
def test_events_that_cost_less_than_they_do_are_refused(api, terms, event, pointer):
    answer = post(api, opened(api, terms), declared(1, ["a"], event))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == f"/rounds/0/event/{pointer or 'kind'}"


def test_more_clients_than_were_drawn_are_refused(api: Api) -> None:
    ledger = opened(api, {**CENTRAL, "adjacency": "replace-one"})
    names = [f"c{one}" for one in range(11)]
    assert post(api, ledger, declared(1, names[:10], FIXED)).status_code == 200
    answer = post(api, ledger, declared(2, names, FIXED))
    assert answer.json()["errors"][0]["pointer"] == "/rounds/0/participants"


def test_other_names_than_the_listed_ones_are_refused(api: Api) -> None:
    ledger = opened(api, population=2, subjects=["a", "b"])
    answer = post(api, ledger, declared(1, ["a", "a2"]))
    assert answer.json()["errors"][0]["pointer"] == "/rounds/0/participants/1"


METRIC = {
    "name": "metric privacy",
    "mechanism": "laplace-l2",
    "observer": "server",
    "unit": "client",
    "population": 10,
}
LAPLACE = {"kind": "laplace-l2", "n": 10, "noise_multiplier": 1.0, "radius": 1.0, "clip": 1.0}


@pytest.mark.parametrize(
    ("terms", "event", "fields"),
    [
        (
            METRIC,
            {
                "kind": "laplace-l2",
                "n": 2**53 - 1,
                "noise_multiplier": 1e-300,
                "radius": 1e-300,
                "clip": 1e300,
            },
            ["n", "noise_multiplier", "radius", "clip"],
        ),
        (
            CENTRAL,
            {"kind": "poisson-gaussian", "rate": 1e-300, "noise_multiplier": 1e-170},
            ["rate", "noise_multiplier"],
        ),
        (
            {**LOCAL, "accountant": "pld"},
            {**GAUSSIAN, "noise_multiplier": 1e-10, "steps": 10**9},
            ["noise_multiplier", "steps"],
        ),
    ],
)
def test_numbers_out_of_bounds_are_faults_of_their_fields(api, terms, event, fields):
    answer = post(api, opened(api, terms), declared(1, ["a"], event))
    assert answer.status_code == 422
    found = {one["pointer"] for one in answer.json()["errors"]}
    assert found == {f"/rounds/0/event/{name}" for name in fields}


def test_the_extremes_within_the_bounds_have_figures(api: Api) -> None:
    ledger = opened(api, METRIC)
    bounds = {"n": 10**12, "noise_multiplier": 1e-3, "radius": 1e-9, "clip": 1e9}
    post(api, ledger, declared(1, ["a"], {**LAPLACE, **bounds}))
    found = api.get(f"/v1/ledgers/{ledger}/report").json()["privacy"]
    assert found["log_ratio_max"] == pytest.approx(2e33)
    assert found["leakage_max"] == pytest.approx(1e15)


def test_a_ledger_that_cannot_be_signed_holds_up_no_other(api: Api) -> None:
    broken, sound = opened(api, METRIC), opened(api, METRIC)
    for ledger in (broken, sound):
        assert post(api, ledger, declared(1, ["a"], LAPLACE)).status_code == 200
    with api.database.write() as session:
        # An error of a kind that nobody lists: KeyError, and neither ValueError nor TypeError.
        wrong = update(Ledger).where(Ledger.experiment_id == broken)
        session.execute(wrong.values(event="{}", delta=1e-5, epsilons=np.zeros(1)))
    assert DeclaredLedgerSigner(api.database, KEY, seconds=0.0).sign_waiting(10) == 1
    with api.database.read() as session:
        signed = {one: session.get(DeclaredLedger, one) for one in (broken, sound)}
    assert {one: row.signed_entries for one, row in signed.items() if row} == {broken: -1, sound: 1}


@pytest.mark.parametrize("event", [{"noise_multiplier": 1e-3}, {"steps": 10_000_000}])
def test_loss_distributions_that_are_too_large_give_the_renyi_bound_and_say_so(api, event):
    ledger = opened(api, {**LOCAL, "accountant": "pld", "budget": {"epsilon": 1}})
    answer = post(api, ledger, declared(1, ["a"], {**GAUSSIAN, "noise_multiplier": 1, **event}))
    assert answer.json()["rounds"][0]["over_budget"] == 1
    [found] = api.get(f"/v1/ledgers/{ledger}").json()["epsilon"]
    assert found["accountant"] == "rdp"
    assert "too large" in found["reason"]
    [entry] = api.get(f"/v1/ledgers/{ledger}/privacy-ledger").json()["items"]
    report = api.get(f"/v1/ledgers/{ledger}/report").json()["privacy"]
    assert report["epsilon_max"] == pytest.approx(found["value"])
    assert report["epsilon"][0]["accountant"] == "rdp"
    assert "too large" in report["reasons"]["accountant"]
    assert entry["round"] == 1
