"""Files whose time was over, or that were erased: why what is asked for is gone."""

from datetime import datetime

from sqlalchemy import Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word
from models.values import FileKind, GoneReason


class ExpiredFile(Base):
    """One file that is gone for good, unless the same is brought again."""

    __tablename__ = "expired_files"

    project_id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    kind: Mapped[FileKind] = mapped_column(Word, primary_key=True)
    owner: Mapped[str] = mapped_column(String(64), primary_key=True)
    """The experiment's id, or the hash of an artifact."""
    reason: Mapped[GoneReason] = mapped_column(Word)
    kept_days: Mapped[int | None] = mapped_column(Integer)
    """The setting that it exceeded; null where it was erased."""
    expired_at: Mapped[datetime]
    removed_at: Mapped[datetime | None] = mapped_column(index=True)
    """When the storage had removed it; null while that is still to be done."""
