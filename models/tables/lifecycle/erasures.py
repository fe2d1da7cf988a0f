"""Erasures of federations: what was asked for, what is still to be done, and the receipt."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier


class Erasure(Base):
    """One erasure. A federation that is registered anew may be erased again."""

    __tablename__ = "erasures"

    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    """From 1 within the federation."""
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    fingerprint: Mapped[str] = mapped_column(String(64))
    reference: Mapped[str | None] = mapped_column(Text)
    """What the caller calls the request, such as a file number."""
    requested_at: Mapped[datetime]
    requested_by: Mapped[dict[str, Any]]
    """The actor: key and person, as they were then."""
    removed: Mapped[dict[str, Any]]
    """How many of each thing were removed at once, by name."""
    files: Mapped[list[Any]]
    """Keys of the storage whose files are to be removed; empty once they are."""
    ledgers: Mapped[list[Any]]
    """Ids of the ledgers whose clients' names are to be removed, or were."""
    others: Mapped[int] = mapped_column(Integer)
    """Other projects of the service that hold the same content."""
    completed_at: Mapped[datetime | None] = mapped_column(index=True)
    """When all of it was done; null while the sweeper still works on it."""
    envelope: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The signed receipt (DSSE); null until it is done."""


class ErasedLedger(Base):
    """A ledger without its clients' names, and the signed statement that stands for them."""

    __tablename__ = "erased_ledgers"

    owner_id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    """The experiment, or the ledger of a training elsewhere."""
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), index=True)
    erased_at: Mapped[datetime]
    envelope: Mapped[dict[str, Any]]
    """DSSE."""
