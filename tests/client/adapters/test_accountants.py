"""What a trainer's accountant says, beside a ledger of a real service."""

from types import SimpleNamespace
from typing import Any

import pytest

from fedaudit_client import Client
from fedaudit_client.adapters.accountants import compare_accountant
from fedaudit_client.adapters.opacus import attach
from fedaudit_client.adapters.plain import Ledger, terms_for
from tests.api.ledgers.trainings import CENTRAL, epsilon
from tests.api.service import Api
from tests.client.adapters.test_opacus_steps import RECORDS, Silo

EVENT = {"kind": "poisson-gaussian", "rate": 0.125, "noise_multiplier": 1.1, "steps": 8}


class Accountant:
    """The documented attributes of Opacus' accountants."""

    def __init__(self, value: float, *history: tuple[float, float, int], kind: str = "rdp") -> None:
        self.value, self.history, self.kind = value, list(history), kind
        self.asked: list[float] = []

    def get_epsilon(self, delta: float) -> float:
        self.asked.append(delta)
        return self.value

    def mechanism(self) -> str:
        return self.kind


def opened(client: Client, event: Any = EVENT, *, names: Any = ("silo",), **changes: Any) -> Ledger:
    """A ledger with one round."""
    ledger = Ledger.open(client, {**RECORDS, **changes})
    with ledger.round(event=event, participants=names):
        pass
    return ledger


def test_what_is_counted_differently_is_named(api: Api, client: Client) -> None:
    ledger = opened(client)
    ours = epsilon(api, ledger.id)
    own = Accountant(ours, (1.1, 0.125, 5), (1.1, 0.125, 3))
    found = compare_accountant(SimpleNamespace(accountant=own), ledger)
    assert (found.larger, found.reasons, found.ledger) == ("neither", (), ours)
    assert (own.asked, found.delta) == ([1e-5], 1e-5)
    assert found.neighbours[0] == "add-or-remove-one of a record"
    own = Accountant(0.9 * ours, (1.2, 0.25, 6), kind="gdp")
    found = compare_accountant(own, ledger)
    assert found.larger == "ledger"
    assert found.reasons == (
        "steps: 8 declared, and 6 counted",
        "noise: 1.1 declared, and 1.2 counted",
        "rate: 0.125 declared, and 0.25 counted",
        "bound: rdp, and gdp, which may be too small",
    )
    found = compare_accountant(Accountant(1.1 * ours, (1.1, 0.125, 8)), Ledger(client, ledger.id))
    assert found.larger == "accountant"
    assert found.reasons[0] == "rounds: 1 were not declared by this `Ledger`"
    nothing = compare_accountant(Accountant(7.0), ledger)
    assert (nothing.accountant, nothing.larger) == (0.0, "ledger")


def test_nothing_is_said_of_figures_of_different_things(api: Api, client: Client) -> None:
    own = Accountant(1.0, (1.1, 0.125, 8))
    clients = Ledger.open(client, CENTRAL)
    two = opened(client, names=("one", "two"))
    replaced = opened(
        client, {"kind": "gaussian", "noise_multiplier": 2.0}, adjacency="replace-one"
    )
    for ledger, reason in (
        (clients, "neighbours: add-or-remove-one of a client, and "),
        (two, "clients: the ledger's figure is the largest of 2"),
        (replaced, "neighbours: replace-one of a record, and "),
    ):
        found = compare_accountant(own, ledger)
        assert found.larger is None
        assert found.reasons[0].startswith(reason)
    with pytest.raises(ValueError, match="no history of steps"):
        compare_accountant(object(), two)
    metric = terms_for(
        {"kind": "laplace-l2", "radius": 1.0, "clip": 1.0}, name="metric", population=2
    )
    with pytest.raises(ValueError, match="laplace-l2 is counted without a delta"):
        compare_accountant(own, Ledger.open(client, metric))


@pytest.mark.parametrize(("kind", "accountant"), [("rdp", "rdp"), ("prv", "pld")])
def test_opacus_says_the_same(client: Client, kind: str, accountant: str) -> None:
    silo, ledger = Silo(kind, noise=3.0), Ledger.open(client, {**RECORDS, "accountant": accountant})
    with attach(silo.optimizer, silo.loader, ledger, subject="silo"):
        silo.epoch()
    found = compare_accountant(silo.engine, ledger)
    assert (found.larger, found.reasons) == ("neither", ())
    silo.epoch()
    found = compare_accountant(silo.engine, ledger)
    assert (found.larger, found.reasons) == ("accountant", ("steps: 8 declared, and 16 counted",))


def test_fixed_batches_cost_more_than_opacus_says(api: Api, client: Client) -> None:
    silo, ledger = Silo("rdp", poisson=False), Ledger.open(client, RECORDS)
    with attach(silo.optimizer, silo.loader, ledger, subject="silo"):
        silo.epoch()
    found = compare_accountant(silo.engine, ledger)
    # Without Poisson's coins nothing is amplified: each step is one of the whole.
    whole = opened(client, {"kind": "gaussian", "noise_multiplier": 1.1, "steps": 8})
    assert found.ledger == epsilon(api, whole.id) > 2 * found.accountant
    assert found.larger == "ledger"
    assert found.reasons == (
        "rate: 1 declared, and 0.125 counted",
        "sampling: declared without Poisson's coins, so that nothing is amplified",
    )
