"""Numbers at the edge of what can be counted, and ledgers that cannot be signed."""

from typing import Any

import pytest
from sqlalchemy import update

from models.tables.declared_ledgers import DeclaredLedger, DeclaredTally
from tests.api.ledgers.trainings import CENTRAL, GAUSSIAN, LOCAL, declared, opened, post
from tests.api.service import KEY, Api
from workers.proof.declared_signing import DeclaredLedgerSigner

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
def test_numbers_out_of_bounds_are_faults_of_their_fields(
    api: Api, terms: dict[str, Any], event: dict[str, Any], fields: list[str]
) -> None:
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
        wrong = update(DeclaredTally).where(DeclaredTally.ledger_id == broken)
        session.execute(wrong.values(charge={"clip": 1.0}))
    assert DeclaredLedgerSigner(api.database, KEY, seconds=0.0).sign_waiting(10) == 1
    with api.database.read() as session:
        signed = {one: session.get(DeclaredLedger, one) for one in (broken, sound)}
    assert {one: row.signed_entries for one, row in signed.items() if row} == {broken: -1, sound: 1}


@pytest.mark.parametrize("event", [{"noise_multiplier": 1e-3}, {"steps": 10_000_000}])
def test_loss_distributions_that_are_too_large_give_the_renyi_bound_and_say_so(
    api: Api, event: dict[str, Any]
) -> None:
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
