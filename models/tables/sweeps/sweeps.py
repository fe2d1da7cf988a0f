"""Sweeps: what was asked for, and which experiments they are."""

from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, ForeignKey, Index, Integer, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier


class Sweep(Base):
    """Many experiments that were asked for, and reserved, as one."""

    __tablename__ = "sweeps"
    __table_args__ = (Index("ix_sweeps_project_id_id", "project_id", "id"),)

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str] = mapped_column(Text)
    asked: Mapped[dict[str, Any]]
    """The body: base, grid, zip, repeats."""
    cells: Mapped[int] = mapped_column(Integer)
    facts: Mapped[dict[str, Any]]
    """Of all cells, known before they ran: how their costs are counted, and what guarantees are
    worth."""
    created_at: Mapped[datetime]
    created_by: Mapped[dict[str, Any]]


class SweepCell(Base):
    """One experiment of a sweep. A cell that was tried again has several."""

    __tablename__ = "sweep_cells"
    __table_args__ = (Index("ix_sweep_cells_sweep_id_position", "sweep_id", "position"),)

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    sweep_id: Mapped[str] = mapped_column(ForeignKey("sweeps.id"))
    position: Mapped[int] = mapped_column(Integer)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    newest: Mapped[bool] = mapped_column(Boolean)
    """Whether it is the last try of its cell. What earlier ones spent counts all the same."""
    values: Mapped[dict[str, Any]]
    """By field, what distinguishes the cell."""
