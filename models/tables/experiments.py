"""Experiments, the units of work that run them, sweeps, and reports with what is stated, attacked
and audited beside them."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, ExperimentRow, Identifier, ProjectRow, Word
from models.values import AuditStatus, LaterAttacksStatus, UnitKind


class Experiment(ProjectRow):
    """One run of one spec. The final figures are null until it has ended."""

    __tablename__ = "experiments"
    __table_args__ = (
        CheckConstraint(
            "status IN ('queued', 'running', 'cancelling', 'cancelled', 'succeeded', 'failed')",
            name="status",
        ),
        Index("ix_experiments_project_id_id", "project_id", "id"),
        Index("ix_experiments_project_id_status", "project_id", "status"),
    )

    name: Mapped[str]
    status: Mapped[str] = mapped_column(Word)
    status_reason: Mapped[str | None] = mapped_column(Word)
    status_detail: Mapped[str | None]
    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), index=True)
    subject_set_id: Mapped[str] = mapped_column(ForeignKey("subject_sets.id"))
    unit_id: Mapped[str] = mapped_column(ForeignKey("units.id"), index=True)
    unit_position: Mapped[int]
    retry_of: Mapped[str | None] = mapped_column(Identifier)

    spec: Mapped[dict[str, Any]]
    spec_hash: Mapped[str] = mapped_column(String(64))
    seed: Mapped[int] = mapped_column(BigInteger)
    mechanism: Mapped[str] = mapped_column(Word)
    hypotheses: Mapped[int]
    noise: Mapped[str] = mapped_column(Word)
    parameters: Mapped[int] = mapped_column(BigInteger)
    """n, the number of the model's parameters."""
    noise_multiplier: Mapped[float | None]
    """Noise multiplier of metric privacy."""
    mechanism_inputs: Mapped[dict[str, Any] | None]
    """What each ledger row states of a mechanism with an epsilon and a delta, so that it can be
    written without the data; else null."""
    attributes: Mapped[dict[str, Any]]
    """Sensitive attribute -> its groups, in the order of the fairness counts."""
    withheld_attributes: Mapped[list[Any] | None]
    """Those withheld as too near to earlier disclosures; null before the decision."""

    ledger_salt: Mapped[bytes | None]
    """32 random bytes that key the digests of its ledger (`fedaudit.ledger.encoding`). Null under
    simulated noise, in old rows, and after its clients' names were erased."""
    disclosure: Mapped[dict[str, Any] | None]
    """The policy of its federation when it was admitted; null where there was none."""

    rounds_total: Mapped[int]
    rounds_done: Mapped[int]
    event_sequence: Mapped[int]
    """The number of the last event. Writers raise it first, and so wait for each other."""
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None] = mapped_column(index=True)
    cancel_requested_at: Mapped[datetime | None]
    created_by: Mapped[dict[str, Any] | None]
    """Who submitted or retried it: key and person at the time; null in old rows, as
    `cancelled_by`."""
    cancelled_by: Mapped[dict[str, Any] | None]

    gate_outcome: Mapped[str | None] = mapped_column(Word)
    leakage_max: Mapped[float | None]
    leakage_median: Mapped[float | None]
    log_ratio_max: Mapped[float | None]
    epsilon_max: Mapped[float | None]
    delta: Mapped[float | None]
    validation_loss: Mapped[float | None]
    accuracy: Mapped[float | None]
    demographic_parity_difference: Mapped[float | None]
    equalized_odds_difference: Mapped[float | None]
    equal_opportunity_difference: Mapped[float | None]
    alarms: Mapped[int | None]
    """Attacks that raised an alarm, later ones included; null if none was asked for."""
    answer: Mapped[dict[str, Any] | None]
    """Whether its model may be released, and reasons by their codes; null without a report."""


class ExperimentTag(ExperimentRow):
    """A label that the caller gave an experiment."""

    __tablename__ = "experiment_tags"
    __table_args__ = (Index("ix_experiment_tags_project_id_tag", "project_id", "tag"),)

    tag: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))


class Unit(ProjectRow):
    """What one worker does at a time: a `run` of one experiment or a stack of one shape, a
    `profile` of a federation, an `audit` of predictions, or `attacks` on an ended experiment."""

    __tablename__ = "units"
    __table_args__ = (
        CheckConstraint(
            "state IN ('waiting', 'leased', 'done', 'failed', 'cancelled')", name="state"
        ),
        Index("ix_units_state_available_at", "state", "available_at"),
        Index("ix_units_state_lease_until", "state", "lease_until"),
        Index("ix_units_stack_key_state", "stack_key", "state"),
    )

    kind: Mapped[UnitKind] = mapped_column(Word, server_default="run")
    state: Mapped[str] = mapped_column(Word)
    device: Mapped[str] = mapped_column(Word)
    lease_until: Mapped[datetime | None]
    fence: Mapped[int]
    """Rises at every claim; a writer that names an older one writes nothing."""
    attempts: Mapped[int]
    max_attempts: Mapped[int]
    lost_leases: Mapped[int] = mapped_column(server_default="0")
    worker: Mapped[str | None]
    stack_key: Mapped[str | None] = mapped_column(String(64))
    """What experiments share that can be trained together; null to run alone."""
    stack_size: Mapped[int] = mapped_column(server_default="1")
    """How many experiments fit together, at most."""
    available_at: Mapped[datetime]
    created_at: Mapped[datetime]
    published_at: Mapped[datetime | None]
    """When its message was last sent; null where it was not since the unit waits."""
    last_error: Mapped[str | None]


class SubjectSet(Base):
    """Subject keys in order: the ledger's index i means `names[i]`."""

    __tablename__ = "subject_sets"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    """SHA-256 of the names, so that experiments on the same clients share one row."""
    names: Mapped[list[Any]]


class Checkpoint(ExperimentRow):
    """The newest state of a run, overwritten at each flush; gone when the run has ended."""

    __tablename__ = "checkpoints"

    round: Mapped[int]
    data: Mapped[bytes]


class Event(ExperimentRow):
    """One event, `sequence` counting from 1 within its experiment."""

    __tablename__ = "events"

    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    type: Mapped[str] = mapped_column(Word)
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


class Sweep(ProjectRow):
    """Many experiments that were asked for, and reserved, as one."""

    __tablename__ = "sweeps"
    __table_args__ = (Index("ix_sweeps_project_id_id", "project_id", "id"),)

    name: Mapped[str]
    asked: Mapped[dict[str, Any]]
    """The body: base, grid, zip, repeats."""
    cells: Mapped[int]
    facts: Mapped[dict[str, Any]]
    """What is known beforehand of all cells: how costs are counted, and the guarantees."""
    created_at: Mapped[datetime]
    created_by: Mapped[dict[str, Any]]


class SweepCell(ExperimentRow):
    """One experiment of a sweep. A cell that was tried again has several."""

    __tablename__ = "sweep_cells"
    __table_args__ = (Index("ix_sweep_cells_sweep_id_position", "sweep_id", "position"),)

    sweep_id: Mapped[str] = mapped_column(ForeignKey("sweeps.id"))
    position: Mapped[int]
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    newest: Mapped[bool]
    """Whether it is the last try of its cell. What earlier ones spent counts all the same."""
    values: Mapped[dict[str, Any]]
    """Values that distinguish the cell, keyed by field."""


class Report(ExperimentRow):
    """The report of an experiment that has ended."""

    __tablename__ = "reports"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    document: Mapped[dict[str, Any]]
    report_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    model_layout: Mapped[dict[str, Any] | None]
    """Its model's inputs and outputs, confidential; null without a model, in old rows, and after
    erasure."""
    clients: Mapped[dict[str, Any] | None]
    """What each client paid and how it fares, by its index, confidential; null in old rows, and
    after erasure."""
    claims: Mapped[list[Any] | None]
    """What it claims, in Sigstore bundles; null in old rows."""


class ReportFigure(ExperimentRow):
    """One figure of one report. A null value has its reason."""

    __tablename__ = "report_figures"
    __table_args__ = (
        Index("ix_report_figures_project_id_figure_value", "project_id", "figure", "value"),
    )

    figure: Mapped[str] = mapped_column(Word, primary_key=True)
    attribute: Mapped[str] = mapped_column(primary_key=True)
    """The sensitive attribute; empty where the figure belongs to none."""
    observer: Mapped[str] = mapped_column(Word, primary_key=True)
    """Before whom an epsilon holds; empty for the largest of all, and for other figures."""
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    delta: Mapped[float | None]
    adjacency: Mapped[str | None] = mapped_column(Word)
    value: Mapped[float | None]
    reason: Mapped[str | None]
    """Why there is no value, or what the value leaves out."""


class ReportSummary(ExperimentRow):
    """A report's summary, apart from its large document. Kind, unit and summary are null if the
    document could not be read."""

    __tablename__ = "report_summaries"
    __table_args__ = (
        Index("ix_report_summaries_project_id_experiment_id", "project_id", "experiment_id"),
    )

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    report_hash: Mapped[str] = mapped_column(String(64))
    guarantee_kind: Mapped[str | None] = mapped_column(Word)
    """formal, heuristic or none."""
    in_force: Mapped[bool | None]
    """Whether the noise was secret, so that the guarantee is in force."""
    unit: Mapped[str | None] = mapped_column(Word)
    """Whose data the guarantee speaks of."""
    summary: Mapped[dict[str, Any] | None]
    """Verdict and guarantee."""


class SignOff(ExperimentRow):
    """One sign-off. Rows are only ever inserted; its signature comes once, afterwards."""

    __tablename__ = "sign_offs"
    __table_args__ = (Index("ix_sign_offs_signed_at", "signed_at", "created_at"),)

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    report_hash: Mapped[str] = mapped_column(String(64))
    decision: Mapped[str] = mapped_column(Word)
    statement: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    envelope: Mapped[dict[str, Any] | None]
    """The statement in its place of the chain, signed (DSSE); null until it is."""
    signed_at: Mapped[datetime | None]


class LaterAttacks(ProjectRow):
    """One request for attacks on an experiment with a report. What they found comes once, with
    their end, and nothing removes it."""

    __tablename__ = "later_attacks"
    __table_args__ = (
        UniqueConstraint("experiment_id", "number"),
        Index("ix_later_attacks_unit_id", "unit_id"),
    )

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"))
    number: Mapped[int]
    """Counts from 1 within the experiment."""
    status: Mapped[LaterAttacksStatus] = mapped_column(Word)
    status_reason: Mapped[str | None] = mapped_column(Word)
    """Why nothing was tried, or not everything, as a word."""
    status_detail: Mapped[str | None]
    """The same as a sentence. May quote the data."""
    asked: Mapped[list[Any]]
    """The attacks, with every default explicit."""
    report_hash: Mapped[str] = mapped_column(String(64))
    """Hash of the report that they are about."""
    ledger_hash: Mapped[str] = mapped_column(String(64))
    """Ledger hash of the run, which a repetition has to reproduce."""
    unit_id: Mapped[str] = mapped_column(ForeignKey("units.id"))
    created_by: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    cancelled_by: Mapped[dict[str, Any] | None]
    statement: Mapped[dict[str, Any] | None]
    """What was found; null until the end, and where nothing was tried."""
    envelope: Mapped[dict[str, Any] | None]
    """The statement in its place of the chain, signed (DSSE)."""
    alarms: Mapped[int | None]
    """How many of them raised an alarm; null where nothing was tried."""


class PredictionAudit(ProjectRow):
    """One audit. Its report comes once, with its end."""

    __tablename__ = "prediction_audits"
    __table_args__ = (
        Index("ix_prediction_audits_project_id", "project_id", "id"),
        Index("ix_prediction_audits_unit_id", "unit_id"),
        Index("ix_prediction_audits_fingerprint", "project_id", "fingerprint"),
    )

    name: Mapped[str]
    status: Mapped[AuditStatus] = mapped_column(Word)
    status_reason: Mapped[str | None] = mapped_column(Word)
    """Why it failed, as a word."""
    faults: Mapped[list[Any] | None]
    """Why it failed: {pointer, message}. May quote the data."""
    spec: Mapped[dict[str, Any]]
    """The spec, with every default explicit."""
    spec_hash: Mapped[str] = mapped_column(String(64))
    fingerprint: Mapped[str] = mapped_column(String(64))
    """Fingerprint of the data when the audit was admitted."""
    scored: Mapped[str]
    """Truth and score, by which audits of other thresholds are counted."""
    threshold: Mapped[float | None]
    unit_id: Mapped[str] = mapped_column(ForeignKey("units.id"))
    withheld: Mapped[list[Any] | None]
    """Attributes withheld because of earlier reports; null before the decision."""
    report: Mapped[dict[str, Any] | None]
    report_hash: Mapped[str | None] = mapped_column(String(64))
    gate_outcome: Mapped[str | None] = mapped_column(Word)
    created_by: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class DisclosureMemory(Base):
    """Data of which something was disclosed by any project: a file by fingerprint, or rows of any
    file by their first anchor. Writers lock this row, so that simultaneous runs see each other."""

    __tablename__ = "disclosure_memories"

    fingerprint: Mapped[str] = mapped_column(String(64), primary_key=True)
    profile_cuts: Mapped[dict[str, Any]]
    """How profiles cut each attribute and judged its rows, keyed by attribute."""


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
    """What numbers the rows: only sets of one numbering can be compared."""
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    """Equal sets are stored once."""
    favourable_digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    bits: Mapped[bytes]
    favourable_bits: Mapped[bytes]
    """Those of the rows whose true outcome was favourable."""
    disclosed_at: Mapped[datetime]
