"""Whether a round may run, asked before anybody trains."""

import threading
from typing import Any

import pytest

import api.routers.ledger_rounds as reservation
import api.services.ledgers.round_posting as posting
from fedaudit.privacy.declared import histories
from tests.api.ledgers.trainings import (
    CENTRAL,
    GAUSSIAN,
    LOCAL,
    POISSON,
    declared,
    epsilon,
    opened,
    post,
    reserve,
)
from tests.api.service import Api
from tests.api.webhooks.webhooks import deliveries, register


def test_clients_without_room_are_refused_and_others_admitted(api: Api) -> None:
    probe = opened(api, rounds=[declared(1, ["a"]), declared(2, ["a"])])
    ledger = opened(api, budget={"epsilon": epsilon(api, probe)})
    post(api, ledger, declared(1, ["a"]), declared(2, ["a", "b"]))
    answer = reserve(api, ledger, 3, ["a", "b", "c"])
    assert answer["admitted"] == ["b", "c"]
    assert [one["subject"] for one in answer["refused"]] == ["a"]
    assert "of a budget of" in answer["refused"][0]["reason"]
    # The round is a fact, whoever took part in it: it is charged, and told.
    told = post(api, ledger, declared(3, ["a", "b"])).json()["rounds"][0]
    assert (told["over_budget"], told["reservation"]) == (1, "refused")
    assert api.get(f"/v1/ledgers/{ledger}").json()["over_budget"] == 1
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    assert report["ledger"]["refused_rounds"] == 1
    assert "1 round ran for clients to whom they had been refused." in report["verdict"]


def test_what_is_reserved_counts_until_it_is_declared_or_released(api: Api) -> None:
    probe = opened(api, rounds=[declared(1, ["a"]), declared(2, ["a"])])
    ledger = opened(api, budget={"epsilon": epsilon(api, probe)})
    assert reserve(api, ledger, 1, ["a"])["admitted"] == ["a"]
    assert reserve(api, ledger, 2, ["a"])["admitted"] == ["a"]
    assert reserve(api, ledger, 3, ["a"])["admitted"] == []
    # The same round again takes the place of what was held for it.
    assert reserve(api, ledger, 2, ["a"])["admitted"] == ["a"]
    path = f"/v1/ledgers/{ledger}/rounds/2/reservation"
    assert api.request("DELETE", path).status_code == 204
    assert api.request("DELETE", path).status_code == 404
    assert reserve(api, ledger, 3, ["a"])["admitted"] == ["a"]
    told = post(api, ledger, declared(1, ["a"])).json()["rounds"][0]
    assert told["reservation"] == "reserved"
    assert reserve(api, ledger, 4, ["a"])["admitted"] == []
    late = api.post(
        f"/v1/ledgers/{ledger}/rounds/1/reservation",
        json={"event": GAUSSIAN, "participants": ["a"]},
    )
    assert late.status_code == 409


def test_a_round_that_everyone_pays_for_needs_room_for_everyone(api: Api) -> None:
    probe = opened(api, CENTRAL, rounds=[declared(1, ["a"], POISSON)])
    ledger = opened(api, CENTRAL, budget={"epsilon": epsilon(api, probe)})
    assert reserve(api, ledger, 1, ["a"], POISSON)["admitted"] == ["a"]
    post(api, ledger, declared(1, ["a"], POISSON))
    # A client that was never drawn has paid as well.
    answer = reserve(api, ledger, 2, ["b"], POISSON)
    assert answer["admitted"] == []
    assert answer["reason"].startswith("the round is charged to everyone")
    # Whoever is drawn instead pays alike.
    told = post(api, ledger, declared(2, ["c"], POISSON)).json()["rounds"][0]
    assert told["reservation"] == "refused"


def test_a_round_is_as_reserved_for_those_whom_it_did_not_refuse(api: Api) -> None:
    probe = opened(api, rounds=[declared(1, ["a"])])
    ledger = opened(api, rounds=[declared(1, ["a"])], budget={"epsilon": epsilon(api, probe)})
    assert reserve(api, ledger, 2, ["a", "b"])["admitted"] == ["b"]
    assert reserve(api, ledger, 3, ["a"])["admitted"] == []
    answer = post(api, ledger, declared(2, ["b"]), declared(3, ["c"]), declared(4, ["a"]))
    told = [one["reservation"] for one in answer.json()["rounds"]]
    assert told == ["reserved", "none", "none"]


def test_asking_again_without_those_refused_washes_nothing_out(api: Api) -> None:
    probe = opened(api, rounds=[declared(1, ["a"])])
    ledger = opened(api, rounds=[declared(1, ["a"])], budget={"epsilon": epsilon(api, probe)})
    reserve(api, ledger, 2, ["a", "b"])
    assert reserve(api, ledger, 2, ["b"])["admitted"] == ["b"]
    # Admitted since, where it has room: with less noise before, nobody had.
    assert reserve(api, ledger, 3, ["c"], {**GAUSSIAN, "steps": 2})["admitted"] == []
    assert reserve(api, ledger, 3, ["c"])["admitted"] == ["c"]
    answer = post(api, ledger, declared(2, ["a", "b"]), declared(3, ["c"]))
    assert [one["reservation"] for one in answer.json()["rounds"]] == ["refused", "reserved"]


def test_an_order_without_a_bound_opens_no_budget(api: Api) -> None:
    records = {**LOCAL, "mechanism": "gaussian", "unit": "record", "observer": "final_model"}
    terms = {**records, "adjacency": "add-or-remove-one"}
    probe = opened(api, terms, rounds=[declared(1, ["a"])])
    ledger = opened(api, {**terms, "budget": {"epsilon": epsilon(api, probe)}})
    # At Renyi orders below 1.6 dp-accounting finds no bound for this event, which is another's.
    unbounded = {"kind": "poisson-gaussian", "rate": 0.125, "noise_multiplier": 1.1}
    post(api, ledger, declared(1, ["a"]), declared(2, ["b"], unbounded))
    assert epsilon(api, ledger) > epsilon(api, probe)
    assert reserve(api, ledger, 3, ["a"])["admitted"] == []


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_federations_budget_is_charged(api_on_both: Api, rounds: int) -> None:
    api = api_on_both
    federation = api.submit()["federation_id"]
    probe = opened(api, rounds=[declared(one, ["a"]) for one in range(1, rounds + 1)])
    total = epsilon(api, probe)
    key = {"book": "release", "figure": "epsilon", "delta": 1e-5, "observer": "server"}
    setting = {**key, "adjacency": "replace-one", "total": total}
    path = f"/v1/federations/{federation}/budget"
    assert api.request("PUT", path, json=setting).status_code == 200

    ledger = opened(api, federation_id=federation)
    for one in range(1, rounds + 1):
        assert reserve(api, ledger, one, ["a"])["admitted"] == ["a"]
        post(api, ledger, declared(one, ["a"]))
    assert _budget(api, path)["spent"] == pytest.approx(total, rel=1e-9)
    assert _budget(api, path)["declared"] == _budget(api, path)["spent"]
    answer = reserve(api, ledger, rounds + 1, ["a"])
    assert (answer["admitted"], answer["reserved"]) == ([], False)
    assert "federation" in answer["reason"]
    # What ran all the same is charged, room or not; another ledger finds none.
    post(api, ledger, declared(rounds + 1, ["a"]))
    assert _budget(api, path)["spent"] > total
    other = api.post("/v1/ledgers", json={**LOCAL, "federation_id": federation})
    assert other.status_code == 409
    assert other.json()["type"] == "/problems/budget-exhausted"


def _budget(api: Api, path: str) -> Any:
    [found] = [
        one
        for one in api.get(path).json()["items"]
        if (one["book"], one["figure"], one["observer"]) == ("release", "epsilon", "server")
    ]
    return found


URL = "https://hooks.example.org/fedaudit"
_KEY = {"book": "release", "figure": "epsilon", "delta": 1e-5, "observer": "server"}


def _told(api: Api, webhook: Any) -> list[dict[str, Any]]:
    return [one["data"] for one in deliveries(api, webhook)]


def test_a_refused_round_is_announced_without_names_and_an_admitted_one_is_not(api: Api) -> None:
    webhook = register(api, URL, events=["ledger.round_refused"])
    probe = opened(api, rounds=[declared(1, ["a"])])
    ledger = opened(api, budget={"epsilon": epsilon(api, probe)})
    assert reserve(api, ledger, 1, ["a", "b"])["refused"] == []
    assert _told(api, webhook) == []
    post(api, ledger, declared(1, ["a"]))
    assert len(reserve(api, ledger, 2, ["a", "b"])["refused"]) == 1
    [told] = _told(api, webhook)
    assert told == {"project": "hospital", "ledger_id": ledger, "round": 2}


def test_a_budget_that_rounds_or_reservations_bring_low_is_announced_once(api: Api) -> None:
    webhook = register(api, URL, events=["budget.low"])
    federation = api.submit()["federation_id"]
    probe = opened(api, rounds=[declared(one, ["a"]) for one in range(1, 4)])
    setting = {**_KEY, "adjacency": "replace-one", "total": 1.01 * epsilon(api, probe)}
    path = f"/v1/federations/{federation}/budget"
    assert api.request("PUT", path, json=setting).status_code == 200
    ledger = opened(api, rounds=[declared(1, ["a"]), declared(2, ["a"])], federation_id=federation)
    assert _told(api, webhook) == []
    # What is held counts; that it is spent afterwards crosses nothing.
    assert reserve(api, ledger, 3, ["a"])["admitted"] == ["a"]
    [told] = _told(api, webhook)
    assert told["federation_id"] == federation
    assert {name: told["budget"][name] for name in _KEY} == _KEY
    post(api, ledger, declared(3, ["a"]))
    assert len(_told(api, webhook)) == 1


_BEHIND_SECONDS = 1.0
"""Long enough for a round to be entered by what does not wait for the lock."""


def test_a_round_declared_while_another_is_reserved_is_charged(api_on_both, monkeypatch):
    api = api_on_both
    federation = api.submit()["federation_id"]
    ledger = opened(api, federation_id=federation)
    decide, rounds = reservation._decide, []
    costly = declared(1, ["a"], {**GAUSSIAN, "steps": 5})

    def meanwhile(*options: Any) -> Any:
        # The reservation has read what was spent, and books that and its own when it has decided.
        one = threading.Thread(target=post, args=(api, ledger, costly))
        one.start()
        one.join(_BEHIND_SECONDS)
        rounds.append(one)
        return decide(*options)

    # Under the lock alone.
    monkeypatch.setattr(reservation, "_compute_beforehand", lambda *_: None)
    monkeypatch.setattr(reservation, "_decide", meanwhile)
    assert reserve(api, ledger, 2, ["b"])["admitted"] == ["b"]
    for one in rounds:
        one.join()
    assert api.get(f"/v1/ledgers/{ledger}").json()["rounds"] == 1
    [budget] = [
        one
        for one in api.get(f"/v1/federations/{federation}/budget").json()["items"]
        if (one["book"], one["observer"]) == ("release", "server")
    ]
    assert budget["spent"] == pytest.approx(epsilon(api, ledger), rel=1e-9)


def _in_between(module: Any, monkeypatch: pytest.MonkeyPatch, once: Any) -> None:
    """Does something once, when what is needed was computed and nothing is locked yet."""
    before = module._compute_beforehand

    def lose(*options: Any, **named: Any) -> Any:
        found = before(*options, **named)
        monkeypatch.setattr(module, "_compute_beforehand", before)
        once()
        return found

    monkeypatch.setattr(module, "_compute_beforehand", lose)


@pytest.mark.parametrize("module", [posting, reservation])
def test_loss_distributions_are_composed_before_the_lock(api, monkeypatch, module):
    noise = 2.1 if module is posting else 2.2
    event = {**POISSON, "noise_multiplier": noise}
    ledger = opened(api, CENTRAL, accountant="pld", budget={"epsilon": 0.1})
    locked, exact, misses = module.locked, histories.epsilon_of_events, []
    exact.cache_clear()

    def locking(*options: Any) -> Any:
        misses.append(exact.cache_info().misses)
        return locked(*options)

    monkeypatch.setattr(module, "locked", locking)
    if module is posting:
        assert post(api, ledger, declared(1, ["a"], event)).status_code == 200
    else:
        assert reserve(api, ledger, 1, ["a"], event)["admitted"] == []
    assert misses == [exact.cache_info().misses]
    assert misses[0] > 0


def test_a_round_that_another_overtook_is_charged_behind_it(api_on_both, monkeypatch):
    api = api_on_both
    ledger, calm = opened(api), opened(api)
    post(api, ledger, declared(1, ["a"]))
    _in_between(posting, monkeypatch, lambda: post(api, ledger, declared(2, ["a", "b"])))
    assert post(api, ledger, declared(3, ["a"])).status_code == 200
    post(api, calm, declared(1, ["a"]), declared(2, ["a", "b"]), declared(3, ["a"]))
    assert epsilon(api, ledger) == epsilon(api, calm)
    assert api.get(f"/v1/ledgers/{ledger}/report/verification").json()["valid"]


def test_rounds_that_are_reserved_at_once_stay_within_the_budget(api_on_both: Api) -> None:
    api = api_on_both
    probe = opened(api, rounds=[declared(one, ["a"]) for one in (1, 2, 3)])
    ledger = opened(api, rounds=[declared(1, ["a"])], budget={"epsilon": epsilon(api, probe)})
    admitted: list[str] = []

    def ask(number: int) -> None:
        admitted.extend(reserve(api, ledger, number, ["a", "b"])["admitted"])

    def declare() -> None:
        for number in (2, 3):
            assert post(api, ledger, declared(number, ["c"])).status_code == 200

    asking = [threading.Thread(target=ask, args=(number,)) for number in range(10, 16)]
    for one in (*asking, declaring := threading.Thread(target=declare)):
        one.start()
    for one in (*asking, declaring):
        one.join()
    assert admitted.count("a") == 2
    assert admitted.count("b") == 3
