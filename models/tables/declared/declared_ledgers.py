"""Ledgers of trainings that run elsewhere: their terms, and where each stands."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Double, ForeignKey, Index, Integer, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.arrays import Packed, PackedArray
from models.tables.base import Base, Identifier


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
    """The subjects by index; the first stands for all."""
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
