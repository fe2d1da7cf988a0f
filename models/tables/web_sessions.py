"""Sessions of people who signed in at the pages with an API key."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base


class WebSession(Base):
    """One browser. The token in its cookie is never stored, only its SHA-256."""

    __tablename__ = "web_sessions"

    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    api_key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id"))
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    key_hash: Mapped[str | None] = mapped_column(String(64))
    """Of the secret that it was begun with, and ends with; null before that was recorded."""
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)
