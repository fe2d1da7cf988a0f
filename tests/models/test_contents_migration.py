"""The revision that makes one budget of a content and keeps clients of other keys apart."""

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
from tests.models.rows import add_federation, add_project, queued

BEFORE = "0012"
TERMS = LeakageTerms("adaptive", None)
TOWN: dict[str, Any] = {"source": "table", "client_key": "town"}
COLUMN: dict[str, Any] = {"source": "table", "partition": {"method": "column", "column": "shop"}}
DEALT: dict[str, Any] = {"source": "table", "partition": {"method": "iid", "clients": 30}}


class Stored:
    """One federation's leakage, in a database that goes back and forth."""

    def __init__(self, url: str) -> None:
        migrations.upgrade(url, HEAD)
        self.url, self.database = url, Database(url)
        self.project_id = self.federation_id = ""

    def hold(self, federation: dict[str, Any], *, amount: float, spent: float) -> None:
        """A reservation of a new experiment on such data, which has spent some of it."""
        self.project_id, new = queued(self.database, spec={"federation": federation})
        self.federation_id = new.federation_id
        with self.database.write() as session:
            budgets = Budgets(session, self.project_id)
            mine = {"experiment_id": new.id, "book": "simulation", "unit_key": federation["source"]}
            assert budgets.reserve(self.federation_id, **mine, amount=amount, terms=TERMS) is None
            assert budgets.draw(new.id, spent=spent, releases=1)

    def before(self, *, total: float | None) -> tuple[float, float]:
        """Goes back, and sets the total of what is then one row; what that holds."""
        migrations.downgrade(self.url, BEFORE)
        with self.database.write() as session:
            session.execute(text("UPDATE federation_budgets SET total = :total"), {"total": total})
            [row] = session.execute(text("SELECT reserved, spent FROM federation_budgets")).all()
        return row[0], row[1]

    def rows(self) -> dict[str, tuple[float | None, float, float]]:
        """Goes to the newest revision again; the stored rows by their clients."""
        migrations.upgrade(self.url)
        with self.database.read() as session:
            found = session.execute(
                text("SELECT unit_key, total, reserved, spent FROM federation_budgets")
            )
            return {key: (total, reserved, spent) for key, total, reserved, spent in found}

    def budgets(self) -> list[Budget]:
        """As a reader sees them."""
        with self.database.read() as session:
            return Budgets(session, self.project_id).budgets(self.federation_id)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    made = Stored(f"sqlite:///{tmp_path}/service.db")
    yield made
    made.database.dispose()


def test_what_was_spent_goes_to_its_clients_and_the_total_names_none(stored: Stored) -> None:
    stored.hold(TOWN, amount=2.0, spent=0.5)
    stored.hold(COLUMN, amount=3.0, spent=1.0)
    stored.hold(DEALT, amount=4.0, spent=2.0)
    assert stored.before(total=50.0) == pytest.approx((5.5, 3.5))
    assert stored.rows() == {
        "": (50.0, pytest.approx(2.0), pytest.approx(2.0)),
        "client_key=town": (None, 1.5, 0.5),
        "client_key=shop": (None, 2.0, 1.0),
    }
    # Clients that nobody recorded count as the same as any: with those that cost most.
    [budget] = stored.budgets()
    assert (budget.unit_key, budget.total) == ("client_key=shop", 50.0)
    assert (budget.reserved, budget.spent) == (pytest.approx(4.0), pytest.approx(3.0))


def test_without_a_total_nothing_is_left_of_the_one_row(stored: Stored) -> None:
    stored.hold(TOWN, amount=2.0, spent=0.5)
    stored.before(total=None)
    assert stored.rows().keys() == {"client_key=town"}


def test_the_way_back_adds_up_and_keeps_the_smallest_total(stored: Stored) -> None:
    stored.hold(TOWN, amount=2.0, spent=0.5)
    with stored.database.write() as session:
        budgets = Budgets(session, stored.project_id)
        for total, whose in ((9.0, None), (4.0, "client_key=town")):
            key = {"book": "simulation", "figure": "leakage", "terms": TERMS, "unit_key": whose}
            budgets.set_budget(stored.federation_id, **key, total=total)
    migrations.downgrade(stored.url, BEFORE)
    with stored.database.read() as session:
        [row] = session.execute(text("SELECT total, reserved, spent FROM federation_budgets")).all()
    assert tuple(row) == (4.0, 1.5, 0.5)


def test_the_first_project_with_a_registration_or_a_total_owns_a_content(stored: Stored) -> None:
    with stored.database.write() as session:
        for name in ("first", "second", "third"):
            project_id = add_project(session, name)
            id_ = add_federation(session, project_id)
            if name != "first":
                budget = {"book": "release", "figure": "leakage", "terms": TERMS}
                Budgets(session, project_id).set_budget(id_, **budget, total=1.0)
            if name == "second":
                owner = project_id
    migrations.downgrade(stored.url, BEFORE)
    migrations.upgrade(stored.url)
    with stored.database.read() as session:
        owners = session.execute(text("SELECT fingerprint, owner_project_id FROM contents")).all()
    assert [tuple(row) for row in owners] == [("f" * 64, owner)]
