"""The outbox, the sweeper's election, and webhooks."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Double, ForeignKey, Index, Integer, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word
from models.vocabulary import DeliveryState


class OutboxMessage(Base):
    """A message for the queue; it is sent at least once."""

    __tablename__ = "outbox"
    __table_args__ = (Index("ix_outbox_published_at_available_at", "published_at", "available_at"),)

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    topic: Mapped[str] = mapped_column(Word)
    payload: Mapped[dict[str, Any]]
    attempts: Mapped[int] = mapped_column(Integer)
    available_at: Mapped[datetime]
    created_at: Mapped[datetime]
    published_at: Mapped[datetime | None]


class SweeperLease(Base):
    """A named duty and who has it, until when."""

    __tablename__ = "sweeper_leases"

    name: Mapped[str] = mapped_column(Word, primary_key=True)
    holder: Mapped[str] = mapped_column(Text)
    lease_until: Mapped[datetime]


class WebhookEndpoint(Base):
    """One registered address with its secrets, which are encrypted."""

    __tablename__ = "webhook_endpoints"

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    url: Mapped[str] = mapped_column(Text)
    description: Mapped[str] = mapped_column(Text)
    events: Mapped[list[Any]]
    """The subscribed types (`WebhookEvent`)."""
    secret: Mapped[str] = mapped_column(Text)
    previous_secret: Mapped[str | None] = mapped_column(Text)
    previous_until: Mapped[datetime | None]
    """Until when the secret before signs too."""
    disabled_at: Mapped[datetime | None]
    """Null: enabled."""
    disabled_reason: Mapped[str | None] = mapped_column(Text)
    failing_since: Mapped[datetime | None]
    """The first failed attempt since the last that succeeded."""
    created_at: Mapped[datetime]
    created_by: Mapped[dict[str, Any]]
    updated_at: Mapped[datetime]
    updated_by: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The actor of the last change; null where the service itself made it."""


class WebhookDelivery(Base):
    """One event for one endpoint; it is sent at least once, always under the same message id."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index("ix_webhook_deliveries_state_available_at", "state", "available_at"),
        Index("ix_webhook_deliveries_endpoint_id_id", "endpoint_id", "id"),
        Index("ix_webhook_deliveries_created_at", "created_at"),
    )

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    endpoint_id: Mapped[str] = mapped_column(ForeignKey("webhook_endpoints.id"))
    project_id: Mapped[str] = mapped_column(Identifier)
    message_id: Mapped[str] = mapped_column(Word)
    """The header `webhook-id`: the same for all endpoints of the event."""
    type: Mapped[str] = mapped_column(Word)
    payload: Mapped[dict[str, Any]]
    state: Mapped[DeliveryState] = mapped_column(Word)
    attempts: Mapped[int] = mapped_column(Integer)
    """Rises with every claim, so that it is a fence as well."""
    retries: Mapped[int] = mapped_column(Integer)
    """How many pauses of the schedule have been used; from the start where it is sent again."""
    available_at: Mapped[datetime]
    lease_until: Mapped[datetime | None]
    attempted_at: Mapped[datetime | None]
    status_code: Mapped[int | None] = mapped_column(Integer)
    """Status of the last attempt; null if there was no response."""
    duration_seconds: Mapped[float | None] = mapped_column(Double)
    error: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
