"""Audits of predictions: what was asked for, and the report."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Double, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word
from models.values import AuditStatus


class PredictionAudit(Base):
    """One audit. Its report comes once, with its end."""

    __tablename__ = "prediction_audits"
    __table_args__ = (
        Index("ix_prediction_audits_project_id", "project_id", "id"),
        Index("ix_prediction_audits_unit_id", "unit_id"),
        Index("ix_prediction_audits_fingerprint", "project_id", "fingerprint"),
    )

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str] = mapped_column(Text)
    status: Mapped[AuditStatus] = mapped_column(Word)
    status_reason: Mapped[str | None] = mapped_column(Word)
    """Why it failed, as a word."""
    faults: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    """Why it failed: {pointer, message}. May quote the data."""
    spec: Mapped[dict[str, Any]]
    """With every default explicit."""
    spec_hash: Mapped[str] = mapped_column(String(64))
    fingerprint: Mapped[str] = mapped_column(String(64))
    """Of the data when the audit was admitted."""
    scored: Mapped[str] = mapped_column(Text)
    """Truth and score, by which audits of other thresholds are counted."""
    threshold: Mapped[float | None] = mapped_column(Double)
    unit_id: Mapped[str] = mapped_column(ForeignKey("units.id"))
    withheld: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    """Attributes that nothing is said of, because of earlier reports; null until it is decided."""
    report: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    report_hash: Mapped[str | None] = mapped_column(String(64))
    gate_outcome: Mapped[str | None] = mapped_column(Word)
    created_by: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
