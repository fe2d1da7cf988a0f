"""Reports, served as they were stored."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base


class Report(Base):
    """The report of an experiment that has ended."""

    __tablename__ = "reports"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    document: Mapped[dict[str, Any]]
    report_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    model_layout: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What goes into its model and comes out, confidential; null without a model, of earlier
    versions, and once its data were erased."""
