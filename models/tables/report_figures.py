"""The figures of reports, by which they are found and sorted."""

from sqlalchemy import Double, ForeignKey, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Word


class ReportFigure(Base):
    """One figure of one report. A null value has its reason."""

    __tablename__ = "report_figures"
    __table_args__ = (
        Index("ix_report_figures_project_id_figure_value", "project_id", "figure", "value"),
    )

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    figure: Mapped[str] = mapped_column(Word, primary_key=True)
    attribute: Mapped[str] = mapped_column(Text, primary_key=True)
    """The sensitive attribute; empty where the figure belongs to none."""
    observer: Mapped[str] = mapped_column(Word, primary_key=True)
    """Before whom an epsilon holds; empty for the largest of all, and for other figures."""
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    delta: Mapped[float | None] = mapped_column(Double)
    adjacency: Mapped[str | None] = mapped_column(Word)
    value: Mapped[float | None] = mapped_column(Double)
    reason: Mapped[str | None] = mapped_column(Text)
    """Why there is no value, or what the value leaves out."""
