"""Experiments: what was asked for, where it stands, and the figures it is found by."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
)
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word


class Experiment(Base):
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

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(Word)
    status_reason: Mapped[str | None] = mapped_column(Word)
    status_detail: Mapped[str | None] = mapped_column(Text)
    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), index=True)
    subject_set_id: Mapped[str] = mapped_column(ForeignKey("subject_sets.id"))
    unit_id: Mapped[str] = mapped_column(ForeignKey("units.id"), index=True)
    unit_position: Mapped[int] = mapped_column(Integer)
    retry_of: Mapped[str | None] = mapped_column(Identifier)

    spec: Mapped[dict[str, Any]]
    spec_hash: Mapped[str] = mapped_column(String(64))
    seed: Mapped[int] = mapped_column(BigInteger)
    mechanism: Mapped[str] = mapped_column(Word)
    hypotheses: Mapped[int] = mapped_column(Integer)
    noise: Mapped[str] = mapped_column(Word)
    parameters: Mapped[int] = mapped_column(BigInteger)
    """n, the number of the model's parameters."""
    noise_multiplier: Mapped[float | None] = mapped_column(Double)
    """Of metric privacy."""
    mechanism_inputs: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What every ledger row has to say of a mechanism with an epsilon and a delta, so that it can
    be written without the data; null for the others."""
    attributes: Mapped[dict[str, Any]]
    """Sensitive attribute -> its groups, in the order of the fairness counts."""
    withheld_attributes: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    """Those that are too near to what earlier reports disclosed; null before a worker decided."""

    ledger_salt: Mapped[bytes | None] = mapped_column(LargeBinary)
    """32 random bytes that the digests of its ledger are keyed with (`fedaudit.ledger.chain`). Null
    where noise is simulated, before there were any, and after its clients' names were erased."""
    disclosure: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The policy of its federation when it was admitted; null where there was none."""

    rounds_total: Mapped[int] = mapped_column(Integer)
    rounds_done: Mapped[int] = mapped_column(Integer)
    event_sequence: Mapped[int] = mapped_column(Integer)
    """The number of the last event; whoever appends one raises it first, and so waits its turn."""
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None] = mapped_column(index=True)
    cancel_requested_at: Mapped[datetime | None]
    created_by: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """Who submitted it, also as a retry: key and person, as they were then. Null where that was
    before anybody was recorded, as with `cancelled_by`."""
    cancelled_by: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))

    gate_outcome: Mapped[str | None] = mapped_column(Word)
    leakage_max: Mapped[float | None] = mapped_column(Double)
    leakage_median: Mapped[float | None] = mapped_column(Double)
    log_ratio_max: Mapped[float | None] = mapped_column(Double)
    epsilon_max: Mapped[float | None] = mapped_column(Double)
    delta: Mapped[float | None] = mapped_column(Double)
    validation_loss: Mapped[float | None] = mapped_column(Double)
    accuracy: Mapped[float | None] = mapped_column(Double)
    demographic_parity_difference: Mapped[float | None] = mapped_column(Double)
    equalized_odds_difference: Mapped[float | None] = mapped_column(Double)
    equal_opportunity_difference: Mapped[float | None] = mapped_column(Double)
    alarms: Mapped[int | None] = mapped_column(Integer)
    """How many attacks raised an alarm, later ones included; null where none was asked for."""


class ExperimentTag(Base):
    """A label that the caller gave an experiment."""

    __tablename__ = "experiment_tags"
    __table_args__ = (Index("ix_experiment_tags_project_id_tag", "project_id", "tag"),)

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    tag: Mapped[str] = mapped_column(Text, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
