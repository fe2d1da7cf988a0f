"""Federations, the budgets on their data, and what experiments have reserved of them."""

from datetime import datetime
from typing import Any

from sqlalchemy import Double, ForeignKey, ForeignKeyConstraint, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from models.tables.base import Base, Identifier, Word


class Federation(Base):
    """The clients' data, known by its fingerprint: whoever trains on it spends its budget."""

    __tablename__ = "federations"
    __table_args__ = (UniqueConstraint("project_id", "fingerprint"),)

    id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    fingerprint: Mapped[str] = mapped_column(String(64))
    name: Mapped[str] = mapped_column(Text)
    source: Mapped[str] = mapped_column(Word)
    profile: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(Word)
    created_at: Mapped[datetime]


class FederationBudget(Base):
    """One budget: what may be spent, what is reserved and what is spent.

    `delta`, `adjacency` and `observer` are part of the key, and a key holds no nulls: 0 and ''
    stand for a figure that has none.
    """

    __tablename__ = "federation_budgets"

    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), primary_key=True)
    book: Mapped[str] = mapped_column(Word, primary_key=True)
    figure: Mapped[str] = mapped_column(Word, primary_key=True)
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
    figure: Mapped[str] = mapped_column(Word, primary_key=True)
    delta: Mapped[float] = mapped_column(Double, primary_key=True)
    adjacency: Mapped[str] = mapped_column(Word, primary_key=True)
    observer: Mapped[str] = mapped_column(Word, primary_key=True)
    amount: Mapped[float] = mapped_column(Double)
    spent: Mapped[float] = mapped_column(Double)
    state: Mapped[str] = mapped_column(Word)
