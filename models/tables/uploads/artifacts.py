"""Parameters that experiments start from."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier


class Artifact(Base):
    """One file of parameters of a project. The file itself lies in the storage, by its hash."""

    __tablename__ = "artifacts"
    __table_args__ = (UniqueConstraint("project_id", "sha256"),)

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    """Orders the list; a spec names the file by its hash."""
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    sha256: Mapped[str] = mapped_column(String(64))
    name: Mapped[str | None] = mapped_column(Text)
    """What whoever sent it called it first."""
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    hypotheses: Mapped[int] = mapped_column(Integer)
    parameters: Mapped[int] = mapped_column(BigInteger)
    created_by: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime]
