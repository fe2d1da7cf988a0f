"""What lists show of reports."""

from typing import Any

from sqlalchemy import JSON, Boolean, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Word


class ReportSummary(Base):
    """One report in short; apart from its document, whose size would slow every list down.

    Kind, unit and summary are null where the document could not be read.
    """

    __tablename__ = "report_summaries"
    __table_args__ = (
        Index("ix_report_summaries_project_id_experiment_id", "project_id", "experiment_id"),
    )

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    report_hash: Mapped[str] = mapped_column(String(64))
    guarantee_kind: Mapped[str | None] = mapped_column(Word)
    """formal, heuristic or none."""
    in_force: Mapped[bool | None] = mapped_column(Boolean)
    """Whether the noise was secret, so that the guarantee protects somebody."""
    unit: Mapped[str | None] = mapped_column(Word)
    """Whose data the guarantee speaks of."""
    summary: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """Verdict and guarantee."""
