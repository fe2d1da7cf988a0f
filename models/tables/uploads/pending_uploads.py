"""Tables that were sent by a form and are not registered yet."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier


class PendingUpload(Base):
    """One file that waits for its registration; only the key that sent it sees it."""

    __tablename__ = "pending_uploads"

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    api_key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id"), index=True)
    storage_key: Mapped[str] = mapped_column(String(255))
    fingerprint: Mapped[str] = mapped_column(String(64))
    """SHA-256 of its content, gzip undone."""
    file_name: Mapped[str] = mapped_column(Text)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    """As it was sent, perhaps compressed."""
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)
    """The file is removed then, unless it was registered."""
