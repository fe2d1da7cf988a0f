"""Statements that go past the session: values, rows and errors are as by it."""

from typing import Any

import pytest
from sqlalchemy import bindparam, select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from models.clock import seconds_from_now, utc_now
from models.database import Database
from models.prepared import Prepared, PreparedRows
from models.repositories.base import table_of
from models.tables.operations import OutboxMessage
from tests.models.rows import add_project

_OUTBOX = table_of(OutboxMessage)
_NAMES = _OUTBOX.c.keys()
_COLUMNS = ("id", "project_id", "topic", "payload", "attempts", "created_at")
_ADD = Prepared(_OUTBOX.insert().values(available_at=seconds_from_now()))
_AMONG = (
    select(OutboxMessage)
    .where(OutboxMessage.id.in_(bindparam("ids", expanding=True)), OutboxMessage.attempts == 0)
    .order_by(OutboxMessage.id)
)
_SENT = Prepared(
    _OUTBOX.update()
    .where(_OUTBOX.c.id.in_(bindparam("ids", expanding=True)))
    .values(published_at=seconds_from_now())
)


def _message(project_id: str, id_: str) -> dict[str, Any]:
    payload = {"percent": "100 % of :it", "list": [1, None]}
    values = (id_, project_id, "unit", payload, 0, utc_now())
    return dict(zip(_COLUMNS, values, strict=True))


def test_values_and_rows_are_as_by_sqlalchemy(database: Database) -> None:
    found = PreparedRows(_AMONG)
    with database.write() as session:
        project_id = add_project(session)
        _ADD.run(session, [_message(project_id, "a")])
        _ADD.run(session, [_message(project_id, "b"), _message(project_id, "c")])
        for ids in ([], ["a"], ["a", "c", "none"], ["b", "a"]):
            ours, theirs = found.all(session, ids=ids), session.scalars(_AMONG, {"ids": ids})
            named = [{one: getattr(row, one) for one in _NAMES} for row in ours]
            assert named == [{one: getattr(row, one) for one in _NAMES} for row in theirs]
            assert [row.id for row in ours] == sorted({*ids} - {"none"})
        _SENT.run(session, [{"ids": ["a", "b"]}])
        assert [row.published_at is None for row in found.all(session, ids=["a", "c"])] == [
            False,
            True,
        ]


def test_errors_are_those_of_sqlalchemy(database: Database) -> None:
    with database.write() as session:
        project_id = add_project(session)
        _ADD.run(session, [_message(project_id, "a")])
    again = [_message(project_id, "b"), _message(project_id, "a")]
    with pytest.raises(IntegrityError), database.write() as session:
        _ADD.run(session, again)
    with database.read() as session:
        assert session.scalars(select(OutboxMessage.id)).all() == ["a"]


def test_a_connection_that_was_lost_is_not_used_again(postgres_url: str) -> None:
    database = Database(postgres_url)

    def lost() -> None:
        with database.read() as session:
            own = session.scalar(text("SELECT pg_backend_pid()"))
            with database.write() as other:
                other.execute(text("SELECT pg_terminate_backend(:own, 5000)"), {"own": own})
            PreparedRows(_AMONG).all(session, ids=["a"])

    with pytest.raises(OperationalError) as raised:
        lost()
    assert raised.value.connection_invalidated
    with database.read() as session:
        assert PreparedRows(_AMONG).all(session, ids=["a"]) == []
    database.dispose()
