"""What runs leave beside the ledger: events, rounds, fairness, checkpoints and reports."""

import numpy as np
from sqlalchemy import func, select

from models.database import Database
from models.repositories import (
    CheckpointRepository,
    EventRepository,
    FairnessRepository,
    ReportListRepository,
    ReportRepository,
    RoundRepository,
)
from models.tables.ledger import Round
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


def test_events_of_an_abandoned_transaction_leave_no_gap(database: Database) -> None:
    project_id, new = queued(database)
    with database.write() as session:
        EventRepository(session).append(new.id, project_id, [("a", {})])
        session.rollback()
    with database.write() as session:
        assert EventRepository(session).append(new.id, project_id, [("b", {}), ("c", {})]) == 2


def test_rounds_are_read_as_they_were_written(database: Database) -> None:
    project_id, new = queued(database)
    rows = [
        RoundRow(
            round=round_,
            selection_loss=0.1 + 0.2,
            cluster_sizes=[3, 0],
            separation=None,
            collapsed=round_ == 2,
            leakage_max=round_ * 9.0,
            reasons={"accuracy": "the target is a number"},
        )
        for round_ in (1, 2, 3)
    ]
    with database.write() as session:
        RoundRepository(session).insert(new.id, project_id, rows[:2])
        RoundRepository(session).insert(new.id, project_id, rows[2:])
        RoundRepository(session).insert(new.id, project_id, [])
    with database.read() as session:
        rounds = RoundRepository(session, project_id)
        assert rounds.after(new.id) == rows
        assert rounds.after(new.id, 1, 1) == rows[1:2]
        assert RoundRepository(session, "another").after(new.id) == []


def test_clusters_and_planes_are_kept_with_rounds(database: Database) -> None:
    project_id, new = queued(database)
    by_cluster = [{"cluster": 1, "clients": 3, "leakage_median": 0.5, "leakage_max": 1.0}]
    planes = [
        {"hypotheses": [[round_, 0.1]], "uploads": [[1.5, -2.25]], "clusters": [0]}
        for round_ in (1, 2, 3)
    ]
    rows = [
        RoundRow(round=1, cluster_sizes=[], leakage_by_cluster=by_cluster, plane=planes[0]),
        RoundRow(round=2, cluster_sizes=[]),
        RoundRow(round=3, cluster_sizes=[], plane=planes[2]),
        RoundRow(round=4, cluster_sizes=[], plane=planes[1]),
    ]
    with database.write() as session:
        RoundRepository(session).insert(new.id, project_id, rows)
    with database.read() as session:
        rounds = RoundRepository(session, project_id)
        assert rounds.after(new.id) == rows
        assert [row.plane for row in rounds.after(new.id, planes=False)] == [None] * 4
        assert rounds.after(new.id, planes=False)[0].leakage_by_cluster == by_cluster
        assert rounds.drawn_rounds(new.id, up_to=3) == [1, 3]
        assert rounds.planes(new.id, [1, 2, 4]) == {1: planes[0], 4: planes[1]}
        assert RoundRepository(session, "another").planes(new.id, [1]) == {}
        assert RoundRepository(session, "another").drawn_rounds(new.id, up_to=3) == []
        # No value is NULL, and not the JSON `null`.
        empty = select(func.count()).where(
            Round.plane.is_(None), Round.leakage_by_cluster.is_(None)
        )
        assert session.scalar(empty) == 1


def test_fairness_is_paged_by_round_and_attribute(database: Database) -> None:
    project_id, new = queued(database)
    figures = [{"metric": "equalized_odds_ratio", "value": None, "reason": "no positives"}]
    counts = np.array([[5, 1, 40, 2], [0, 0, 9, 9]])
    rows = [
        FairnessRow(round=round_, attribute=attribute, figures=figures, counts=counts)
        for round_ in (1, 2)
        for attribute in ("age", "state")
    ]
    with database.write() as session:
        FairnessRepository(session).insert(new.id, project_id, rows)
    with database.read() as session:
        fairness = FairnessRepository(session, project_id)

        def keys(rows: list[FairnessRow]) -> list[tuple[int, str]]:
            return [(row.round, row.attribute) for row in rows]

        first = fairness.after(new.id, limit=3)
        assert keys(first) == [(1, "age"), (1, "state"), (2, "age")]
        assert keys(fairness.after(new.id, 2, after_attribute="age")) == [(2, "state")]
        assert keys(fairness.after(new.id, 1)) == [(2, "age"), (2, "state")]
        assert keys(fairness.after(new.id, attribute="state")) == [(1, "state"), (2, "state")]
        assert FairnessRepository(session, "another").after(new.id) == []
    assert first[0].figures == figures
    assert first[0].counts == counts.tolist()


def test_the_newest_checkpoint_is_kept_until_the_end(database: Database) -> None:
    project_id, new = queued(database)
    with database.write() as session:
        checkpoints = CheckpointRepository(session)
        assert checkpoints.get(new.id) is None
        for round_ in (20, 40):
            checkpoints.put(new.id, project_id, round=round_, data=bytes([0, 255, round_]))
        newest = checkpoints.get(new.id)
        assert newest is not None
        assert (newest.round, bytes(newest.data)) == (40, bytes([0, 255, 40]))
        checkpoints.delete(new.id)
        assert checkpoints.get(new.id) is None


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
    assert report is not None
    assert report.report_hash == "a" * 64
    assert list(report.document) == ["z", "a"]
    assert report.document == document
