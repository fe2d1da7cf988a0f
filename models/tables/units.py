"""Units of work: what a worker claims, holds by a lease and writes under a fence."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, Integer, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word
from models.values import UnitKind


class Unit(Base):
    """What one worker does at a time.

    A `run` is one experiment, or a stack of experiments of one shape; a `profile` is a federation
    to be read and described.
    """

    __tablename__ = "units"
    __table_args__ = (
        CheckConstraint(
            "state IN ('waiting', 'leased', 'done', 'failed', 'cancelled')", name="state"
        ),
        Index("ix_units_state_available_at", "state", "available_at"),
        Index("ix_units_state_lease_until", "state", "lease_until"),
    )

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    kind: Mapped[UnitKind] = mapped_column(Word, server_default="run")
    state: Mapped[str] = mapped_column(Word)
    device: Mapped[str] = mapped_column(Word)
    lease_until: Mapped[datetime | None]
    fence: Mapped[int] = mapped_column(Integer)
    """Rises at every claim; a writer that names an older one writes nothing."""
    attempts: Mapped[int] = mapped_column(Integer)
    max_attempts: Mapped[int] = mapped_column(Integer)
    worker: Mapped[str | None] = mapped_column(Text)
    available_at: Mapped[datetime]
    created_at: Mapped[datetime]
    published_at: Mapped[datetime | None]
    last_error: Mapped[str | None] = mapped_column(Text)
