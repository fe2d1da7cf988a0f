"""What reports have disclosed of data, so that later ones do not give more away beside them."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base


class DisclosureMemory(Base):
    """Data of which something was disclosed, whichever project trained on it: a file by its
    fingerprint, or rows of any file, by the first of their anchors.

    Whoever adds to it locks this row first, so that two runs that start at once see each other.
    """

    __tablename__ = "disclosure_memories"

    fingerprint: Mapped[str] = mapped_column(String(64), primary_key=True)
    profile_cuts: Mapped[dict[str, Any]]
    """By attribute, how profiles cut it and judged its rows."""


class DisclosureAnchor(Base):
    """A key of one of the rows of a memory that is no file's: data with that row are compared with
    it. Keyed by a secret of the service."""

    __tablename__ = "disclosure_anchors"

    anchor: Mapped[str] = mapped_column(String(16), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(
        ForeignKey("disclosure_memories.fingerprint"), primary_key=True
    )


class DisclosedSet(Base):
    """Rows whose figures some report discloses together. Confidential."""

    __tablename__ = "disclosed_sets"

    fingerprint: Mapped[str] = mapped_column(
        ForeignKey("disclosure_memories.fingerprint"), primary_key=True
    )
    numbering: Mapped[str] = mapped_column(String(64), primary_key=True)
    """By what rows are numbered: only sets of one numbering can be compared."""
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    """Equal sets are stored once."""
    favourable_digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    bits: Mapped[bytes] = mapped_column(LargeBinary)
    favourable_bits: Mapped[bytes] = mapped_column(LargeBinary)
    """Those of the rows whose true outcome was favourable."""
    disclosed_at: Mapped[datetime]
