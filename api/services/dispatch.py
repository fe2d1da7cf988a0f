"""Queue units of work, once for each idempotency key, and publish them after the commit."""

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
from models.repositories import IdempotencyRepository, OutboxRepository, UnitRepository
from models.tables.accounts import IdempotencyKey
from models.values import StackPlace, UnitKind

log = structlog.get_logger()

Row = TypeVar("Row")


@dataclass(frozen=True)
class UnitMessage:
    """The message for the queue, to be published once the transaction is committed."""

    unit_id: str
    device: str
    message_id: str


def queue_unit(
    session: Session,
    project_id: str,
    *,
    kind: UnitKind,
    max_attempts: int,
    device: str = "auto",
    stack: StackPlace | None = None,
) -> UnitMessage:
    """A new unit and its message, in the caller's transaction; publish it afterwards."""
    unit = UnitRepository(session).create(
        project_id, device, kind=kind, max_attempts=max_attempts, stack=stack
    )
    message_id = OutboxRepository(session).add(project_id, unit.id, device)
    return UnitMessage(unit.id, device, message_id)


def dispatch(resources: Resources, *unit_messages: UnitMessage) -> None:
    """Publish the messages. Where the queue is unavailable, the sweeper publishes them later from
    the outbox."""
    published = list(_published(resources, unit_messages))
    if not published:
        return
    try:
        with resources.database.write() as session:
            # A unit that is just made counts as published since then.
            OutboxRepository(session).mark_published([one.message_id for one in published])
    except SQLAlchemyError as error:
        log.warning("left to the sweeper", units=len(published), error=type(error).__name__)


def _published(resources: Resources, unit_messages: Sequence[UnitMessage]) -> Iterator[UnitMessage]:
    """The messages that the queue took: none after the first that it refused."""
    from infrastructure.queue import QueueUnavailableError

    for one in unit_messages:
        try:
            resources.queue.publish_unit(one.unit_id, one.device)
        except QueueUnavailableError as error:
            log.warning("left to the sweeper", unit_id=one.unit_id, error=type(error).__name__)
            return
        yield one


@dataclass(frozen=True)
class Queued(Generic[Row]):
    """What was asked for, as it is now; `unit_message` where it was queued just now."""

    row: Row
    unit_message: UnitMessage | None
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
