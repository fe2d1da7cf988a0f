"""The ledger: what every subject spent, packed into one row a round.

A row holds its subjects as parallel arrays, because a row a subject costs a hundred times the
rows. The view `privacy_ledger` (made by the migrations) unpacks them for people.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Text,
)
from sqlalchemy.orm import Mapped, mapped_column

from models.arrays import Packed, PackedArray
from models.tables.base import Base, Identifier, Word


class PackedEntry:
    """The columns of an entry: its subjects as parallel arrays, its inputs, digest and link."""

    subjects: Mapped[Packed] = mapped_column(PackedArray("int32"))
    outcomes: Mapped[Packed] = mapped_column(PackedArray("int16"))
    """0 released, 1 refused, 2 withheld."""
    radii: Mapped[Packed] = mapped_column(PackedArray("float64"))
    """NaN if nothing was released. With components, a subject's are adjacent."""
    releases: Mapped[Packed] = mapped_column(PackedArray("int32"))
    """Each subject's releases up to and including this round: totals need no window."""
    clusters: Mapped[Packed] = mapped_column(PackedArray("int16"))
    epsilons: Mapped[Packed | None] = mapped_column(PackedArray("float64"))
    """Each subject's spending up to this round, at `delta`; null for metric privacy, whose epsilon
    follows from the radius."""

    mechanism: Mapped[str] = mapped_column(Word)
    n: Mapped[int] = mapped_column(BigInteger)
    noise_multiplier: Mapped[float | None] = mapped_column(Double)
    radius: Mapped[float | None] = mapped_column(Double)
    """The public radius; null where it is adaptive."""
    radius_floor: Mapped[float | None] = mapped_column(Double)
    clip: Mapped[float | None] = mapped_column(Double)
    noise: Mapped[str] = mapped_column(Word)
    guarantee: Mapped[str] = mapped_column(Word)
    event: Mapped[str | None] = mapped_column(Text)
    """What was composed, as canonical JSON; null for metric privacy, as are the next three."""
    delta: Mapped[float | None] = mapped_column(Double)
    adjacency: Mapped[str | None] = mapped_column(Word)
    accountant: Mapped[str | None] = mapped_column(Word)
    components: Mapped[list[dict[str, Any]] | None] = mapped_column(JSON(none_as_null=True))
    """Name and number of parameters of each part with its own radius; null if an upload is released
    as a whole."""

    digest: Mapped[bytes] = mapped_column(LargeBinary)
    link: Mapped[bytes] = mapped_column(LargeBinary)
    interrupted: Mapped[bool] = mapped_column(Boolean)


class Ledger(PackedEntry, Base):
    """One round of one release against one observer. Rows are only inserted. The primary key is the
    only index, since each costs at every round."""

    __tablename__ = "ledger"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    round: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    release: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    subject_kind: Mapped[str] = mapped_column(Word, primary_key=True)
    observer: Mapped[str] = mapped_column(Word, primary_key=True)
    project_id: Mapped[str] = mapped_column(Identifier)


class LedgerTotals(Base):
    """Each subject's running totals by index, overwritten at each flush; for several observers one
    block each, in the order of their names."""

    __tablename__ = "ledger_totals"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    project_id: Mapped[str] = mapped_column(Identifier)
    releases: Mapped[Packed] = mapped_column(PackedArray("int32"))
    refusals: Mapped[int] = mapped_column(BigInteger)
    withheld: Mapped[int] = mapped_column(BigInteger)


class ReleaseIntent(Base):
    """Whom a release was about to charge, committed before its noise was drawn. An intent without a
    ledger row is a round lost in a crash: it stays spent."""

    __tablename__ = "release_intents"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    round: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    release: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    project_id: Mapped[str] = mapped_column(Identifier)
    subjects: Mapped[Packed] = mapped_column(PackedArray("int32"))
    created_at: Mapped[datetime]


class Round(Base):
    """One round's figures; a figure that is null may have its reason in `reasons`."""

    __tablename__ = "rounds"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    round: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    project_id: Mapped[str] = mapped_column(Identifier)
    selection_loss: Mapped[float | None] = mapped_column(Double)
    validation_loss: Mapped[float | None] = mapped_column(Double)
    accuracy: Mapped[float | None] = mapped_column(Double)
    cluster_sizes: Mapped[list[Any]]
    separation: Mapped[float | None] = mapped_column(Double)
    collapsed: Mapped[bool] = mapped_column(Boolean)
    leakage_median: Mapped[float | None] = mapped_column(Double)
    leakage_max: Mapped[float | None] = mapped_column(Double)
    epsilon_max: Mapped[float | None] = mapped_column(Double)
    demographic_parity_difference: Mapped[float | None] = mapped_column(Double)
    equalized_odds_difference: Mapped[float | None] = mapped_column(Double)
    equal_opportunity_difference: Mapped[float | None] = mapped_column(Double)
    leakage_by_cluster: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    reasons: Mapped[dict[str, Any]]


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


class SigningKey(Base):
    """The public half of a key that the service signs with, or has signed with."""

    __tablename__ = "signing_keys"

    key_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    algorithm: Mapped[str] = mapped_column(Word)
    public_key: Mapped[str] = mapped_column(Text)
    """PEM."""
    created_at: Mapped[datetime]
    """When the service first used it."""
    retired_at: Mapped[datetime | None]
    """When another key took its place; null while it is the key in use."""
    compromised_at: Mapped[datetime | None]
    """From when others may have the key, as the operator states; else null."""
    compromised_note: Mapped[str | None] = mapped_column(Text)


class LedgerCheckpoint(Base):
    """How many entries a ledger had, signed. Rows are only ever inserted."""

    __tablename__ = "ledger_checkpoints"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    entries: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    status: Mapped[str] = mapped_column(Word, primary_key=True)
    """That of the experiment when it was made: the end is signed apart."""
    project_id: Mapped[str] = mapped_column(Identifier)
    envelope: Mapped[dict[str, Any]]
    """DSSE."""
    created_at: Mapped[datetime]
