"""Addresses that a project's events are sent to."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier


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
