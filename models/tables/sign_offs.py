"""What people stated of reports."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Word


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
