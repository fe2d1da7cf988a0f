"""Reports and what is stated, attacked and audited beside them."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word
from models.values import AuditStatus, LaterAttacksStatus


class Report(Base):
    """The report of an experiment that has ended."""

    __tablename__ = "reports"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    document: Mapped[dict[str, Any]]
    report_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    model_layout: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """Its model's inputs and outputs, confidential; null without a model, in old rows, and after
    erasure."""
    clients: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What each client paid and how it fares, by its index, confidential; null in old rows, and
    after erasure."""


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


class ReportSummary(Base):
    """A report's summary, apart from its large document. Kind, unit and summary are null if the
    document could not be read."""

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
    """Whether the noise was secret, so that the guarantee is in force."""
    unit: Mapped[str | None] = mapped_column(Word)
    """Whose data the guarantee speaks of."""
    summary: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """Verdict and guarantee."""


class SignOff(Base):
    """One sign-off. Rows are only ever inserted; its signature comes once, afterwards."""

    __tablename__ = "sign_offs"
    __table_args__ = (Index("ix_sign_offs_signed_at", "signed_at", "created_at"),)

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    report_hash: Mapped[str] = mapped_column(String(64))
    decision: Mapped[str] = mapped_column(Word)
    statement: Mapped[dict[str, Any]]
    """All that was stated."""
    created_at: Mapped[datetime]
    envelope: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The statement in its place of the chain, signed (DSSE); null until it is."""
    signed_at: Mapped[datetime | None]


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
    """Attributes withheld because of earlier reports; null before the decision."""
    report: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    report_hash: Mapped[str | None] = mapped_column(String(64))
    gate_outcome: Mapped[str | None] = mapped_column(Word)
    created_by: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class DisclosureMemory(Base):
    """Data of which something was disclosed by any project: a file by fingerprint, or rows of any
    file by their first anchor. Writers lock this row, so that simultaneous runs see each other."""

    __tablename__ = "disclosure_memories"

    fingerprint: Mapped[str] = mapped_column(String(64), primary_key=True)
    profile_cuts: Mapped[dict[str, Any]]
    """By attribute, how profiles cut it and judged its rows."""


class DisclosureAnchor(Base):
    """A key of one of the rows of a memory that is no file's: data with that row are compared with
    it. Keyed by a secret of the service."""

    __tablename__ = "disclosure_anchors"

    anchor: Mapped[str] = mapped_column(String(16), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(
        ForeignKey("disclosure_memories.fingerprint"), primary_key=True
    )


class DisclosedSet(Base):
    """Rows whose figures some report discloses together. Confidential."""

    __tablename__ = "disclosed_sets"

    fingerprint: Mapped[str] = mapped_column(
        ForeignKey("disclosure_memories.fingerprint"), primary_key=True
    )
    numbering: Mapped[str] = mapped_column(String(64), primary_key=True)
    """By what rows are numbered: only sets of one numbering can be compared."""
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    """Equal sets are stored once."""
    favourable_digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    bits: Mapped[bytes] = mapped_column(LargeBinary)
    favourable_bits: Mapped[bytes] = mapped_column(LargeBinary)
    """Those of the rows whose true outcome was favourable."""
    disclosed_at: Mapped[datetime]
