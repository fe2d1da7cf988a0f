"""Projects: whose rows these are."""

from datetime import datetime

from sqlalchemy import Text
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier


class Project(Base):
    """A tenant: every other row belongs to one."""

    __tablename__ = "projects"

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    created_at: Mapped[datetime]
