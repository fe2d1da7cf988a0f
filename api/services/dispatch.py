"""Publish queued units after their commit, and repeat no request of an idempotency key."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.shared.resources import Resources
from api.shared.security import Caller
from models.repositories import IdempotencyRepository, UnitRepository
from models.tables.accounts import IdempotencyKey
from models.tables.experiments import Unit

log = structlog.get_logger()

Row = TypeVar("Row")


def dispatch(resources: Resources, *units: Unit) -> None:
    """Publish units that were queued, once they are committed. What the queue does not take, the
    sweeper publishes later: a unit is its message until it is marked as published."""
    published = list(_published(resources, units))
    if not published:
        return
    try:
        with resources.database.write() as session:
            UnitRepository(session).mark_published(published)
    except SQLAlchemyError as error:
        log.warning("left to the sweeper", units=len(published), error=type(error).__name__)


def _published(resources: Resources, units: Sequence[Unit]) -> Iterator[str]:
    """The ids of those that the queue took: none after the first that it refused."""
    from infrastructure.queue import QueueUnavailableError

    for one in units:
        try:
            resources.queue.publish_unit(one.id, one.device)
        except QueueUnavailableError as error:
            log.warning("left to the sweeper", unit_id=one.id, error=type(error).__name__)
            return
        yield one.id


@dataclass(frozen=True)
class Queued(Generic[Row]):
    """What was asked for, as it is now; `unit` where it was queued just now."""

    row: Row
    unit: Unit | None
    replaced: str | None = None
    """The name under which it was there before, where another took its place."""


@dataclass(frozen=True)
class IdempotentRequest:
    """A caller's Idempotency-Key for a request: a repeated one gets the result of the first."""

    key: str
    route: str
    body_hash: str

    @classmethod
    def of(cls, key: str | None, route: str, value: Any) -> "IdempotentRequest | None":
        """The key for a body's JSON value; bodies that differ only in layout are the same."""
        if key is None:
            return None
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        return cls(key, route, hashlib.sha256(text.encode()).hexdigest())

    def lookup(self, session: Session, caller: Caller) -> IdempotencyKey | None:
        """The result of the same request made earlier; None where it is the first with its key.
        Raises ProblemError where the key was sent with another body."""
        found = IdempotencyRepository(session).find(caller.key_id, self.route, self.key)
        if found is not None and found.body_hash != self.body_hash:
            raise ProblemError(
                409,
                "idempotency-mismatch",
                "this Idempotency-Key was sent before with another body; use a new key for a new "
                "request",
            )
        return found

    def claim(self, session: Session, caller: Caller, resource_id: str) -> bool:
        """Claim the key in the caller's transaction; False where it is already claimed. A second,
        simultaneous request waits here for the first one."""
        return IdempotencyRepository(session).add(
            project_id=caller.project_id,
            api_key_id=caller.key_id,
            route=self.route,
            key=self.key,
            body_hash=self.body_hash,
            resource_id=resource_id,
        )


def earlier_result(
    session: Session, caller: Caller, idempotency: IdempotentRequest | None
) -> str | None:
    """The id that the same request came to before; None for the first, and without a key. Raises
    ProblemError where the key was sent with another body."""
    found = None if idempotency is None else idempotency.lookup(session, caller)
    return None if found is None else str(found.resource_id)


def claimed_before(
    session: Session, caller: Caller, idempotency: IdempotentRequest | None, resource_id: str
) -> str | None:
    """Claim the key for a new resource; the id of an equal request that was first at the same time.
    Raises ProblemError where that one had another body."""
    if idempotency is None or idempotency.claim(session, caller, resource_id):
        return None
    return earlier_result(session, caller, idempotency)
