"""Who changed what is set on federations, and the gates of policies."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word


class SettingChange(Base):
    """One change. Rows are only ever inserted, and outlive what they are about."""

    __tablename__ = "setting_changes"
    __table_args__ = (
        Index("ix_setting_changes_subject", "project_id", "subject_kind", "subject", "id"),
    )

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    subject_kind: Mapped[str] = mapped_column(Word)
    """`federation` or `gate-policy`."""
    subject: Mapped[str] = mapped_column(Text)
    """The federation's id, or the policy's name."""
    setting: Mapped[str] = mapped_column(Word)
    """Which of its settings."""
    value: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What was set; null where it was removed."""
    changed_by: Mapped[dict[str, Any]]
    """The actor: key and person, as they were then."""
    changed_at: Mapped[datetime]
