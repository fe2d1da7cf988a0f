"""Dispatching units: a unit and its message are stored in one transaction, then published."""

from dataclasses import dataclass

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from api.shared.resources import Resources
from infrastructure.tracing import current_traceparent
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
    payload = {"unit_id": unit.id, "device": unit.device}
    message_id = OutboxRepository(session).add(project_id, UNIT_TOPIC, payload)
    return UnitMessage(unit.id, unit.device, message_id)


def dispatch(resources: Resources, unit_message: UnitMessage) -> None:
    """Publish the message. If the queue is unavailable, the sweeper does so later from the
    outbox."""
    from infrastructure.queue import QueueUnavailableError

    try:
        resources.queue.publish_unit(unit_message.unit_id, unit_message.device)
        with resources.database.write() as session:
            OutboxRepository(session).mark_published([unit_message.message_id])
            UnitRepository(session).mark_published([unit_message.unit_id])
    except (QueueUnavailableError, SQLAlchemyError) as error:
        log.warning("left to the sweeper", unit_id=unit_message.unit_id, error=type(error).__name__)
