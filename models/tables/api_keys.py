"""API keys: who may call, and what for."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, String, Text
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
    previous_hash: Mapped[str | None] = mapped_column(String(64), unique=True)
    """Of the secret that was replaced last; it opens until `previous_until`."""
    previous_until: Mapped[datetime | None]
    rotated_at: Mapped[datetime | None]
    """When the secret was replaced last."""
    scopes: Mapped[list[Any]]
    person: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """Whom it belongs to, by whoever made it; never changed. Null for a key that names nobody."""
    created_at: Mapped[datetime]
    created_by: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The actor who made it over HTTP; null for one that was made on the database itself."""
    revoked_at: Mapped[datetime | None]
