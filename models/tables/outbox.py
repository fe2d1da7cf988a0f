"""The outbox: messages that are sent after the transaction that caused them."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, Integer
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word


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
