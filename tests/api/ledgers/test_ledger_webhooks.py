"""What listeners are told of trainings elsewhere."""

from typing import Any

from tests.api.ledgers.trainings import declared, epsilon, opened, post, reserve
from tests.api.service import Api
from tests.api.webhooks.webhooks import deliveries, register

URL = "https://hooks.example.org/fedaudit"
_KEY = {"book": "release", "figure": "epsilon", "delta": 1e-5, "observer": "server"}


def _told(api: Api, webhook: Any) -> list[dict[str, Any]]:
    return [one["data"] for one in deliveries(api, webhook)]


def test_a_refused_round_is_told_without_names_and_an_admitted_one_is_not(api: Api) -> None:
    webhook = register(api, URL, events=["ledger.round_refused"])
    probe = opened(api)
    post(api, probe, declared(1, ["a"]))
    ledger = opened(api, budget={"epsilon": epsilon(api, probe)})
    assert reserve(api, ledger, 1, ["a", "b"])["refused"] == []
    assert _told(api, webhook) == []
    post(api, ledger, declared(1, ["a"]))
    assert len(reserve(api, ledger, 2, ["a", "b"])["refused"]) == 1
    [told] = _told(api, webhook)
    assert told == {"project": "hospital", "ledger_id": ledger, "round": 2}


def test_a_budget_that_rounds_or_reservations_bring_low_is_told_once(api: Api) -> None:
    webhook = register(api, URL, events=["budget.low"])
    federation = api.submit()["federation_id"]
    probe = opened(api)
    post(api, probe, *(declared(one, ["a"]) for one in range(1, 4)))
    setting = {**_KEY, "adjacency": "replace-one", "total": 1.01 * epsilon(api, probe)}
    path = f"/v1/federations/{federation}/budget"
    assert api.request("PUT", path, json=setting).status_code == 200
    ledger = opened(api, federation_id=federation)
    post(api, ledger, declared(1, ["a"]), declared(2, ["a"]))
    assert _told(api, webhook) == []
    # What is held counts; that it is spent afterwards crosses nothing.
    assert reserve(api, ledger, 3, ["a"])["admitted"] == ["a"]
    [told] = _told(api, webhook)
    assert told["federation_id"] == federation
    assert {name: told["budget"][name] for name in _KEY} == _KEY
    post(api, ledger, declared(3, ["a"]))
    assert len(_told(api, webhook)) == 1
