"""Fairness figures and counts of each round and attribute."""

from typing import Any

from sqlalchemy import ForeignKey, Integer, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier


class Fairness(Base):
    """One attribute in one round. The counts are confidential; the figures are not."""

    __tablename__ = "fairness"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    round: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    attribute: Mapped[str] = mapped_column(Text, primary_key=True)
    project_id: Mapped[str] = mapped_column(Identifier)
    figures: Mapped[list[Any]]
    """Objects of metric, value and reason."""
    counts: Mapped[list[Any]]
    """Per group: true positives, false positives, true negatives, false negatives."""
