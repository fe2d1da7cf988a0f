"""What each round of training came to."""

from typing import Any

from sqlalchemy import JSON, Boolean, Double, ForeignKey, Integer
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier


class Round(Base):
    """One round's figures; a figure that is null may have its reason in `reasons`."""

    __tablename__ = "rounds"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), primary_key=True)
    round: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    project_id: Mapped[str] = mapped_column(Identifier)
    selection_loss: Mapped[float | None] = mapped_column(Double)
    validation_loss: Mapped[float | None] = mapped_column(Double)
    accuracy: Mapped[float | None] = mapped_column(Double)
    cluster_sizes: Mapped[list[Any]]
    separation: Mapped[float | None] = mapped_column(Double)
    collapsed: Mapped[bool] = mapped_column(Boolean)
    leakage_median: Mapped[float | None] = mapped_column(Double)
    leakage_max: Mapped[float | None] = mapped_column(Double)
    epsilon_max: Mapped[float | None] = mapped_column(Double)
    demographic_parity_difference: Mapped[float | None] = mapped_column(Double)
    equalized_odds_difference: Mapped[float | None] = mapped_column(Double)
    equal_opportunity_difference: Mapped[float | None] = mapped_column(Double)
    leakage_by_cluster: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    plane: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    reasons: Mapped[dict[str, Any]]
