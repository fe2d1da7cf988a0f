"""Units of work: what a worker claims, holds by a lease and writes under a fence."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word
from models.values import UnitKind


class Unit(Base):
    """What one worker does at a time.

    A `run` is one experiment, or a stack of experiments of one shape; a `profile` is a federation
    to be read and described, an `audit` one of predictions; `attacks` are on an experiment that has
    ended.
    """

    __tablename__ = "units"
    __table_args__ = (
        CheckConstraint(
            "state IN ('waiting', 'leased', 'done', 'failed', 'cancelled')", name="state"
        ),
        Index("ix_units_state_available_at", "state", "available_at"),
        Index("ix_units_state_lease_until", "state", "lease_until"),
        Index("ix_units_stack_key_state", "stack_key", "state"),
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
    lost_leases: Mapped[int] = mapped_column(Integer, server_default="0")
    """How often a worker's lease ran out, and the unit was taken from it."""
    worker: Mapped[str | None] = mapped_column(Text)
    stack_key: Mapped[str | None] = mapped_column(String(64))
    """What its experiments have in common with those that could be trained beside them; null where
    they are run by themselves."""
    stack_size: Mapped[int] = mapped_column(Integer, server_default="1")
    """How many experiments fit together, at most."""
    available_at: Mapped[datetime]
    created_at: Mapped[datetime]
    published_at: Mapped[datetime | None]
    last_error: Mapped[str | None] = mapped_column(Text)
    traceparent: Mapped[str | None] = mapped_column(Word)
    """The trace of the request that made it (W3C Trace Context); null where none was recorded."""
