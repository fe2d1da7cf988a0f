"""Events of an experiment, numbered without gaps so that a reader can take up where it left."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Integer
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word


class Event(Base):
    """One event, `sequence` counting from 1 within its experiment."""

    __tablename__ = "events"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    sequence: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    project_id: Mapped[str] = mapped_column(Identifier)
    type: Mapped[str] = mapped_column(Word)
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
