"""Budgets of epsilons: composed, never passed, and only of what can be composed."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedaudit.stored import Cost
from models.database import Database
from models.repositories import Budgets
from models.repositories.budgets.counting import Refusal
from models.values import Budget
from tests.models.rows import add_federation, add_project

ORDERS = np.array([2.0, 8.0, 64.0])
ONE = np.array([1.0, 4.0, np.inf])
"""The divergences of one composition; the last order has no bound."""


def price(curve: NDArray[np.float64], delta: float) -> float:
    """The older conversion, which is simple."""
    return float((curve + np.log(1 / delta) / (ORDERS - 1)).min()) if curve.any() else 0.0


def cost(rounds: int = 4, **changes: Any) -> Cost:
    values = {
        "figure": "epsilon",
        "observer": "final_model",
        "adjacency": "add-or-remove-one",
        "unit": "client",
        "delta": 1e-6,
        "amount": price(rounds * ONE, 1e-6),
        "curve": rounds * ONE,
        "step": ONE,
        "planned": rounds,
    }
    return Cost(**{**values, **changes})


@pytest.fixture
def owner(database: Database) -> tuple[str, str]:
    with database.write() as session:
        project_id = add_project(session)
        return project_id, add_federation(session, project_id)


def set_total(database: Database, owner: tuple[str, str], total: float, **changes: Any) -> None:
    key = {"delta": 1e-5, "adjacency": "add-or-remove-one", "observer": "final_model", **changes}
    with database.write() as session:
        Budgets(session, owner[0], price=price).set_budget(
            owner[1], book="simulation", figure="epsilon", total=total, **key
        )


def reserve(
    database: Database, owner: tuple[str, str], experiment_id: str, *costs: Cost
) -> Refusal | None:
    with database.write() as session:
        return Budgets(session, owner[0], price=price).reserve(
            owner[1], experiment_id=experiment_id, book="simulation", costs=costs or [cost()]
        )


def bounded(database: Database, owner: tuple[str, str]) -> Budget:
    with database.read() as session:
        epsilons = Budgets(session, owner[0], price=price)
        (found,) = (one for one in epsilons.budgets(owner[1]) if one.total is not None)
        return epsilons.composed(owner[1], found)


def test_epsilons_are_composed_at_the_delta_of_the_budget(database, owner):
    total = price(12 * ONE, 1e-5)
    set_total(database, owner, total)
    assert [reserve(database, owner, f"e{i}") for i in range(3)] == [None] * 3
    refusal = reserve(database, owner, "e3")
    assert refusal.shortage == "no-room"
    assert (refusal.requested, refusal.composed_total) == (
        price(4 * ONE, 1e-5),
        price(16 * ONE, 1e-5),
    )
    assert refusal.budget.remaining == 0.0
    found = bounded(database, owner)
    assert (found.reserved, found.spent, found.remaining) == (total, 0.0, 0.0)
    # Added up they would be more.
    assert 3 * price(4 * ONE, 1e-5) > total


def test_settling_returns_what_was_not_spent_once(database, owner):
    set_total(database, owner, price(4 * ONE, 1e-5))
    assert reserve(database, owner, "e1") is None
    with database.write() as session:
        epsilons = Budgets(session, owner[0], price=price)
        epsilons.settle_epsilon("e1", {"final_model": 1})
        epsilons.settle_epsilon("e1", {"final_model": 4})
    found = bounded(database, owner)
    assert (found.reserved, found.spent) == (0.0, price(ONE, 1e-5))
    assert reserve(database, owner, "e2", cost(3)) is None
    assert reserve(database, owner, "e3", cost(1)) is not None


def test_drawing_books_before_the_release_and_stops_at_the_bound(database, owner):
    set_total(database, owner, price(6 * ONE, 1e-5))
    assert reserve(database, owner, "e1") is None

    def draw(count: int) -> bool:
        with database.write() as session:
            epsilons = Budgets(session, owner[0], price=price)
            return epsilons.draw_epsilon("e1", {"final_model": count})

    assert draw(3)
    assert bounded(database, owner).spent == price(3 * ONE, 1e-5)
    assert draw(6)
    assert not draw(7)
    assert reserve(database, owner, "e2", cost(1)) is not None
    with database.write() as session:
        Budgets(session, owner[0], price=price).settle_epsilon("e1", {"final_model": 2})
    found = bounded(database, owner)
    assert (found.spent, found.reserved) == (price(6 * ONE, 1e-5), 0.0)


def test_clients_and_records_are_composed_apart(database: Database, owner: tuple[str, str]) -> None:
    reserve(database, owner, "clients", cost(6))
    reserve(database, owner, "records", cost(2, unit="record"))
    set_total(database, owner, price(6 * ONE, 1e-5))
    found = bounded(database, owner)
    assert (found.unit, found.reserved) == ("client", price(6 * ONE, 1e-5))
    with database.write() as session:
        epsilons = Budgets(session, owner[0], price=price)
        epsilons.settle_epsilon("clients", {"final_model": 1})
    found = bounded(database, owner)
    assert (found.unit, found.reserved) == ("record", price(2 * ONE, 1e-5))


def test_books_are_apart(database: Database, owner: tuple[str, str]) -> None:
    set_total(database, owner, 0.0)
    with database.write() as session:
        epsilons = Budgets(session, owner[0], price=price)
        refusal = epsilons.reserve(owner[1], experiment_id="e", book="release", costs=[cost()])
    assert refusal is None
