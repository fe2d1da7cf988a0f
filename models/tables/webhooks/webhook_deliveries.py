"""Events on their way to endpoints, and those that arrived or did not."""

from datetime import datetime
from typing import Any

from sqlalchemy import Double, ForeignKey, Index, Integer, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word
from models.webhook_events import DeliveryState


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
    """The header `webhook-id`: the same for every endpoint that is told of the event."""
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
    """Of the last attempt, as are the two below; null where nobody answered."""
    duration_seconds: Mapped[float | None] = mapped_column(Double)
    error: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
