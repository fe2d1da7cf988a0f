"""Budgets: reserved at once or not at all, charged as they were spent, never passed."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedaudit.stored import Cost, LeakageTerms
from models.database import Database
from models.repositories import Budgets, FederationRepository
from models.repositories.budgets.budgets import SUMS
from models.repositories.budgets.counting import Refusal
from models.values import Budget
from tests.models.rows import TERMS, add_federation, add_project, of_leakage

T = TypeVar("T")
ORDERS = np.array([2.0, 8.0, 64.0])
ONE = np.array([1.0, 4.0, np.inf])
"""The divergences of one composition; the last order has no bound."""
BOOK = "simulation"


def price(curve: NDArray[np.float64], delta: float) -> float:
    """The older conversion, which is simple."""
    return float((curve + np.log(1 / delta) / (ORDERS - 1)).min()) if curve.any() else 0.0


def epsilon_of(rounds: int) -> float:
    """At the delta of the budgets below."""
    return price(rounds * ONE, 1e-5)


def composing(rounds: int = 4, **changes: Any) -> list[Cost]:
    """What a run of so many rounds asks for, at its own delta."""
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
    return [Cost(**{**values, **changes})]


@dataclass(frozen=True)
class Owner:
    """A project with a federation, each of whose calls is a transaction."""

    database: Database
    project: str
    federation: str

    def do(self, call: Callable[[Budgets], T]) -> T:
        with self.database.write() as session:
            return call(Budgets(session, self.project, price=price))

    def total(self, total: float, **changes: Any) -> "Owner":
        """Itself, with a total."""
        key = {"book": BOOK, "figure": "leakage", "terms": TERMS, "total": total, **changes}
        self.do(lambda budgets: budgets.set_budget(self.federation, **key))
        return self

    def epsilon(self, total: float) -> "Owner":
        key = {"delta": 1e-5, "adjacency": "add-or-remove-one", "observer": "final_model"}
        return self.total(total, figure="epsilon", terms=None, **key)

    def reserve(self, experiment: str, costs: float | list[Cost]) -> Refusal | None:
        asked = costs if isinstance(costs, list) else of_leakage(costs)
        about = {"experiment_id": experiment, "book": BOOK, "costs": asked}
        return self.do(lambda budgets: budgets.reserve(self.federation, **about))

    def draw(self, experiment: str, spent: float) -> bool:
        """As many releases as were spent, rounded up."""
        releases = math.ceil(spent)
        return self.do(lambda one: one.draw(experiment, spent=spent, releases=releases))

    def settle(self, experiment: str, spent: float) -> None:
        releases = math.ceil(spent)
        self.do(lambda one: one.settle(one.held(experiment, *SUMS), spent=spent, releases=releases))

    def draw_rounds(self, experiment: str, count: int) -> bool:
        return self.do(lambda one: one.draw_epsilon(experiment, {"final_model": count}))

    def settle_rounds(self, experiment: str, count: int) -> None:
        self.do(
            lambda one: one.settle_epsilon(one.held(experiment, "epsilon"), {"final_model": count})
        )

    @property
    def budget(self) -> Budget:
        """The only one, or the one with a total; of an epsilon as it is composed."""

        def found(budgets: Budgets) -> Budget:
            every = list(budgets.budgets(self.federation))
            [one] = every if len(every) == 1 else [one for one in every if one.total is not None]
            return budgets.composed(self.federation, one) if one.figure == "epsilon" else one

        return self.do(found)

    @property
    def sums(self) -> tuple[float, float]:
        """What is reserved and spent of it."""
        return self.budget.reserved, self.budget.spent


@pytest.fixture
def owner(database: Database) -> Owner:
    with database.write() as session:
        project = add_project(session)
        return Owner(database, project, add_federation(session, project))


def other_than(owner: Owner) -> Owner:
    """Another project with the same data."""
    with owner.database.write() as session:
        project = add_project(session, "another")
        return replace(owner, project=project, federation=add_federation(session, project))


def test_a_budget_takes_what_it_was_made_for(owner: Owner) -> None:
    """Three times 0.4 is more than 1.2 in floating point."""
    owner.total(1.2)
    refused = [owner.reserve(f"e{i}", 0.4) is not None for i in range(4)]
    assert refused == [False, False, False, True]


def test_a_draw_beyond_the_reservation_finds_what_other_projects_hold(owner: Owner) -> None:
    other = other_than(owner.total(10.0))
    assert owner.reserve("e1", 5.0) is None
    assert other.reserve("e2", 4.0) is None
    assert [other.draw("e2", 5.0), owner.draw("e1", 5.5), other.draw("e2", 5.5)] == [
        *(True, False, False)
    ]
    other.settle("e2", 5.0)
    owner.settle("e1", 1.0)
    found = owner.budget
    assert (found.spent, found.remaining, found.others_spent) == (6.0, 4.0, 5.0)


def test_settling_returns_what_was_not_spent_once(owner: Owner) -> None:
    owner.total(10.0)
    assert owner.reserve("e1", 8.0) is None
    owner.settle("e1", 3.0)
    owner.settle("e1", 5.0)
    assert (owner.sums, owner.budget.remaining) == ((0.0, 3.0), 7.0)


@pytest.mark.parametrize("together", [False, True], ids=["settled", "given-back"])
def test_no_rounding_stays_reserved_and_small_amounts_do(owner: Owner, together: bool) -> None:
    """0.1 + 0.2 + 0.3 - 0.1 - 0.2 - 0.3 is 1e-16."""
    for number, amount in enumerate((0.1, 0.2, 0.3, 1e10, 3.0)):
        assert owner.reserve(f"e{number}", amount) is None

    def end(*numbers: int) -> float:
        ids = [f"e{number}" for number in numbers]
        if together:
            owner.do(lambda budgets: budgets.give_back(ids))
        for id_ in ids:
            owner.settle(id_, 0.0)
        return owner.budget.reserved

    assert end(3) == pytest.approx(3.6)
    assert end(4) == pytest.approx(0.6)
    assert end(0, 1, 2) == 0.0


def test_drawing_books_before_the_release_and_stops_at_the_bound(owner: Owner) -> None:
    owner.total(10.0)
    for experiment, amount in (("e1", 6.0), ("e2", 2.0)):
        assert owner.reserve(experiment, amount) is None
    assert [owner.draw("e1", 4.0), owner.draw("e1", 4.0)] == [True, True]
    assert owner.sums == (4.0, 4.0)
    assert [owner.draw("e1", 8.0), owner.draw("e1", 8.5)] == [True, False]
    owner.settle("e1", 5.0)
    assert owner.sums == (2.0, 8.0)


def test_a_draw_that_one_of_two_budgets_refuses_takes_nothing_from_the_other(owner: Owner) -> None:
    """Of six releases, each of leakage 1 and a sum of 2."""
    owner.total(13.0, figure="log_ratio", terms=None)
    costs = of_leakage(6.0, LeakageTerms(0.5, 0.25))
    costs.append(Cost(figure="log_ratio", amount=12.0, step=np.array([2.0])))
    assert owner.reserve("e1", costs) is None

    def sums() -> dict[str, tuple[float, float]]:
        found = owner.do(lambda budgets: list(budgets.budgets(owner.federation)))
        return {one.figure: (one.reserved, one.spent) for one in found}

    before = sums()
    assert len(before) == 2
    assert not owner.draw("e1", 7.0)
    assert sums() == before


def test_leakage_and_nothing_else_has_a_radius_and_a_clip(owner: Owner) -> None:
    for setting in ({"terms": None}, {"figure": "log_ratio"}):
        with pytest.raises(ValueError, match="terms"):
            owner.total(1.0, **setting)


def test_a_federation_belongs_to_its_project(owner: Owner) -> None:
    owner.total(1.0)
    with owner.database.write() as session:
        project = add_project(session, "another")
        federations = FederationRepository(session, project)
        assert federations.get(owner.federation) is None
        assert federations.list().items == []
    stranger = replace(owner, project=project)
    for call in (
        lambda: stranger.do(lambda budgets: budgets.budgets(owner.federation)),
        lambda: stranger.reserve("e", 0.1),
        lambda: stranger.total(100.0),
    ):
        with pytest.raises(LookupError, match=owner.federation):
            call()


@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf])
def test_an_amount_is_a_finite_number(owner: Owner, amount: float) -> None:
    owner.total(1.0)
    with pytest.raises(ValueError, match="amount"):
        owner.reserve("e", amount)


@given(total=st.floats(0, 1e6), reserved=st.floats(0, 1e6), spent=st.floats(0, 1e6))
def test_what_remains_is_never_negative(total: float, reserved: float, spent: float) -> None:
    budget = Budget(BOOK, "leakage", None, None, None, total, reserved, spent)
    assert budget.remaining is not None
    assert 0 <= budget.remaining <= total


# -- epsilons: composed, never passed, and only of what can be composed ---------------------------


def test_settling_an_epsilon_returns_what_was_not_spent_once(owner: Owner) -> None:
    owner.epsilon(epsilon_of(4))
    assert owner.reserve("e1", composing()) is None
    owner.settle_rounds("e1", 1)
    owner.settle_rounds("e1", 4)
    assert owner.sums == (0.0, epsilon_of(1))
    assert owner.reserve("e2", composing(3)) is None
    assert owner.reserve("e3", composing(1)) is not None


def test_drawing_an_epsilon_books_before_the_release_and_stops_at_the_bound(owner: Owner) -> None:
    owner.epsilon(epsilon_of(6))
    assert owner.reserve("e1", composing()) is None
    assert owner.draw_rounds("e1", 3)
    assert owner.budget.spent == epsilon_of(3)
    assert [owner.draw_rounds("e1", 6), owner.draw_rounds("e1", 7)] == [True, False]
    assert owner.reserve("e2", composing(1)) is not None
    owner.settle_rounds("e1", 2)
    assert owner.sums == (0.0, epsilon_of(6))


def test_clients_and_records_are_composed_apart(owner: Owner) -> None:
    owner.reserve("clients", composing(6))
    owner.reserve("records", composing(2, unit="record"))
    owner.epsilon(epsilon_of(6))
    assert (owner.budget.unit, owner.budget.reserved) == ("client", epsilon_of(6))
    owner.settle_rounds("clients", 1)
    assert (owner.budget.unit, owner.budget.reserved) == ("record", epsilon_of(2))


def test_books_are_apart(owner: Owner) -> None:
    owner.epsilon(0.0)
    about = {"experiment_id": "e", "book": "release", "costs": composing()}
    assert owner.do(lambda budgets: budgets.reserve(owner.federation, **about)) is None
