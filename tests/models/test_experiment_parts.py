"""What runs leave beside the ledger: events, rounds, fairness, checkpoints and reports."""

from models.database import Database
from models.repositories import EventRepository, ReportListRepository, ReportRepository
from tests.models.rows import at_once, queued


def test_events_are_numbered_without_gaps_by_many_writers(database: Database) -> None:
    project_id, new = queued(database)

    def write(writer: int) -> None:
        for _ in range(5):
            with database.write() as session:
                events = [("round.completed", {"writer": writer})] * 2
                EventRepository(session).append(new.id, project_id, events)

    at_once(write, 4)
    with database.read() as session:
        events = EventRepository(session, project_id)
        assert [event.sequence for event in events.after(new.id)] == list(range(1, 41))
        later = events.after(new.id, 38, 5)
        assert EventRepository(session, "another").after(new.id) == []
    assert [event.sequence for event in later] == [39, 40]
    assert later[0].type == "round.completed"
    assert later[0].created_at.tzinfo is not None


def test_events_of_an_abandoned_transaction_leave_no_gap(database: Database) -> None:
    project_id, new = queued(database)
    with database.write() as session:
        EventRepository(session).append(new.id, project_id, [("a", {})])
        session.rollback()
    with database.write() as session:
        assert EventRepository(session).append(new.id, project_id, [("b", {}), ("c", {})]) == 2


def test_a_report_is_stored_once_and_served_as_stored(database: Database) -> None:
    project_id, new = queued(database)
    document = {"z": 1e-6, "a": {"n": 3.0, "text": "Zürich\u2028", "none": None}}
    with database.write() as session:
        reports = ReportRepository(session)
        assert reports.put(new.id, project_id, document=document, report_hash="a" * 64)
        assert not reports.put(new.id, project_id, document={}, report_hash="b" * 64)
    with database.read() as session:
        report = ReportRepository(session, project_id).get(new.id)
        assert ReportRepository(session, "another").get(new.id) is None
        assert ReportListRepository(session, "another").list().items == []
    assert report.report_hash == "a" * 64
    assert list(report.document) == ["z", "a"]
    assert report.document == document
