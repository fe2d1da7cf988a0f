"""Which of several sweepers sweeps."""

from datetime import datetime

from sqlalchemy import Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Word


class SweeperLease(Base):
    """A named duty and who has it, until when."""

    __tablename__ = "sweeper_leases"

    name: Mapped[str] = mapped_column(Word, primary_key=True)
    holder: Mapped[str] = mapped_column(Text)
    lease_until: Mapped[datetime]
