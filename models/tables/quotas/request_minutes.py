"""How many requests a project made in each of the last minutes."""

from sqlalchemy import BigInteger, ForeignKey, Integer
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base


class RequestMinute(Base):
    """One minute of a project; kept while it is counted, and hardly longer."""

    __tablename__ = "request_minutes"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    minute: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """Since 1970, in UTC."""
    requests: Mapped[int] = mapped_column(Integer)
