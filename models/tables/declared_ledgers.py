"""Ledgers of trainings that run elsewhere: their terms, and the state of each."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
)
from sqlalchemy.orm import Mapped, mapped_column

from models.arrays import Packed, PackedArray
from models.tables.base import Base, Identifier, Word
from models.tables.ledger import PackedEntry


class DeclaredLedger(Base):
    """One ledger. Its terms never change; the rest moves on with every round."""

    __tablename__ = "declared_ledgers"
    __table_args__ = (Index("ix_declared_ledgers_project_id_id", "project_id", "id"),)

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str] = mapped_column(Text)
    terms: Mapped[dict[str, Any]]
    terms_hash: Mapped[str] = mapped_column(String(64))
    federation_id: Mapped[str | None] = mapped_column(ForeignKey("federations.id"))
    created_at: Mapped[datetime]
    created_by: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))

    rounds: Mapped[int] = mapped_column(Integer)
    """How many were declared."""
    last_round: Mapped[int] = mapped_column(Integer)
    entries: Mapped[int] = mapped_column(Integer)
    head: Mapped[bytes] = mapped_column(LargeBinary)
    """The link of the newest entry."""
    secret: Mapped[bytes | None] = mapped_column(LargeBinary)
    """32 random bytes, the key of its rounds' declarations: nobody who is shown those may guess
    counts by trying. Null before the first."""
    names: Mapped[list[Any]]
    """The subjects by index; the first represents all."""
    releases: Mapped[Packed] = mapped_column(PackedArray("int32"))
    """[subjects]: the entries that charged each."""
    drawn_names: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    """Who was named in rounds that charge everyone: secret, and in no bundle. Null before any."""
    drawn_counts: Mapped[Packed | None] = mapped_column(PackedArray("int64"))
    """[drawn_names]: the rounds that named each."""
    epsilon_max: Mapped[float | None] = mapped_column(Double)
    """After the newest round, by Renyi orders; null where nothing bounds it or it is no epsilon."""
    leakage_max: Mapped[float | None] = mapped_column(Double)
    declared_at: Mapped[datetime | None]
    """When the newest round was."""
    signed_entries: Mapped[int] = mapped_column(Integer)
    """How many a signature covers; -1 before the first."""
    signed_at: Mapped[datetime | None]


class DeclaredEntry(PackedEntry, Base):
    """What a declared round charged. Rows are only ever inserted."""

    __tablename__ = "declared_entries"

    ledger_id: Mapped[str] = mapped_column(ForeignKey("declared_ledgers.id"), primary_key=True)
    round: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    release: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    subject_kind: Mapped[str] = mapped_column(Word, primary_key=True)
    observer: Mapped[str] = mapped_column(Word, primary_key=True)
    project_id: Mapped[str] = mapped_column(Identifier)
    declaration: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The keyed hash of what the round declared beside its entries, which the link holds; null in
    rounds that were declared before there was one."""


class DeclaredRoundRow(Base):
    """One round as it was declared, without the names of its participants."""

    __tablename__ = "declared_rounds"

    ledger_id: Mapped[str] = mapped_column(ForeignKey("declared_ledgers.id"), primary_key=True)
    round: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    project_id: Mapped[str] = mapped_column(Identifier)
    content_hash: Mapped[str] = mapped_column(String(64))
    """Of all that was declared, participants included: the same again changes nothing."""
    event: Mapped[dict[str, Any]]
    participants: Mapped[int] = mapped_column(Integer)
    failures: Mapped[int] = mapped_column(Integer)
    over_budget: Mapped[int] = mapped_column(Integer)
    """Clients whom it charged beyond their budgets."""
    reserved: Mapped[str] = mapped_column(Word)
    """`reserved`, `other` where it is not what was reserved, `refused` where it asked clients whom
    its reservation had refused, `none` without a reservation."""
    reservations: Mapped[str | None] = mapped_column(String(64))
    """The keyed hash of what was reserved behind the round before it, up to this one; null in
    rounds that were declared before the chain held it."""
    groups: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    drawn: Mapped[str | None] = mapped_column(String(64))
    """The keyed hash of who was drawn so far and how often, in the last round of a request that
    drew somebody in secret; null in others."""
    head: Mapped[str] = mapped_column(String(64))
    """The chain's after this round."""
    declared_at: Mapped[datetime]


class DeclaredTally(Base):
    """How often one distinct event was charged to each subject; overwritten with each round."""

    __tablename__ = "declared_tallies"

    ledger_id: Mapped[str] = mapped_column(ForeignKey("declared_ledgers.id"), primary_key=True)
    place: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    """In the order of first appearance."""
    project_id: Mapped[str] = mapped_column(Identifier)
    charge: Mapped[dict[str, Any]]
    rounds: Mapped[int] = mapped_column(Integer)
    counts: Mapped[Packed] = mapped_column(PackedArray("int64"))


class DeclaredReservation(Base):
    """What a round may spend that was not declared yet."""

    __tablename__ = "declared_reservations"

    ledger_id: Mapped[str] = mapped_column(ForeignKey("declared_ledgers.id"), primary_key=True)
    round: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    project_id: Mapped[str] = mapped_column(Identifier)
    event: Mapped[dict[str, Any]]
    admitted: Mapped[list[Any]]
    """Names."""
    refused: Mapped[int] = mapped_column(BigInteger)
    denied: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    """Names of those who were refused and not admitted since; null where that is not known, of
    earlier reservations."""
    replaced: Mapped[int] = mapped_column(Integer, server_default="0")
    """Open ones of the same round whose place it took without containing them."""
    state: Mapped[str] = mapped_column(Word)
    """`open`, `used` by a round, `released` by the trainer; `refused` where nobody was admitted and
    nothing is held."""
    reserved_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class DeclaredCheckpoint(Base):
    """How many entries a ledger had, signed. Rows are only ever inserted."""

    __tablename__ = "declared_checkpoints"

    ledger_id: Mapped[str] = mapped_column(ForeignKey("declared_ledgers.id"), primary_key=True)
    entries: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    project_id: Mapped[str] = mapped_column(Identifier)
    envelope: Mapped[dict[str, Any]]
    """DSSE."""
    created_at: Mapped[datetime]


class DeclaredReport(Base):
    """The newest signed report of a ledger; overwritten by that of later rounds."""

    __tablename__ = "declared_reports"

    ledger_id: Mapped[str] = mapped_column(ForeignKey("declared_ledgers.id"), primary_key=True)
    project_id: Mapped[str] = mapped_column(Identifier)
    entries: Mapped[int] = mapped_column(Integer)
    document: Mapped[dict[str, Any]]
    report_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
