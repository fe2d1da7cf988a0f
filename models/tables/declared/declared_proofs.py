"""What the sweeper signed of declared ledgers."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier


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
