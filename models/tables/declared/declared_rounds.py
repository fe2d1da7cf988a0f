"""Declared rounds, and what was reserved before them."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from models.arrays import Packed, PackedArray
from models.tables.base import Base, Identifier, Word


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
