"""Dispatching units: a unit and its message are stored in one transaction, then published."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from api.shared.resources import Resources
from infrastructure.telemetry import current_traceparent
from models.repositories import OutboxRepository, UnitRepository
from models.values import StackPlace, UnitKind

log = structlog.get_logger()

UNIT_TOPIC = "unit"
"""The outbox topic under which the sweeper looks for units to publish."""


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
    device: str,
    max_attempts: int,
    stack: StackPlace | None = None,
) -> UnitMessage:
    """A new unit and its message, in the caller's transaction; publish it afterwards."""
    unit = UnitRepository(session).create(
        project_id,
        device,
        kind=kind,
        max_attempts=max_attempts,
        # The message carries no more than the id: whoever claims the unit finds its trace there.
        traceparent=current_traceparent(),
        stack=stack,
    )
    payload = {"unit_id": unit.id, "device": device}
    message_id = OutboxRepository(session).add(project_id, UNIT_TOPIC, payload)
    return UnitMessage(unit.id, device, message_id)


def dispatch(resources: Resources, *unit_messages: UnitMessage) -> None:
    """Publish the messages. Those for which the queue is unavailable are published later by the
    sweeper, from the outbox."""
    published = list(_published(resources, unit_messages))
    if not published:
        return
    try:
        with resources.database.write() as session:
            OutboxRepository(session).mark_published([one.message_id for one in published])
            UnitRepository(session).mark_published([one.unit_id for one in published])
    except SQLAlchemyError as error:
        log.warning("left to the sweeper", units=len(published), error=type(error).__name__)


async def dispatch_with_others(resources: Resources, unit_message: UnitMessage) -> None:
    """`dispatch`, together with others that are to be published at the same time."""

    def all_of(unit_messages: Sequence[UnitMessage]) -> list[None]:
        dispatch(resources, *unit_messages)
        return [None] * len(unit_messages)

    await resources.groups.run("dispatch", unit_message, all_of)


def _published(resources: Resources, unit_messages: Sequence[UnitMessage]) -> Iterator[UnitMessage]:
    """Those that the queue took: none after the first that it did not."""
    from infrastructure.queue import QueueUnavailableError

    for one in unit_messages:
        try:
            resources.queue.publish_unit(one.unit_id, one.device)
        except QueueUnavailableError as error:
            log.warning("left to the sweeper", unit_id=one.unit_id, error=type(error).__name__)
            return
        yield one
