"""API keys: who may call, and what for."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier


class ApiKey(Base):
    """A key of one project. The key itself is never stored, only its SHA-256."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    name: Mapped[str] = mapped_column(Text)
    prefix: Mapped[str] = mapped_column(String(16))
    """The key's first characters, to distinguish keys in a list."""
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[list[Any]]
    created_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
