"""Experiments: from queued to ended, and what happens when their worker does not return."""

import numpy as np
import pytest

from fedaudit.stored import FairnessRow, RoundRow
from models.database import Database
from models.repositories import (
    Budgets,
    EventRepository,
    ExperimentRepository,
    FairnessRepository,
    LedgerRepository,
    ReportListRepository,
    ReportRepository,
    RoundRepository,
    UnitRepository,
)
from models.tables.experiments import Event, Experiment, Unit
from tests.models.rows import add_experiment, add_project, at_once, ledger_row, of_leakage, queued


def _get(database: Database, project_id: str, experiment_id: str) -> Experiment:
    with database.read() as session:
        experiment = ExperimentRepository(session, project_id).get(experiment_id)
    assert experiment is not None
    return experiment


def _events(database: Database, experiment_id: str) -> list[Event]:
    with database.read() as session:
        return EventRepository(session).after(experiment_id)


def _claim(database: Database, unit_id: str, *, lease_seconds: float = 30) -> Unit:
    with database.write() as session:
        claim = UnitRepository(session).claim(
            unit_id, worker="w", devices={"auto"}, lease_seconds=lease_seconds
        )
    assert claim is not None
    return claim


def test_cancelling_one_cell_leaves_the_rest_of_its_unit(database: Database) -> None:
    project_id, first = queued(database)
    with database.write() as session:
        second = add_experiment(session, project_id, unit_id=first.unit_id, unit_position=1)
    with database.write() as session:
        experiments = ExperimentRepository(session, project_id)
        experiments.request_cancel(first.id)
        assert [cell.status for cell in experiments.of_unit(first.unit_id)] == [
            "cancelled",
            "queued",
        ]
        unit = UnitRepository(session).get(first.unit_id)
        assert unit.state == "waiting"
        experiments.request_cancel(second.id)
        unit = UnitRepository(session).get(first.unit_id)
        assert unit.state == "cancelled"


@pytest.fixture
def lost(database: Database) -> tuple[Database, str, str, str]:
    """A running experiment with 90 reserved, whose unit has just failed for good."""
    with database.write() as session:
        project_id = add_project(session)
        unit_id = UnitRepository(session).create(project_id, "auto", max_attempts=1).id
        new = add_experiment(session, project_id, unit_id=unit_id)
        Budgets(session, project_id).reserve(
            new.federation_id, experiment_id=new.id, book="simulation", costs=of_leakage(90.0)
        )
    claim = _claim(database, unit_id, lease_seconds=-1)
    with database.write() as session:
        ExperimentRepository(session, project_id).start_each([new.id])
        ledger = LedgerRepository(session, project_id)
        ledger.insert(new.id, [ledger_row(1)])
        releases = np.array([2, 0, 3, 1], np.int32)
        ledger.put_totals(new.id, releases=releases, refusals=0, withheld=0)
        assert UnitRepository(session).hold(unit_id, claim.fence)
    return database, project_id, new.id, new.federation_id


def test_a_lost_experiment_fails_and_keeps_what_it_spent(lost):
    database, project_id, experiment_id, federation_id = lost
    with database.write() as session:
        LedgerRepository(session, project_id).add_intents(
            experiment_id, [(1, 0, np.array([0, 2], np.int32)), (2, 0, np.array([2, 3], np.int32))]
        )
    with database.write() as session:
        [unit] = UnitRepository(session).reclaimable()
        taken = UnitRepository(session).take_back(unit.id)
        experiments = ExperimentRepository(session, project_id)
        ended = {"status": "failed", "reason": "worker-lost", "detail": taken.last_error}
        assert experiments.conclude(experiment_id, **ended)
        assert not experiments.conclude(experiment_id, **ended)
    failed = _get(database, project_id, experiment_id)
    assert (failed.status, failed.status_reason) == ("failed", "worker-lost")
    assert failed.status_detail == "worker lost in each of 1 attempts"
    assert _events(database, experiment_id)[-1].data == {
        "status": "failed",
        "status_reason": "worker-lost",
    }
    with database.read() as session:
        (budget,) = Budgets(session, project_id).budgets(federation_id)
    # Three releases of client 2 and the open intent of round 2; n/nu = 27/3.
    assert (budget.reserved, budget.spent) == (0.0, 4 * 27 / 3.0)


# -- what runs leave beside the ledger: events, rounds, fairness, checkpoints and reports ---------


def test_events_are_numbered_without_gaps_by_many_writers(database: Database) -> None:
    project_id, new = queued(database)

    def write(writer: int) -> None:
        for _ in range(5):
            with database.write() as session:
                events = [("round.completed", {"writer": writer})] * 2
                EventRepository(session, project_id).append(new.id, events)

    at_once(write, 4)
    with database.read() as session:
        events = EventRepository(session, project_id)
        assert [event.sequence for event in events.after(new.id)] == list(range(1, 42))
        later = events.after(new.id, 38, 5)
        assert EventRepository(session, "another").after(new.id) == []
    assert [event.sequence for event in later] == [39, 40, 41]
    assert later[0].type == "round.completed"
    assert later[0].created_at.tzinfo is not None


def test_rounds_are_read_as_they_were_written(database: Database) -> None:
    project_id, new = queued(database)
    cluster = {"cluster": 0, "clients": 3, "leakage_max": 0.1 + 0.2}
    written = [
        RoundRow(
            round=number,
            selection_loss=None,
            validation_loss=5e-324,
            accuracy=1,
            cluster_sizes=(2, number),
            separation=0.1 + 0.2,
            collapsed=number % 2 == 0,
            leakage_median=None,
            leakage_max=1e300,
            epsilon_max=None,
            demographic_parity_difference=None,
            equalized_odds_difference=0.0,
            equal_opportunity_difference=-0.0,
            leakage_by_cluster=[cluster],
            reasons={"accuracy": "Zürich\u2028"},
        )
        for number in (1, 2)
    ]
    figures, counts = [{"metric": "accuracy", "value": None}], np.arange(8).reshape(2, 4)
    common = {"attribute": "age", "figures": figures, "counts": counts}
    fair = [FairnessRow(round=one.round, **common) for one in written]
    with database.write() as session:
        RoundRepository(session, project_id).insert(new.id, written)
        FairnessRepository(session, project_id).insert(new.id, fair)
    with database.read() as session:
        read = RoundRepository(session).after(new.id)
        shares = FairnessRepository(session).after(new.id)
    assert [{**vars(one), "cluster_sizes": tuple(one.cluster_sizes)} for one in read] == [
        vars(one) for one in written
    ]
    assert [(one.round, one.figures) for one in shares] == [(one.round, figures) for one in fair]
    assert all(np.array_equal(one.counts, counts) for one in shares)


def test_a_report_is_stored_once_and_served_as_stored(database: Database) -> None:
    project_id, new = queued(database)
    document = {"z": 1e-6, "a": {"n": 3.0, "text": "Zürich\u2028", "none": None}}
    with database.write() as session:
        reports = ReportRepository(session, project_id)
        assert reports.put(new.id, document=document, report_hash="a" * 64)
        assert not reports.put(new.id, document={}, report_hash="b" * 64)
    with database.read() as session:
        report = ReportRepository(session, project_id).get(new.id)
        assert ReportRepository(session, "another").get(new.id) is None
        assert ReportListRepository(session, "another").list().items == []
    assert report.report_hash == "a" * 64
    assert list(report.document) == ["z", "a"]
    assert report.document == document
