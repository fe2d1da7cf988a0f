"""What binds ledgers to whoever signed them: public keys, and signed checkpoints."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word


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
    """From when on somebody else may have signed with it, by whoever runs the service; null for a
    key of which nobody said so."""
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
