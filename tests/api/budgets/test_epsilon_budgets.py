"""Epsilons in the API: what is projected, reserved, refused, and found."""

import re
from typing import Any

import pytest

from fedaudit.privacy.accounting.accountant import composed_epsilon
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.spec.parse import parse_spec
from tests.api.service import Api, body_of, spec
from tests.refusals import refused_by
from tests.spec.documents import BY_RECORD, gaussian
from tests.training.specs import ran

DELTA = 1e-5
LOCAL = gaussian("local", 4.0)
COINS = {"sampling": "poisson", "rate": 0.25}


def central(**privacy: Any) -> dict[str, Any]:
    return _replaced(gaussian("central", 4.0, **privacy))


def local() -> dict[str, Any]:
    return _replaced(LOCAL)


def by_coins(**privacy: Any) -> dict[str, Any]:
    return _replaced(gaussian("central", 4.0, **privacy), cohort=COINS)


def by_record() -> dict[str, Any]:
    return _replaced(BY_RECORD, cohort=COINS, loss="mse", local={"steps": 2, "step_size": 0.1})


def _replaced(privacy: dict[str, Any], **training: Any) -> dict[str, Any]:
    found = spec(training={"hypotheses": 1, **training}, gates=[])
    return {**found, "privacy": dict(privacy)}


def plan_of(value: dict[str, Any]) -> SpendingPlan:
    found = mechanism_of(parse_spec(value)).spending_plan(training_clients=20)
    assert found is not None
    return found


def set_total(api: Api, federation_id: str, total: float | None, **key: Any) -> dict[str, Any]:
    asked = {"figure": "epsilon", "delta": DELTA, "adjacency": "replace-one"}
    asked |= {"observer": "final_model", **key}
    shown = body_of(api.set_budget(federation_id, total, **asked))["items"]
    assert shown == api.budgets(federation_id)
    [found] = api.budgets(federation_id, **{"book": "simulation", "total": total, **asked})
    return found


def no_room(api: Api, value: dict[str, Any]) -> dict[str, Any]:
    """The problem of a submission, which stored nothing and of which validation says the same."""
    with api.unchanged():
        problem = dict(body_of(api.post("/v1/experiments", json=value), 409))
        assert problem["type"].endswith("/budget-exhausted")
        checked = body_of(api.check(value))
        assert checked["budget"] == {"has_room": False, "detail": problem["detail"]}
    return problem


@pytest.mark.parametrize("value", [central(), by_coins(), local(), by_record()])
def test_what_every_mechanism_may_spend_is_projected_and_reserved(api, value):
    checked = body_of(api.check(value))
    projected = {
        one["observer"]: (one["delta"], one["adjacency"], one["value"])
        for one in checked["projection"]["epsilon"]
    }
    body = api.submit(value)
    budgets = {one["observer"]: one for one in api.budgets(body["federation_id"])}
    assert budgets.keys() == projected.keys()
    for observer, (delta, adjacency, epsilon) in projected.items():
        one = budgets[observer]
        assert (one["figure"], one["delta"], one["adjacency"]) == ("epsilon", delta, adjacency)
        assert epsilon <= one["reserved"] <= 1.2 * epsilon
        assert (one["spent"], one["total"], one["remaining"]) == (0.0, None, None)
    # Without a run nothing is spent.
    api.post(f"/v1/experiments/{body['id']}/cancel")
    for one in api.budgets(body["federation_id"]):
        assert (one["reserved"], one["spent"]) == (0.0, 0.0)


def test_a_total_takes_what_composes_to_it(api_on_both: Api) -> None:
    api, plan = api_on_both, plan_of(central())
    curve = plan.curve("final_model", plan.steps)
    federation_id = api.submit(central())["federation_id"]
    found = set_total(api, federation_id, composed_epsilon(3 * curve, DELTA))
    assert found["reserved"] == pytest.approx(composed_epsilon(curve, DELTA))
    api.submit(central(), headers={"Idempotency-Key": "second"})
    # Another delta in the spec: the budget counts at its own.
    api.submit(central(delta=1e-3))
    before = api.budgets(federation_id)
    problem = no_room(api, central())
    assert api.budgets(federation_id) == before
    assert problem["remaining"] == pytest.approx(0, abs=1e-9)
    assert problem["requested"] == pytest.approx(composed_epsilon(curve, DELTA))
    assert problem["composed_total"] == pytest.approx(composed_epsilon(4 * curve, DELTA))
    assert (problem["book"], problem["observer"]) == ("simulation", "final_model")
    assert "epsilon_budget" in problem["detail"]
    # A run that ends early reserves what it can spend.
    small = central(epsilon_budget=float(plan.line("final_model").epsilons[1]))
    set_total(api, federation_id, composed_epsilon(3.25 * curve, DELTA))
    api.submit(small)


@pytest.mark.parametrize(
    ("first", "key", "value", "named"),
    [
        (central(), {}, by_coins(), "another adjacency than replace-one"),
        (central(), {}, spec(), "leakage"),
        (central(), {}, {**spec(gates=[]), "privacy": {"mechanism": "none"}}, "privacy.mechanism"),
        (local(), {"observer": "server"}, central(), "server"),
        (by_record(), {"adjacency": "add-or-remove-one"}, by_coins(), "unit"),
    ],
    ids=["adjacency", "leakage", "no mechanism", "a trusted server", "clients among records"],
)
def test_what_an_epsilon_cannot_count_is_refused(api, first, key, value, named):
    set_total(api, api.submit(first)["federation_id"], 1e6, **key)
    assert named in no_room(api, value)["detail"]
    api.submit(first)


def test_a_total_that_is_set_late_names_what_it_does_not_count(api: Api) -> None:
    federation_id = api.submit(central())["federation_id"]
    bare = {**central(), "privacy": {"mechanism": "none"}}
    for value in (central(delta=1e-3), local(), by_coins(), spec(gates=[]), bare, bare):
        api.submit(value)
    never_ran = api.submit(bare)["id"]
    api.post(f"/v1/experiments/{never_ran}/cancel")
    api.submit(spec(privacy={"noise": "release"}))
    found = set_total(api, federation_id, 1e6)
    # Another delta is counted, and what holds against the server holds for who sees less.
    assert [(one["mechanism"], one["runs"]) for one in found["uncounted"]] == [
        ("gaussian-central", 1),
        ("laplace-l2", 1),
        ("none", 2),
    ]
    parts = ("another adjacency", "as leakage", "without noise")
    assert all(part in one["why"] for part, one in zip(parts, found["uncounted"], strict=True))
    assert found["unit"] == "client"
    assert found["remaining"] > 0
    server = set_total(api, federation_id, 1e6, observer="server")["uncounted"]
    [trusted] = [one for one in server if "nothing against the server" in one["why"]]
    assert (trusted["mechanism"], trusted["runs"]) == ("gaussian-central", 2)


def test_a_figure_of_clients_does_not_count_records(api: Api) -> None:
    federation_id = api.submit(by_coins(delta=1e-3))["federation_id"]
    api.submit(by_record())
    total = {"delta": 1e-3, "adjacency": "add-or-remove-one"}
    found = set_total(api, federation_id, 1e6, **total)
    [left_out] = found["uncounted"]
    mechanisms = {"client": "record-personalised", "record": "gaussian-central"}
    assert left_out["mechanism"] == mechanisms[found["unit"]]
    assert "another unit" in left_out["why"]


def test_a_total_for_an_epsilon_counts_proven_ones_alone(api: Api) -> None:
    proven = by_record()
    proven["training"]["local"]["batch_size"] = 8
    value = {**proven, "privacy": {**proven["privacy"], "baseline": "dropout"}}
    federation_id = api.submit(value)["federation_id"]
    key = {"adjacency": "add-or-remove-one", "delta": proven["privacy"]["delta"]}
    found = set_total(api, federation_id, 1e6, **key)
    [left_out] = found["uncounted"]
    assert (left_out["mechanism"], left_out["runs"]) == ("record-personalised", 1)
    assert "heuristic" in left_out["why"]
    assert "heuristic" in no_room(api, value)["detail"]
    api.submit(proven)


@pytest.mark.parametrize("value", [central(), by_coins(), local(), spec()])
def test_a_budget_without_room_for_one_round_is_refused_with_what_it_needs(api, value):
    field = "epsilon_budget" if value["privacy"]["mechanism"] != "laplace-l2" else "client_budget"
    value["privacy"][field] = 0.01
    [fault] = body_of(api.check(value), 422)["errors"]
    assert fault["pointer"] == f"/privacy/{field}"
    [locally] = refused_by(ran, value)
    assert (locally.pointer, locally.message) == (fault["pointer"], fault["message"])
    # What it names is enough, for one round.
    needed = re.search("costs ([0-9.]+): no client", fault["message"])
    assert needed is not None
    value["privacy"][field] = float(needed[1])
    assert body_of(api.check(value))["projection"]["budget_ends_in_round"] == 2


# -- epsilons of fairness counts in the API: stated, reserved against readers of reports, refused --


NOISE = {
    "mechanism": "gaussian",
    "epsilon": 0.5,
    "delta": 1e-6,
    "unit": "client",
    "max_rows_per_client": 10,
}


def noised(**noise: Any) -> dict[str, Any]:
    found = spec(training={"stopping": {"patience": None}}, gates=[])
    return {**found, "fairness": {**found["fairness"], "noise": {**NOISE, **noise}}}


def test_what_a_report_may_reveal_is_projected_reserved_and_refused(api: Api) -> None:
    checked = body_of(api.check(noised()))
    key = {"delta": 1e-6, "adjacency": "add-or-remove-one", "observer": "report"}
    assert checked["projection"]["fairness_epsilon"] == {
        **key,
        "unit": "client",
        "value": pytest.approx(0.5),
    }
    federation_id = api.submit(noised())["federation_id"]
    found = set_total(api, federation_id, 0.6, **key)
    assert found["reserved"] == pytest.approx(0.5, rel=1e-6)
    assert found["unit"] == "client"
    assert "fairness.noise.epsilon" in no_room(api, noised())["detail"]
    exact = noised()
    exact["fairness"]["noise"] = None
    assert no_room(api, exact)["observer"] == "report"
    checked = body_of(api.check(exact))["projection"]
    assert checked["fairness_epsilon"] is None
    assert "fairness.noise" in checked["reasons"]["fairness_epsilon"]
    # A total of training takes runs whatever their reports cost.
    assert set_total(api, federation_id, None, **key)["total"] is None
    assert api.set_budget(federation_id, 1e6).status_code == 200
    assert api.submit(noised(epsilon=0.4))["federation_id"] == federation_id
    # An epsilon that cannot be shown is refused at its field.
    refused = body_of(api.post("/v1/experiments", json=noised(epsilon=0.001, delta=1e-12)), 422)
    assert refused["errors"][0]["pointer"] == "/fairness/noise/epsilon"
