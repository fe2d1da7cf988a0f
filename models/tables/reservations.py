"""The budgets on the data of federations, and what experiments have reserved of them."""

from sqlalchemy import Double, ForeignKey, ForeignKeyConstraint, Integer, String, text
from sqlalchemy.orm import Mapped, mapped_column

from models.arrays import Packed, PackedArray
from models.tables.base import Base, Identifier, Word
from models.values import BudgetFigure

UnitKey = String(255)
BUDGET_KEY = ("federation_id", "book", "figure", "delta", "adjacency", "observer", "unit_key")
"""The columns that name one budget."""


class FederationBudget(Base):
    """One budget: what may be spent, what is reserved and what is spent.

    `delta`, `adjacency` and `observer` are part of the key, and a key holds no nulls: 0 and ''
    stand for a figure that has none. Leakage, which has no adjacency, has its radius and clip in
    its place (`LeakageTerms.key`); '' there is a total whose radius and clip were not recorded,
    which no run matches. `unit_key` says whose clients are counted; '' is a total that names
    nobody's, and what was spent before it was recorded.
    """

    __tablename__ = "federation_budgets"

    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), primary_key=True)
    book: Mapped[str] = mapped_column(Word, primary_key=True)
    figure: Mapped[BudgetFigure] = mapped_column(Word, primary_key=True)
    delta: Mapped[float] = mapped_column(Double, primary_key=True)
    adjacency: Mapped[str] = mapped_column(Word, primary_key=True)
    observer: Mapped[str] = mapped_column(Word, primary_key=True)
    unit_key: Mapped[str] = mapped_column(
        UnitKey, primary_key=True, default="", server_default=text("''")
    )
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    total: Mapped[float | None] = mapped_column(Double)
    """Null: no bound was set; spending is charged all the same."""
    reserved: Mapped[float] = mapped_column(Double)
    spent: Mapped[float] = mapped_column(Double)


class Reservation(Base):
    """What one experiment may still spend of a budget (`held`), or did spend (`settled`)."""

    __tablename__ = "reservations"
    __table_args__ = (
        ForeignKeyConstraint(
            list(BUDGET_KEY),
            [f"federation_budgets.{column}" for column in BUDGET_KEY],
            name="fk_reservations_budget",
        ),
    )

    experiment_id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    federation_id: Mapped[str] = mapped_column(Identifier, primary_key=True, index=True)
    book: Mapped[str] = mapped_column(Word, primary_key=True)
    figure: Mapped[BudgetFigure] = mapped_column(Word, primary_key=True)
    delta: Mapped[float] = mapped_column(Double, primary_key=True)
    adjacency: Mapped[str] = mapped_column(Word, primary_key=True)
    observer: Mapped[str] = mapped_column(Word, primary_key=True)
    unit_key: Mapped[str] = mapped_column(
        UnitKey, primary_key=True, default="", server_default=text("''")
    )
    """How the clients are told apart whom the figure is about, or `row`; '' where it was not
    recorded, which counts as the same whatever the other one is."""
    amount: Mapped[float] = mapped_column(Double)
    """Of an epsilon: that of the experiment by itself, at its own delta."""
    spent: Mapped[float] = mapped_column(Double)
    """Of sums only: an epsilon is composed from what follows, and not stored."""
    state: Mapped[str] = mapped_column(Word)

    unit: Mapped[str | None] = mapped_column(Word)
    """Of an epsilon, as are the curve and the counts: `client` or `record`, whom its adjacency is
    about."""
    curve: Mapped[Packed | None] = mapped_column(PackedArray("float64"))
    """Renyi divergences at common orders: an upper bound while held, the spending once settled.
    They add up over experiments, whatever their deltas."""
    step: Mapped[Packed | None] = mapped_column(PackedArray("float64"))
    """The same for one composition, at most. Of the theorem's sum: [1], what one release adds."""
    planned: Mapped[int | None] = mapped_column(Integer)
    """How many compositions `curve` was reserved for."""
    compositions: Mapped[int | None] = mapped_column(Integer)
    """How many are charged as spent."""
