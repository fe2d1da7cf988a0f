"""Idempotency keys: a repeated request is answered as the first one was."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import bindparam, delete, select, tuple_

from models.clock import seconds_from_now, utc_now
from models.prepared import PreparedRows
from models.repositories.base import Repository
from models.tables.idempotency import IdempotencyKey

_TAKEN = PreparedRows(
    select(IdempotencyKey).where(
        IdempotencyKey.api_key_id == bindparam("api_key_id"),
        IdempotencyKey.route == bindparam("route"),
        IdempotencyKey.key == bindparam("key"),
    )
)


class IdempotencyRepository(Repository):
    """Keys by caller and route: the same key elsewhere is another key."""

    def find(self, api_key_id: str, route: str, key: str) -> IdempotencyKey | None:
        """What this caller's earlier request with the key came to; compare its `body_hash`."""
        return _TAKEN.one(self.session, api_key_id=api_key_id, route=route, key=key)

    def add(
        self,
        *,
        project_id: str,
        api_key_id: str,
        route: str,
        key: str,
        body_hash: str,
        resource_id: str | None = None,
        status_code: int | None = None,
        response: Mapping[str, Any] | None = None,
    ) -> bool:
        """Takes the key with the transaction that it stands for; False where it is taken.

        Called first in that transaction it makes a second, simultaneous request wait and then see
        False, so that the work is done once.
        """
        return self._insert_absent(
            IdempotencyKey,
            {
                "project_id": project_id,
                "api_key_id": api_key_id,
                "route": route,
                "key": key,
                "body_hash": body_hash,
                "resource_id": resource_id,
                "status_code": status_code,
                "response": None if response is None else dict(response),
                "created_at": utc_now(),
            },
        )

    def forget(self, older_than: timedelta, *, limit: int) -> int:
        """Deletes keys that old: the same request is a new one then. Returns how many."""
        columns = (IdempotencyKey.api_key_id, IdempotencyKey.route, IdempotencyKey.key)
        old = (
            select(*columns)
            .where(IdempotencyKey.created_at < seconds_from_now(-older_than.total_seconds()))
            .limit(limit)
        )
        return self._execute(delete(IdempotencyKey).where(tuple_(*columns).in_(old)))
