"""Federations and the budgets on their data."""

import pytest

from tests.api.service import Api, spec


def test_data_that_was_used_is_listed_once(api_on_both: Api) -> None:
    api = api_on_both
    first, same = api.submit()["federation_id"], api.submit(spec(seed=7))["federation_id"]
    other = api.submit(spec(seed=8))["federation_id"]
    assert first == same != other
    items = api.get("/v1/federations").json()["items"]
    assert [item["id"] for item in items] == [other, first]
    assert api.get(f"/v1/federations/{first}").json() == items[1]
    assert (items[1]["clients"], items[1]["rows"]) == (40, 120)
    assert items[1]["source"] == items[1]["name"] == "synthetic-groups"
    assert items[1]["status"] == "ready"
    page = api.get("/v1/federations?limit=1").json()
    rest = api.get(f"/v1/federations?limit=1&cursor={page['next_cursor']}").json()
    assert [page["items"][0]["id"], rest["items"][0]["id"]] == [other, first]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("total", [0, 21.0, 1e300, None])
def test_a_budget_is_set_and_read_back(api: Api, total: float | None) -> None:
    path = f"/v1/federations/{api.submit()['federation_id']}/budget"
    setting = {"book": "simulation", "figure": "leakage", "total": total}
    response = api.request("PUT", path, json=setting)
    assert response.status_code == 200
    assert response.json() == api.get(path).json()
    [budget] = response.json()["items"]
    assert budget["total"] == total
    assert budget["reserved"] == 4.0
    assert budget["remaining"] == (None if total is None else max(0.0, total - 4.0))
    assert (budget["reason"] is None) == (total is not None)
