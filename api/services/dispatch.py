"""Publish queued units after their commit, and repeat no request of an idempotency key."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar

import structlog
from fastapi import BackgroundTasks, Depends, Request, Response
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from api.http.bodies import JsonBody
from api.http.problems import ProblemError
from api.schemas.base import IdempotencyHeader
from api.shared.resources import Resources
from api.shared.security import Call, Caller, ExperimentsWriter
from models.repositories import IdempotencyRepository, UnitRepository
from models.tables.experiments import Unit

log = structlog.get_logger()

Row = TypeVar("Row")


def dispatch(resources: Resources, *units: Unit) -> None:
    """Publish units that were created as published, once they are committed. The sweeper publishes
    those that the queue does not take, and later those that the end of this process prevented."""
    if not units:
        return
    from infrastructure.queue import QueueUnavailableError

    waiting = [one.id for one in units]
    try:
        for one in units:
            resources.queue.publish_unit(one.id, one.device)
            waiting.pop(0)
    except QueueUnavailableError as error:
        log.warning("left to the sweeper", unit_id=waiting[0], error=type(error).__name__)
        try:
            with resources.database.write() as session:
                UnitRepository(session).mark_published(waiting, published=False)
        except SQLAlchemyError as away:
            log.warning("left to the sweeper", units=len(waiting), error=type(away).__name__)


@dataclass(frozen=True)
class Queued(Generic[Row]):
    """What was asked for, as it is now."""

    row: Row
    units: Sequence[Unit] = ()
    """Those that were queued just now."""
    warnings: list[str] = field(default_factory=list)
    replaced: str | None = None
    """The name under which it was there before, where another took its place."""


@dataclass(frozen=True)
class Acceptance:
    """The answer of a route that queues work."""

    background: BackgroundTasks
    response: Response

    def of(self, call: Call, queued: Queued[Row], address: str) -> Row:
        """What was queued, whose address the answer names. Its units are dispatched after the
        answer: a broker that is away must not keep the caller waiting."""
        self.background.add_task(dispatch, call.resources, *queued.units)
        self.response.headers["Location"] = address
        return queued.row


async def _acceptance(background: BackgroundTasks, response: Response) -> Acceptance:
    return Acceptance(background, response)


Accepting = Annotated[Acceptance, Depends(_acceptance)]


@dataclass(frozen=True)
class IdempotentRequest:
    """A request with a caller's Idempotency-Key: a repeated one gets the result of the first."""

    key: str | None
    """None without one: each such request is the first."""
    route: str
    body_hash: str

    @classmethod
    def of(cls, key: str | None, route: str, value: Any) -> "IdempotentRequest":
        """The key for a body's JSON value; bodies that differ only in layout are the same."""
        text = "" if key is None else json.dumps(value, sort_keys=True, separators=(",", ":"))
        return cls(key, route, hashlib.sha256(text.encode()).hexdigest())

    def earlier(self, session: Session, caller: Caller) -> str | None:
        """The id that the same request came to before; None for the first. Raises ProblemError
        where the key was sent with another body."""
        if self.key is None:
            return None
        found = IdempotencyRepository(session).find(caller.key_id, self.route, self.key)
        if found is not None and found.body_hash != self.body_hash:
            raise ProblemError(
                "idempotency-mismatch",
                "this Idempotency-Key was sent before with another body; use a new key for a new "
                "request",
            )
        return None if found is None else str(found.resource_id)

    def before(self, call: Call, find: Callable[[Session, Caller, str], Row]) -> Queued[Row] | None:
        """What the same request came to before, as `find` finds it now; else as `earlier`."""
        if self.key is None:
            return None
        with call.resources.database.autocommit_read() as session:
            id_ = self.earlier(session, call.caller)
        return None if id_ is None else Queued(call.find(find, id_))

    def claim(self, session: Session, caller: Caller, resource_id: str) -> bool:
        """Claim the key in the caller's transaction; False where it is already claimed. A second,
        simultaneous request waits here for the first one."""
        return self.key is None or IdempotencyRepository(session).add(
            project_id=caller.project_id,
            api_key_id=caller.key_id,
            route=self.route,
            key=self.key,
            body_hash=self.body_hash,
            resource_id=resource_id,
        )

    def claimed_before(self, session: Session, caller: Caller, resource_id: str) -> str | None:
        """Claim the key for a new resource; the id of an equal request that was first at the same
        time. Raises ProblemError where that one had another body."""
        is_first = self.claim(session, caller, resource_id)
        return None if is_first else self.earlier(session, caller)


async def _of_body(
    request: Request, value: JsonBody, idempotency_key: IdempotencyHeader = None
) -> IdempotentRequest:
    return IdempotentRequest.of(idempotency_key, f"{request.method} {request.url.path}", value)


Idempotent = Annotated[IdempotentRequest, Depends(_of_body)]


@dataclass(frozen=True)
class Submission(Call):
    """A call that asks for work, under a key, and its answer; `value`: its body, if it has one."""

    value: Any
    idempotency: IdempotentRequest
    accepting: Acceptance


async def _submission(
    call: ExperimentsWriter, value: JsonBody, idempotency: Idempotent, accepting: Accepting
) -> Submission:
    return Submission(**vars(call), value=value, idempotency=idempotency, accepting=accepting)


async def _repetition(
    request: Request,
    call: ExperimentsWriter,
    accepting: Accepting,
    idempotency_key: IdempotencyHeader = None,
) -> Submission:
    again = await _of_body(request, None, idempotency_key)
    return Submission(**vars(call), value=None, idempotency=again, accepting=accepting)


Submitting = Annotated[Submission, Depends(_submission)]
Repeating = Annotated[Submission, Depends(_repetition)]
"""Of a route without a body."""
