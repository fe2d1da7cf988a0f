"""Rounds and reservations of one ledger that come at the same moment: nothing is lost, and whatever
takes long is computed before anybody has to wait for it."""

import threading
from typing import Any

import pytest

import api.routers.ledger_rounds as reservation
import api.services.ledgers.round_posting as posting
from fedaudit.privacy.declared import histories
from tests.api.ledgers.trainings import (
    CENTRAL,
    GAUSSIAN,
    POISSON,
    declared,
    epsilon,
    opened,
    post,
    reserve,
)
from tests.api.service import Api

_BEHIND_SECONDS = 1.0
"""Long enough for a round to be entered by whoever does not wait for the lock."""


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
    locked, exact, misses = module.locked, histories.exact_epsilon, []
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
    probe = opened(api)
    post(api, probe, *(declared(one, ["a"]) for one in (1, 2, 3)))
    ledger = opened(api, budget={"epsilon": epsilon(api, probe)})
    post(api, ledger, declared(1, ["a"]))
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
