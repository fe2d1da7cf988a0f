"""`budget.low`: once for each crossing, to all whose spending counts, without a figure."""

from typing import Any

from models.vocabulary import SCOPES
from tests.api.budgets.test_epsilon_budgets import central, plan_of, set_total
from tests.api.budgets.test_leakage_budgets import FIXED, WORST, put, run
from tests.api.budgets.test_shared_budgets import CONTENT, metric
from tests.api.service import Api, fail
from tests.api.webhooks.webhooks import deliveries, register

URL = "https://hooks.example.org/fedaudit"


def _told(api: Api, webhook: Any) -> list[dict[str, Any]]:
    found = [one["data"] for one in deliveries(api, webhook)]
    assert all(set(one) == {"project", "federation_id", "budget"} for one in found)
    return found


def test_a_crossing_is_told_once_and_again_after_the_budget_had_recovered(api: Api) -> None:
    webhook = register(api, URL, events=["budget.low"])
    id_ = api.submit(run(**FIXED))["federation_id"]
    put(api, id_, total=3.3 * WORST, **FIXED)
    api.submit(run(**FIXED))
    assert _told(api, webhook) == []
    # Trying it out tells nobody.
    assert api.post("/v1/experiments?validate_only=true", json=run(**FIXED)).status_code == 200
    assert _told(api, webhook) == []
    third = api.submit(run(**FIXED))
    [told] = _told(api, webhook)
    assert (told["project"], told["federation_id"]) == ("hospital", id_)
    assert told["budget"] == {
        "book": "simulation",
        "figure": "leakage",
        "delta": None,
        "adjacency": None,
        "observer": None,
        "radius": 0.5,
        "clip": 0.25,
    }
    # Already low: a smaller total crosses nothing.
    put(api, id_, total=3.1 * WORST, **FIXED)
    assert len(_told(api, webhook)) == 1
    fail(api, third["id"])
    api.submit(run(**FIXED))
    assert len(_told(api, webhook)) == 2


def test_a_total_that_is_lowered_crosses_too_and_an_epsilon_is_composed(api: Api) -> None:
    webhook = register(api, URL, events=["budget.low"])
    value = central()
    id_ = api.submit(value)["federation_id"]
    plan = plan_of(value)
    spent = plan.largest("final_model", plan.steps)
    set_total(api, id_, 10 * spent)
    assert _told(api, webhook) == []
    set_total(api, id_, 1.05 * spent)
    [told] = _told(api, webhook)
    assert (told["budget"]["figure"], told["budget"]["observer"]) == ("epsilon", "final_model")


def test_another_project_that_draws_on_the_same_data_lets_the_owner_know(api: Api) -> None:
    webhook = register(api, URL, events=["budget.low"])
    (api.settings.sources_dir / "incomes.csv").write_bytes(CONTENT)
    value = metric()
    id_ = api.submit(value)["federation_id"]
    put(api, id_, book="release", total=4.1, **FIXED)
    assert _told(api, webhook) == []
    api.submit(value, key=api.key_with(*SCOPES, project="another"))
    [told] = _told(api, webhook)
    assert (told["federation_id"], told["budget"]["radius"]) == (id_, 0.5)
