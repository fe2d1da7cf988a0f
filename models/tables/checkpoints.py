"""Where a run can be taken up again."""

from sqlalchemy import ForeignKey, Integer, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier


class Checkpoint(Base):
    """The newest state of a run, overwritten at each flush; gone when the run has ended."""

    __tablename__ = "checkpoints"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    project_id: Mapped[str] = mapped_column(Identifier)
    round: Mapped[int] = mapped_column(Integer)
    data: Mapped[bytes] = mapped_column(LargeBinary)
