"""Statements that go past the session, on a connection that ended."""

import pytest
from sqlalchemy import bindparam, select, text
from sqlalchemy.exc import OperationalError

from models.database import Database
from models.prepared import PreparedRows
from models.tables.operations import OutboxMessage

_AMONG = (
    select(OutboxMessage)
    .where(OutboxMessage.id.in_(bindparam("ids", expanding=True)), OutboxMessage.attempts == 0)
    .order_by(OutboxMessage.id)
)


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
