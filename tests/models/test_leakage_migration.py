"""The revision that keeps leakages of different radii apart: nothing spent is lost, and a total
whose meaning nobody knows refuses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

import migrations
from models.database import Database
from models.leakage_terms import LeakageTerms
from models.repositories import Budgets
from models.schema import HEAD
from models.values import Budget
from tests.models.rows import queued

BEFORE = "0010"
ADAPTIVE = LeakageTerms("adaptive", None)
FIXED = LeakageTerms(0.5, 0.25)
SPECS: dict[LeakageTerms, dict[str, Any]] = {
    # As a spec from before the fields had names for their defaults.
    ADAPTIVE: {"mechanism": "laplace-l2"},
    FIXED: {"mechanism": "laplace-l2", "radius": 0.5, "clip": 0.25},
}


class Book:
    """The simulation book of one federation, in a database that goes back and forth."""

    def __init__(self, url: str) -> None:
        migrations.upgrade(url, HEAD)
        self.url, self.database = url, Database(url)
        self.project_id = self.federation_id = ""

    def hold(self, terms: LeakageTerms, *, amount: float, spent: float) -> str:
        """A reservation of a new experiment, which has spent some of it; the experiment's id."""
        self.project_id, new = queued(self.database, spec={"privacy": SPECS[terms]})
        self.federation_id = new.federation_id
        with self.database.write() as session:
            budgets = Budgets(session, self.project_id)
            mine = {"experiment_id": new.id, "book": "simulation"}
            assert budgets.reserve(self.federation_id, **mine, amount=amount, terms=terms) is None
            assert budgets.draw(new.id, spent=spent, releases=1)
        return new.id

    def before(self, *, total: float | None) -> tuple[float, float]:
        """Goes back, and sets the total of what is then one row; what that holds."""
        migrations.downgrade(self.url, BEFORE)
        with self.database.write() as session:
            session.execute(text("UPDATE federation_budgets SET total = :total"), {"total": total})
            [row] = session.execute(
                text("SELECT adjacency, reserved, spent FROM federation_budgets")
            ).all()
        assert row[0] == ""
        return row[1], row[2]

    def after(self) -> dict[LeakageTerms | None, Budget]:
        """Goes to the newest revision again; the budgets by their terms."""
        migrations.upgrade(self.url)
        with self.database.read() as session:
            budgets = Budgets(session, self.project_id).budgets(self.federation_id)
        return {one.terms: one for one in budgets}


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    made = Book(f"sqlite:///{tmp_path}/service.db")
    yield made
    made.database.dispose()


def _sums(budget: Budget) -> tuple[float, float]:
    return budget.reserved, budget.spent


def test_a_total_goes_with_the_only_radius_and_clip(book: Book) -> None:
    for _ in range(3):
        book.hold(FIXED, amount=2.0, spent=0.1)
    stored = book.before(total=7.0)
    found = book.after()
    assert found.keys() == {FIXED}
    assert (found[FIXED].total, _sums(found[FIXED])) == (7.0, stored)


def test_a_total_of_several_is_kept_where_it_refuses_every_run(book: Book) -> None:
    book.hold(FIXED, amount=2.0, spent=0.5)
    book.hold(ADAPTIVE, amount=3.0, spent=1.0)
    assert book.before(total=7.0) == pytest.approx((3.5, 1.5))
    found = book.after()
    assert {terms: one.total for terms, one in found.items()} == {
        None: 7.0,
        FIXED: None,
        ADAPTIVE: None,
    }
    assert _sums(found[FIXED]) == pytest.approx((1.5, 0.5))
    assert _sums(found[ADAPTIVE]) == pytest.approx((2.0, 1.0))
    assert _sums(found[None]) == pytest.approx((0.0, 0.0))


def test_without_a_total_nothing_is_left_of_the_one_row(book: Book) -> None:
    book.hold(FIXED, amount=2.0, spent=0.5)
    book.hold(ADAPTIVE, amount=3.0, spent=1.0)
    book.before(total=None)
    assert book.after().keys() == {FIXED, ADAPTIVE}


def test_what_no_experiment_explains_stays_spent_and_keeps_the_total(book: Book) -> None:
    book.hold(FIXED, amount=2.0, spent=0.5)
    book.before(total=7.0)
    with book.database.write() as session:
        session.execute(text("UPDATE federation_budgets SET spent = spent + 4"))
        columns = "federation_id, book, figure, delta, adjacency, observer"
        session.execute(
            text(
                f"INSERT INTO reservations (experiment_id, {columns}, amount, spent, state)"
                f" SELECT 'gone', {columns}, 4, 4, 'settled' FROM federation_budgets"
            )
        )
    found = book.after()
    assert (found[None].total, found[FIXED].total) == (7.0, None)
    assert (found[None].spent, found[FIXED].spent) == (pytest.approx(4.0), 0.5)


def test_a_total_without_reservations_refuses(book: Book) -> None:
    book.hold(FIXED, amount=2.0, spent=0.0)
    book.before(total=7.0)
    with book.database.write() as session:
        session.execute(text("DELETE FROM reservations"))
        session.execute(text("UPDATE federation_budgets SET reserved = 0, spent = 0"))
    assert {terms: one.total for terms, one in book.after().items()} == {None: 7.0}


def test_a_held_reservation_goes_on_after_the_move(book: Book) -> None:
    id_ = book.hold(FIXED, amount=2.0, spent=0.5)
    book.before(total=2.5)
    book.after()
    with book.database.write() as session:
        budgets = Budgets(session, book.project_id)
        assert budgets.draw(id_, spent=2.0, releases=4)
        assert not budgets.draw(id_, spent=3.0, releases=6)
        assert budgets.settle(id_, spent=2.0, releases=4)
    assert _sums(book.after()[FIXED]) == pytest.approx((0.0, 2.0))


def test_the_way_back_keeps_the_smallest_total_and_forgets_the_theorems_sum(book: Book) -> None:
    for terms, total in ((FIXED, 9.0), (ADAPTIVE, 4.0)):
        id_ = book.hold(terms, amount=2.0, spent=0.5)
        with book.database.write() as session:
            budgets = Budgets(session, book.project_id)
            key = {"book": "simulation", "figure": "leakage", "terms": terms}
            budgets.set_budget(book.federation_id, **key, total=total)
    with book.database.write() as session:
        Budgets(session, book.project_id).reserve(
            book.federation_id,
            experiment_id=id_,
            book="simulation",
            amount=5.0,
            terms=None,
            of_one_release=1.0,
        )
    migrations.downgrade(book.url, BEFORE)
    with book.database.read() as session:
        rows = session.execute(
            text("SELECT figure, adjacency, total, reserved, spent FROM federation_budgets")
        ).all()
        held = session.scalar(text("SELECT count(*) FROM reservations WHERE adjacency = ''"))
    assert [tuple(row) for row in rows] == [("leakage", "", 4.0, 3.0, 1.0)]
    assert held == 2
