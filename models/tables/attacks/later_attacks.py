"""Attacks that were asked for after a report was signed."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word
from models.values import LaterAttacksStatus


class LaterAttacks(Base):
    """One request for attacks on an experiment with a report. What they found comes once, with
    their end, and nothing removes it."""

    __tablename__ = "later_attacks"
    __table_args__ = (
        UniqueConstraint("experiment_id", "number"),
        Index("ix_later_attacks_unit_id", "unit_id"),
    )

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"))
    number: Mapped[int] = mapped_column(Integer)
    """From 1, within the experiment."""
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    status: Mapped[LaterAttacksStatus] = mapped_column(Word)
    status_reason: Mapped[str | None] = mapped_column(Word)
    """Why nothing was tried, or not everything, as a word."""
    status_detail: Mapped[str | None] = mapped_column(Text)
    """The same as a sentence. May quote the data."""
    asked: Mapped[list[Any]]
    """The attacks, with every default explicit."""
    report_hash: Mapped[str] = mapped_column(String(64))
    """Of the report that they are about."""
    ledger_hash: Mapped[str] = mapped_column(String(64))
    """Of the run, which has to come out again where it is repeated."""
    unit_id: Mapped[str] = mapped_column(ForeignKey("units.id"))
    created_by: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    cancelled_by: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    statement: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What was found; null until the end, and where nothing was tried."""
    envelope: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The statement in its place of the chain, signed (DSSE)."""
    alarms: Mapped[int | None] = mapped_column(Integer)
    """How many of them raised an alarm; null where nothing was tried."""
