"""Budgets: reserved at once or not at all, and booked as they were spent."""

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.database import Database
from models.repositories import FederationRepository
from models.values import Budget
from tests.models.rows import add_federation, add_project

_LEAKAGE = {"book": "simulation", "figure": "leakage"}


def _federation(database: Database, *, total: float | None) -> tuple[str, str]:
    with database.write() as session:
        project_id = add_project(session)
        federation_id = add_federation(session, project_id)
        if total is not None:
            federations = FederationRepository(session, project_id)
            federations.set_budget(federation_id, **_LEAKAGE, total=total)
    return project_id, federation_id


def _reserve(database: Database, owner: tuple[str, str], experiment_id: str, amount: float) -> bool:
    with database.write() as session:
        return FederationRepository(session, owner[0]).reserve(
            owner[1], experiment_id=experiment_id, book="simulation", amount=amount
        )


def _budget(database: Database, owner: tuple[str, str]) -> Budget:
    with database.read() as session:
        (budget,) = FederationRepository(session, owner[0]).budgets(owner[1])
    return budget


def test_what_does_not_fit_is_refused_and_changes_nothing(database: Database) -> None:
    owner = _federation(database, total=21.0)
    assert _reserve(database, owner, "e1", 12.0)
    assert not _reserve(database, owner, "e2", 9.5)
    assert _reserve(database, owner, "e3", 9.0)
    budget = _budget(database, owner)
    assert (budget.total, budget.reserved, budget.spent, budget.remaining) == (21.0, 21.0, 0.0, 0.0)


def test_a_budget_takes_what_it_was_made_for(database: Database) -> None:
    """Three times 0.4 is more than 1.2 in floating point."""
    owner = _federation(database, total=1.2)
    assert [_reserve(database, owner, f"e{i}", 0.4) for i in range(4)] == [True, True, True, False]


def test_without_a_bound_everything_is_booked(database: Database) -> None:
    owner = _federation(database, total=None)
    assert _reserve(database, owner, "e1", 1e9)
    budget = _budget(database, owner)
    assert (budget.total, budget.remaining, budget.reserved) == (None, None, 1e9)


def test_the_last_room_is_given_once(database: Database) -> None:
    owner = _federation(database, total=1.0)
    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda i=i: answers.append(_reserve(database, owner, f"e{i}", 0.6)))
        for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False] * 5 + [True]
    assert _budget(database, owner).reserved == 0.6


def test_settling_returns_what_was_not_spent_once(database: Database) -> None:
    owner = _federation(database, total=10.0)
    assert _reserve(database, owner, "e1", 8.0)
    with database.write() as session:
        assert FederationRepository(session, owner[0]).settle("e1", spent=3.0)
    with database.write() as session:
        assert not FederationRepository(session, owner[0]).settle("e1", spent=5.0)
    budget = _budget(database, owner)
    assert (budget.reserved, budget.spent, budget.remaining) == (0.0, 3.0, 7.0)


def test_drawing_books_before_the_release_and_stops_at_the_bound(database: Database) -> None:
    owner = _federation(database, total=10.0)
    assert _reserve(database, owner, "e1", 6.0)
    assert _reserve(database, owner, "e2", 2.0)
    with database.write() as session:
        federations = FederationRepository(session, owner[0])
        assert federations.draw("e1", spent=4.0)
        assert federations.draw("e1", spent=4.0)
    budget = _budget(database, owner)
    assert (budget.reserved, budget.spent) == (4.0, 4.0)
    with database.write() as session:
        federations = FederationRepository(session, owner[0])
        assert federations.draw("e1", spent=8.0)
        assert not federations.draw("e1", spent=8.5)
        assert federations.settle("e1", spent=5.0)
    budget = _budget(database, owner)
    assert (budget.reserved, budget.spent) == (2.0, 8.0)


def test_books_and_figures_are_apart(database: Database) -> None:
    owner = _federation(database, total=1.0)
    with database.write() as session:
        federations = FederationRepository(session, owner[0])
        epsilon = {"figure": "epsilon", "delta": 1e-5, "adjacency": "replace-one"}
        federations.set_budget(owner[1], book="release", **epsilon, observer="server", total=2.0)
        assert federations.reserve(owner[1], experiment_id="e1", book="release", amount=2.0)
        books = {(one.book, one.figure): one for one in federations.budgets(owner[1])}
    assert books["simulation", "leakage"].total == 1.0
    assert books["simulation", "leakage"].reserved == 0.0
    assert books["release", "leakage"].reserved == 2.0
    found = books["release", "epsilon"]
    assert (found.delta, found.adjacency, found.observer) == (1e-5, "replace-one", "server")


def test_a_federation_belongs_to_its_project(database: Database) -> None:
    owner = _federation(database, total=1.0)
    with database.write() as session:
        stranger = FederationRepository(session, add_project(session, "another"))
        assert stranger.get(owner[1]) is None
        assert stranger.budgets(owner[1]) == []
        assert stranger.list().items == []
        with pytest.raises(LookupError, match=owner[1]):
            stranger.reserve(owner[1], experiment_id="e", book="simulation", amount=0.1)
        with pytest.raises(LookupError, match=owner[1]):
            stranger.set_budget(owner[1], **_LEAKAGE, total=100.0)


@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf])
def test_an_amount_is_a_finite_number(database: Database, amount: float) -> None:
    owner = _federation(database, total=1.0)
    with pytest.raises(ValueError, match="amount"):
        _reserve(database, owner, "e", amount)


@given(total=st.floats(0, 1e6), reserved=st.floats(0, 1e6), spent=st.floats(0, 1e6))
def test_what_remains_is_never_negative(total: float, reserved: float, spent: float) -> None:
    budget = Budget("simulation", "leakage", None, None, None, total, reserved, spent)
    assert budget.remaining is not None
    assert 0 <= budget.remaining <= total


def test_federations_are_known_by_their_data(database: Database) -> None:
    with database.write() as session:
        project_id = add_project(session)
        ids = [add_federation(session, project_id, f"{i:064}") for i in range(5)]
        assert add_federation(session, project_id, f"{0:064}") == ids[0]
        federations = FederationRepository(session, project_id)
        first = federations.list(limit=3)
        second = federations.list(limit=3, cursor=first.next_cursor)
    assert [row.id for row in first.items + second.items] == ids[::-1]
    assert second.next_cursor is None
