"""Budgets: reserved at once or not at all, and charged as they were spent."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.stored import Cost, LeakageTerms
from models.database import Database
from models.repositories import Budgets, FederationRepository
from models.values import Budget
from tests.models.rows import TERMS, add_federation, add_project, of_leakage

_LEAKAGE = {"book": "simulation", "figure": "leakage", "terms": TERMS}


def _federation(database: Database, *, total: float | None) -> tuple[str, str]:
    with database.write() as session:
        project_id = add_project(session)
        federation_id = add_federation(session, project_id)
        if total is not None:
            budgets = Budgets(session, project_id)
            budgets.set_budget(federation_id, **_LEAKAGE, total=total)
    return project_id, federation_id


def _reserve(database: Database, owner: tuple[str, str], experiment_id: str, amount: float) -> bool:
    with database.write() as session:
        refusal = Budgets(session, owner[0]).reserve(
            owner[1], experiment_id=experiment_id, book="simulation", costs=of_leakage(amount)
        )
        return refusal is None


def _budget(database: Database, owner: tuple[str, str]) -> Budget:
    with database.read() as session:
        (budget,) = Budgets(session, owner[0]).budgets(owner[1])
    return budget


def test_a_budget_takes_what_it_was_made_for(database: Database) -> None:
    """Three times 0.4 is more than 1.2 in floating point."""
    owner = _federation(database, total=1.2)
    assert [_reserve(database, owner, f"e{i}", 0.4) for i in range(4)] == [True, True, True, False]


def test_a_draw_beyond_the_reservation_finds_what_other_projects_hold(database: Database) -> None:
    owner = _federation(database, total=10.0)
    with database.write() as session:
        project_id = add_project(session, "another")
        other = project_id, add_federation(session, project_id)
    assert _reserve(database, owner, "e1", 5.0)
    assert _reserve(database, other, "e2", 4.0)
    for one, spent, room in ((other, 5.0, True), (owner, 5.5, False), (other, 5.5, False)):
        with database.write() as session:
            repository = Budgets(session, one[0])
            experiment_id = "e1" if one == owner else "e2"
            assert repository.draw(experiment_id, spent=spent, releases=1) is room
    with database.write() as session:
        Budgets(session, other[0]).settle("e2", spent=5.0, releases=1)
        Budgets(session, owner[0]).settle("e1", spent=1.0, releases=1)
    assert (_budget(database, owner).spent, _budget(database, owner).remaining) == (6.0, 4.0)
    assert _budget(database, owner).others_spent == 5.0


def test_settling_returns_what_was_not_spent_once(database: Database) -> None:
    owner = _federation(database, total=10.0)
    assert _reserve(database, owner, "e1", 8.0)
    with database.write() as session:
        Budgets(session, owner[0]).settle("e1", spent=3.0, releases=3)
    with database.write() as session:
        Budgets(session, owner[0]).settle("e1", spent=5.0, releases=5)
    budget = _budget(database, owner)
    assert (budget.reserved, budget.spent, budget.remaining) == (0.0, 3.0, 7.0)


@pytest.mark.parametrize("together", [False, True], ids=["settled", "given-back"])
def test_no_rounding_stays_reserved_and_small_amounts_do(database: Database, together: bool):
    """0.1 + 0.2 + 0.3 - 0.1 - 0.2 - 0.3 is 1e-16."""
    owner = _federation(database, total=None)
    for number, amount in enumerate((0.1, 0.2, 0.3, 1e10, 3.0)):
        assert _reserve(database, owner, f"e{number}", amount)

    def end(*numbers: int) -> float:
        with database.write() as session:
            budgets, ids = Budgets(session, owner[0]), [f"e{number}" for number in numbers]
            if together:
                budgets.give_back(ids)
            for id_ in ids:
                budgets.settle(id_, spent=0.0, releases=0)
        return _budget(database, owner).reserved

    assert end(3) == pytest.approx(3.6)
    assert end(4) == pytest.approx(0.6)
    assert end(0, 1, 2) == 0.0


def test_drawing_books_before_the_release_and_stops_at_the_bound(database: Database) -> None:
    owner = _federation(database, total=10.0)
    assert _reserve(database, owner, "e1", 6.0)
    assert _reserve(database, owner, "e2", 2.0)
    with database.write() as session:
        budgets = Budgets(session, owner[0])
        assert budgets.draw("e1", spent=4.0, releases=4)
        assert budgets.draw("e1", spent=4.0, releases=4)
    budget = _budget(database, owner)
    assert (budget.reserved, budget.spent) == (4.0, 4.0)
    with database.write() as session:
        budgets = Budgets(session, owner[0])
        assert budgets.draw("e1", spent=8.0, releases=8)
        assert not budgets.draw("e1", spent=8.5, releases=9)
        budgets.settle("e1", spent=5.0, releases=5)
    budget = _budget(database, owner)
    assert (budget.reserved, budget.spent) == (2.0, 8.0)


def _hold_both(database: Database, owner: tuple[str, str], *, log_ratio: float | None) -> None:
    """Six releases, each of leakage 1 and a sum of 2; `log_ratio`: the total for that."""
    with database.write() as session:
        budgets = Budgets(session, owner[0])
        mine = {"experiment_id": "e1", "book": "simulation"}
        costs = of_leakage(6.0, LeakageTerms(0.5, 0.25))
        if log_ratio is not None:
            bound = {"book": "simulation", "figure": "log_ratio", "total": log_ratio}
            budgets.set_budget(owner[1], **bound)
        costs.append(Cost(figure="log_ratio", amount=12.0, step=np.array([2.0])))
        assert budgets.reserve(owner[1], **mine, costs=costs) is None


def _sums(database: Database, owner: tuple[str, str]) -> dict[str, tuple[float, float]]:
    with database.read() as session:
        budgets = Budgets(session, owner[0]).budgets(owner[1])
    return {one.figure: (one.reserved, one.spent) for one in budgets}


def test_a_draw_that_one_of_two_budgets_refuses_takes_nothing_from_the_other(database):
    owner = _federation(database, total=None)
    _hold_both(database, owner, log_ratio=13.0)
    before = _sums(database, owner)
    with database.write() as session:
        assert not Budgets(session, owner[0]).draw("e1", spent=7.0, releases=7)
    assert _sums(database, owner) == before


def test_leakage_and_nothing_else_has_a_radius_and_a_clip(database: Database) -> None:
    owner = _federation(database, total=None)
    for setting in ({"figure": "leakage"}, {"figure": "log_ratio", "terms": TERMS}):
        with database.write() as session, pytest.raises(ValueError, match="terms"):
            Budgets(session, owner[0]).set_budget(owner[1], book="release", total=1.0, **setting)


def test_a_federation_belongs_to_its_project(database: Database) -> None:
    owner = _federation(database, total=1.0)
    with database.write() as session:
        project_id = add_project(session, "another")
        federations = FederationRepository(session, project_id)
        assert federations.get(owner[1]) is None
        assert federations.list().items == []
        stranger = Budgets(session, project_id)
        with pytest.raises(LookupError, match=owner[1]):
            stranger.budgets(owner[1])
        with pytest.raises(LookupError, match=owner[1]):
            stranger.reserve(owner[1], experiment_id="e", book="simulation", costs=of_leakage(0.1))
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
