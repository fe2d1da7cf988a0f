"""The entries of declared ledgers, packed as those of runs are."""

from sqlalchemy import ForeignKey, Integer, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word
from models.tables.ledger import PackedEntry


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
