"""The outbox: messages written with what caused them, sent afterwards."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, select, update

from models.clock import seconds_from_now, utc_now
from models.identifiers import new_id
from models.prepared import Prepared
from models.repositories.base import Repository, table_of
from models.tables.outbox import OutboxMessage

_PUBLISHED = Prepared(
    table_of(OutboxMessage)
    .update()
    .where(table_of(OutboxMessage).c.id.in_(bindparam("ids", expanding=True)))
    .values(published_at=seconds_from_now())
)
_DUE = table_of(OutboxMessage).insert().values(available_at=seconds_from_now())


class OutboxRepository(Repository):
    """Messages across projects: the sweeper sends all of them."""

    def add(self, project_id: str, topic: str, payload: Mapping[str, Any]) -> str:
        """Writes a message, to be sent from now on; returns its id."""
        id_ = new_id()
        message = {
            "id": id_,
            "project_id": project_id,
            "topic": topic,
            "payload": dict(payload),
            "attempts": 0,
            "created_at": utc_now(),
        }
        self._write(_DUE, [message])
        return id_

    def pending(self, limit: int = 100) -> list[OutboxMessage]:
        """Messages due, oldest first, locked for this (write) transaction.

        Those that another transaction has locked are skipped.
        """
        return self._all(
            select(OutboxMessage)
            .where(
                OutboxMessage.published_at.is_(None),
                OutboxMessage.available_at <= seconds_from_now(),
            )
            .order_by(OutboxMessage.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )

    def mark_published(self, ids: Sequence[str]) -> None:
        """Notes that these messages were sent."""
        _PUBLISHED.run(self.session, [{"ids": ids}])

    def postpone(self, id: str, seconds: float) -> None:  # noqa: A002
        """Counts a failed attempt and leaves the message for later."""
        self._execute(
            update(OutboxMessage)
            .where(OutboxMessage.id == id)
            .values(attempts=OutboxMessage.attempts + 1, available_at=seconds_from_now(seconds))
        )
