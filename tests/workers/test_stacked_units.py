"""Experiments of one shape are claimed together, and are what they are alone."""

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import func, select

import workers.run_loop
from fedaudit.federations.load import load_federation
from fedaudit.privacy.accounting.accountant import composed_epsilon
from fedaudit.runs.experiment_plan import plan_experiment
from fedaudit.spec.parse import parse_spec
from models.database import Database
from models.repositories import Budgets, ExperimentRepository, LedgerRepository, ProjectRepository
from models.tables.experiments import Experiment, Unit
from models.values import new_id
from tests.workers.admission import admitting, spec_with, with_settings
from workers.context import WorkerContext
from workers.run_unit import run_unit
from workers.sweeper import Sweeper

SEEDS = (5, 6, 7)


def queued(database: Database, *specs: Mapping[str, Any], max_attempts: int = 3) -> list[str]:
    """Each experiment admitted by itself, as the API does; their ids."""
    ids = []
    for spec in map(parse_spec, specs):
        planned = plan_experiment(spec, load_federation(spec, sources_dir=None))
        ids.append(new_id())
        with database.write() as session:
            project_id = ProjectRepository(session).get_or_create("tests").id
            budgets = Budgets(session, project_id, price=composed_epsilon)
            with admitting(budgets, max_attempts) as one:
                one.admit(planned, one.queue(planned), experiment_id=ids[-1])
    return ids


def stored(database: Database, ids: list[str]) -> list[Experiment]:
    with database.read() as session:
        rows = {row.id: row for row in session.scalars(select(Experiment))}
    return [rows[id_] for id_ in ids]


def digests(database: Database, id_: str) -> list[bytes]:
    with database.read() as session:
        rows = LedgerRepository(session).rows_after(id_, limit=10_000)
    return [row.digest for row in rows]


def units(database: Database) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(Unit)) or 0


def test_queued_experiments_of_one_shape_run_in_one_claim(database, context):
    ids = queued(
        database,
        spec_with(seed=5),
        spec_with(seed=6, privacy__noise_multiplier=0.5, training__rounds=9),
        spec_with(seed=7, training__hypotheses=1),  # of another shape
        spec_with(seed=8),
    )
    first, second, other, last = stored(database, ids)
    run_unit(context, first.unit_id)
    first, second, other, last = stored(database, ids)
    assert [one.status for one in (first, second, other, last)] == [
        "succeeded",
        "succeeded",
        "queued",
        "succeeded",
    ]
    assert {first.unit_id, second.unit_id, last.unit_id} == {first.unit_id}
    assert [one.unit_position for one in (first, second, last)] == [0, 1, 2]
    assert units(database) == 2
    assert (second.rounds_done, last.rounds_done) == (9, 12)
    # The message of a unit that was taken in wakes a worker for nothing.
    run_unit(context, new_id())


def test_the_ledgers_are_those_of_experiments_alone(database, context):
    together = queued(database, *(spec_with(seed=seed) for seed in SEEDS))
    run_unit(context, stored(database, together)[0].unit_id)
    found = [digests(database, id_) for id_ in together]
    assert all(found)
    context = with_settings(context, stack_cells=1)
    apart = queued(database, *(spec_with(seed=seed) for seed in SEEDS))
    for row in stored(database, apart):
        run_unit(context, row.unit_id)
    assert [digests(database, id_) for id_ in apart] == found
    assert len({row.unit_id for row in stored(database, apart)}) == len(SEEDS)


def test_one_that_cannot_be_reported_fails_alone(database, context, monkeypatch):
    ids = queued(database, *(spec_with(seed=seed) for seed in SEEDS))
    bad, report = ids[1], workers.run_loop.report_of

    def failing(database: Database, experiment: Any, *rest: Any, **options: Any) -> Any:
        if experiment.id == bad:
            raise ArithmeticError("of this one alone")
        return report(database, experiment, *rest, **options)

    monkeypatch.setattr(workers.run_loop, "report_of", failing)
    run_unit(context, stored(database, ids)[0].unit_id)
    for _ in range(3):
        for row in stored(database, ids):
            if row.status not in ("succeeded", "failed"):
                run_unit(context, row.unit_id)
    rows = stored(database, ids)
    assert [one.status for one in rows] == ["succeeded", "failed", "succeeded"]
    assert "of this one alone" in (rows[1].status_detail or "")
    assert len({one.unit_id for one in rows}) > 1


@pytest.mark.parametrize("swept", [True, False], ids=["by the sweeper", "by a worker"])
def test_a_stack_whose_workers_vanish_is_taken_apart_for_its_last_attempt(database, context, swept):
    """Whoever finds first that its lease ran out."""
    ids = queued(database, *(spec_with(seed=seed) for seed in SEEDS), max_attempts=2)
    sweeper = Sweeper(context.settings, database, context.queue)

    def vanish(*_: Any, **__: Any) -> None:
        raise SystemExit("killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers.run_loop.RunLoop, "play", vanish)
        with pytest.raises(SystemExit):
            run_unit(context, stored(database, ids)[0].unit_id)
    assert len({one.unit_id for one in stored(database, ids)}) == 1
    with database.write() as session:
        session.execute(Unit.__table__.update().values(lease_until=Unit.created_at))
    if swept:
        sweeper.tick()
    else:
        run_unit(context, stored(database, ids)[0].unit_id)
        with database.read() as session:
            unsent = select(func.count()).where(Unit.published_at.is_(None), Unit.attempts == 1)
            assert session.scalar(unsent) == len(SEEDS) - 1, "the sweeper publishes these at once"
    assert len({one.unit_id for one in stored(database, ids)}) == len(SEEDS)
    for row in stored(database, ids):
        run_unit(context, row.unit_id)
    assert {one.status for one in stored(database, ids)} == {"succeeded"}


def test_no_more_are_taken_in_than_fit_and_none_that_was_cancelled_while_it_waited(
    database: Database, context: WorkerContext
) -> None:
    ids = queued(database, *(spec_with(seed=seed) for seed in range(4)))
    first, row, *_ = stored(database, ids)
    with database.write() as session:
        ExperimentRepository(session, row.project_id).request_cancel(ids[1])
        session.execute(Unit.__table__.update().values(stack_size=2))
    run_unit(context, first.unit_id)
    rows = stored(database, ids)
    assert [one.status for one in rows] == ["succeeded", "cancelled", "succeeded", "queued"]
    assert rows[1].unit_id not in {rows[0].unit_id, rows[2].unit_id}
