"""Named policies: gates that experiments are held against."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Word


class GatePolicy(Base):
    """A project's gates under a name."""

    __tablename__ = "gate_policies"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    name: Mapped[str] = mapped_column(Word, primary_key=True)
    description: Mapped[str] = mapped_column(Text)
    gates: Mapped[list[Any]]
    """With every default explicit."""
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    created_by: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    updated_by: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """Whose gates these are; null where that was before anybody was recorded."""
