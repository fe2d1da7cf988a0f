"""The names behind the ledger's subject indices, stored once per set of clients."""

from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base


class SubjectSet(Base):
    """Subject keys in order: the ledger's index i means `names[i]`."""

    __tablename__ = "subject_sets"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    """SHA-256 of the names, so that experiments on the same clients share one row."""
    names: Mapped[list[Any]]
