"""Federations, the budgets on their data, and what experiments have reserved of them."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from models.arrays import Packed, PackedArray
from models.tables.base import Base, Identifier, Word
from models.values import BudgetFigure, FederationStatus, Simulation


class Federation(Base):
    """The clients' data, known by its fingerprint: whoever trains on it spends its budget.

    One that was deleted keeps its row, so that what was spent on the data stays spent.
    """

    __tablename__ = "federations"
    __table_args__ = (UniqueConstraint("project_id", "fingerprint"),)

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    fingerprint: Mapped[str] = mapped_column(String(64))
    name: Mapped[str] = mapped_column(Text)
    source: Mapped[str] = mapped_column(Word)
    profile: Mapped[dict[str, Any]]
    """Empty until there is one, and once the data is deleted."""
    status: Mapped[FederationStatus] = mapped_column(Word)
    reasons: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    """Why it was rejected: {pointer, message}, the pointer into the registration."""
    registration: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """Null where nobody registered it, and experiments named the file by its path."""
    unit_id: Mapped[str | None] = mapped_column(ForeignKey("units.id"), index=True)
    """The unit that profiled it last, or is to."""
    storage_key: Mapped[str | None] = mapped_column(String(255))
    """Where the uploaded file is stored; null where it lies below the sources folder."""
    file_name: Mapped[str | None] = mapped_column(Text)
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Of the file as it was sent, perhaps compressed."""
    simulation: Mapped[Simulation] = mapped_column(Word, server_default="allowed")
    """Whether runs are admitted whose noise anyone can draw again from the seed."""
    disclosure: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What its owner lets anyone ask of its groups; null where everything is left to them."""
    disclosure_set_at: Mapped[datetime | None]
    """When the policy was changed last; also where it was taken back."""
    created_at: Mapped[datetime]
    profiled_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime | None]


class FederationBudget(Base):
    """One budget: what may be spent, what is reserved and what is spent.

    `delta`, `adjacency` and `observer` are part of the key, and a key holds no nulls: 0 and ''
    stand for a figure that has none. Leakage, which has no adjacency, has its radius and clip in
    its place (`LeakageTerms.key`); '' there is a total whose radius and clip nobody recorded, which
    no run matches.
    """

    __tablename__ = "federation_budgets"

    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), primary_key=True)
    book: Mapped[str] = mapped_column(Word, primary_key=True)
    figure: Mapped[BudgetFigure] = mapped_column(Word, primary_key=True)
    delta: Mapped[float] = mapped_column(Double, primary_key=True)
    adjacency: Mapped[str] = mapped_column(Word, primary_key=True)
    observer: Mapped[str] = mapped_column(Word, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    total: Mapped[float | None] = mapped_column(Double)
    """Null: nobody has set a bound; spending is booked all the same."""
    reserved: Mapped[float] = mapped_column(Double)
    spent: Mapped[float] = mapped_column(Double)


class Reservation(Base):
    """What one experiment may still spend of a budget (`held`), or did spend (`settled`)."""

    __tablename__ = "reservations"
    __table_args__ = (
        ForeignKeyConstraint(
            ["federation_id", "book", "figure", "delta", "adjacency", "observer"],
            [
                f"federation_budgets.{column}"
                for column in ("federation_id", "book", "figure", "delta", "adjacency", "observer")
            ],
            name="fk_reservations_budget",
        ),
    )

    experiment_id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    federation_id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    book: Mapped[str] = mapped_column(Word, primary_key=True)
    figure: Mapped[BudgetFigure] = mapped_column(Word, primary_key=True)
    delta: Mapped[float] = mapped_column(Double, primary_key=True)
    adjacency: Mapped[str] = mapped_column(Word, primary_key=True)
    observer: Mapped[str] = mapped_column(Word, primary_key=True)
    amount: Mapped[float] = mapped_column(Double)
    """Of an epsilon: that of the experiment by itself, at its own delta."""
    spent: Mapped[float] = mapped_column(Double)
    """Of sums only: an epsilon is composed from what follows, and not stored."""
    state: Mapped[str] = mapped_column(Word)

    unit: Mapped[str | None] = mapped_column(Word)
    """Of an epsilon, as are the curve and the counts: `client` or `record`, whom its adjacency is
    about."""
    curve: Mapped[Packed | None] = mapped_column(PackedArray("float64"))
    """Renyi divergences, at orders that are the same for all: at most so much while it is held,
    and what was spent once it is settled. They add up over experiments, whatever their deltas."""
    step: Mapped[Packed | None] = mapped_column(PackedArray("float64"))
    """The same for one composition, at most. Of the theorem's sum: [1], what one release adds."""
    planned: Mapped[int | None] = mapped_column(Integer)
    """How many compositions `curve` was reserved for."""
    compositions: Mapped[int | None] = mapped_column(Integer)
    """How many are booked as spent."""
