"""Whose unit a worker runs next."""

from dataclasses import replace

import pytest
from sqlalchemy import update

from models.tables.experiments import Unit
from models.vocabulary import SCOPES
from tests.api.service import Api, spec
from workers.context import WorkerContext
from workers.turns import Turns, run_next


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch, served: WorkerContext) -> list[str]:
    """The units that were run, in order; each is done at once."""
    ran: list[str] = []

    def run(context: WorkerContext, unit_id: str) -> bool:
        ran.append(unit_id)
        with context.database.write() as session:
            waits = update(Unit).where(Unit.id == unit_id, Unit.state == "waiting")
            return bool(session.execute(waits.values(state="done")).rowcount)  # type: ignore[attr-defined]

    monkeypatch.setattr("workers.turns.run_unit", run)
    return ran


def units(api: Api, count: int, *, key: str | None = None) -> list[str]:
    """The units of so many experiments, oldest first."""
    mine = api if key is None else replace(api, key=key)
    ids = [mine.submit(spec(seed=seed))["id"] for seed in range(count)]
    return [str(api.stored(one).unit_id) for one in ids]


def test_a_project_waits_for_one_unit_of_another_and_not_for_its_queue(api, served, began):
    many = units(api, 6)
    one = units(api, 1, key=api.key_with(*SCOPES, project="theirs"))
    turns = Turns(api.database, ("auto", "cpu"))
    # Messages come in the order of submission.
    for woken in (*many, *one):
        run_next(served, turns, woken)
    assert began == [many[0], *one, *many[1:]]


def test_what_takes_seconds_comes_before_what_takes_hours(api, served, began):
    runs = units(api, 3)
    with api.database.write() as session:
        session.execute(update(Unit).where(Unit.id == runs[2]).values(kind="profile"))
    turns = Turns(api.database, ("auto", "cpu"))
    for woken in runs:
        run_next(served, turns, woken)
    assert began == [runs[2], runs[0], runs[1]]


def test_a_project_that_runs_nothing_comes_before_one_that_holds_leases(api, served, began):
    mine, theirs = units(api, 2), units(api, 1, key=api.key_with(*SCOPES, project="theirs"))
    with api.database.write() as session:
        session.execute(update(Unit).where(Unit.id == mine[0]).values(state="leased"))
    turns = Turns(api.database, ("auto", "cpu"))
    run_next(served, turns, mine[1])
    assert began == theirs


def test_where_nothing_waits_the_unit_of_the_message_is_tried(api, served, began):
    lost = units(api, 1)
    with api.database.write() as session:
        session.execute(update(Unit).where(Unit.id == lost[0]).values(state="leased"))
    run_next(served, Turns(api.database, ("auto", "cpu")), lost[0])
    assert began == lost
