"""Experiments: cancelled one by one, their events, and their report, stored once."""

from models.database import Database
from models.repositories import (
    EventRepository,
    ExperimentRepository,
    ReportListRepository,
    ReportRepository,
    UnitRepository,
)
from tests.models.rows import add_experiment, at_once, queued


def test_cancelling_one_cell_leaves_the_rest_of_its_unit(database: Database) -> None:
    project_id, first = queued(database)
    with database.write() as session:
        second = add_experiment(session, project_id, unit_id=first.unit_id, unit_position=1)
        experiments, units = ExperimentRepository(session, project_id), UnitRepository(session)
        experiments.request_cancel(first.id)
        statuses = [cell.status for cell in experiments.of_unit(first.unit_id)]
        assert statuses == ["cancelled", "queued"]
        assert units.get(first.unit_id).state == "waiting"
        experiments.request_cancel(second.id)
        assert units.get(first.unit_id).state == "cancelled"


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
    assert (later[0].type, later[0].created_at.tzinfo is None) == ("round.completed", False)


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
    assert (report.report_hash, list(report.document)) == ("a" * 64, ["z", "a"])
    assert report.document == document
