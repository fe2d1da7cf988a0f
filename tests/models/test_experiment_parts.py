"""What runs leave beside the ledger: events, rounds, fairness, checkpoints and reports."""

import numpy as np
import pytest

from models.database import Database
from models.repositories import (
    EventRepository,
    FairnessRepository,
    ReportListRepository,
    ReportRepository,
    RoundRepository,
)
from models.values import FairnessRow, RoundRow
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


@pytest.mark.parametrize("rounds", [1, 20])
def test_rounds_are_read_as_they_were_written(database: Database, rounds: int) -> None:
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
        for number in range(1, rounds + 1)
    ]
    figures, counts = [{"metric": "accuracy", "value": None}], np.arange(8).reshape(2, 4)
    common = {"attribute": "age", "figures": figures, "counts": counts}
    fair = [FairnessRow(round=one.round, **common) for one in written]
    with database.write() as session:
        RoundRepository(session).insert(new.id, project_id, written)
        FairnessRepository(session).insert(new.id, project_id, fair)
    with database.read() as session:
        read = RoundRepository(session).after(new.id)
        shares = FairnessRepository(session).after(new.id)
    assert [{**vars(one), "cluster_sizes": tuple(one.cluster_sizes)} for one in read] == [
        vars(one) for one in written
    ]
    assert [(one.round, one.figures) for one in shares] == [(one.round, figures) for one in fair]
    assert all(np.array_equal(one.counts, counts) for one in shares)


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
