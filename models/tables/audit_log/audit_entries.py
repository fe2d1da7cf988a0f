"""Who did what in a project, each entry bound to the one before it."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.audit_chain import written_time
from models.tables.base import Base, Identifier, Word


class AuditEntry(Base):
    """One deed. Rows are only ever inserted, and outlive what they are about."""

    __tablename__ = "audit_entries"
    __table_args__ = (
        Index("ix_audit_entries_action", "project_id", "action", "number"),
        Index("ix_audit_entries_key_id", "project_id", "key_id", "number"),
    )

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    """From 1, without gaps."""
    at: Mapped[datetime]
    action: Mapped[str] = mapped_column(Word)
    subject: Mapped[str] = mapped_column(Text)
    """What it was done to: an id, or a policy's name."""
    origin: Mapped[str] = mapped_column(Word)
    key_id: Mapped[str | None] = mapped_column(Identifier)
    """Null where no key was used: by the sweeper, or on the database itself."""
    key_name: Mapped[str | None] = mapped_column(Text)
    person: Mapped[str | None] = mapped_column(Text)
    """As the key named them then; null for a key that names nobody."""
    details: Mapped[dict[str, Any]]
    """Ids, names and settings; never a secret, a spec or a value of a cell."""
    link: Mapped[str] = mapped_column(String(64))

    def content(self) -> dict[str, Any]:
        """All that its link covers, as it is hashed and shown."""
        names = ("number", "action", "subject", "origin", "key_id", "key_name", "person", "details")
        return {"at": written_time(self.at), **{name: getattr(self, name) for name in names}}


class AuditHead(Base):
    """How far a project's log reaches, and how far it is signed."""

    __tablename__ = "audit_heads"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    entries: Mapped[int] = mapped_column(Integer)
    link: Mapped[str] = mapped_column(String(64))
    """Of the newest entry."""
    signed_entries: Mapped[int] = mapped_column(Integer)
    envelope: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The newest signed head (DSSE); null until there is one."""
    signed_at: Mapped[datetime | None]
