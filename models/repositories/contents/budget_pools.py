"""All that is reserved and spent of one figure in one book, by whose clients it is about.

Figures of clients that are told apart by different keys do not add up (`unit_key`): each key has an
amount of its own. What was booked before keys were recorded stands under '' and counts with all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from models.epsilon_costs import Shortage
from models.leakage_terms import LeakageTerms
from models.values import Budget, BudgetFigure, BudgetsAcross

# A total such as 1.2 must have room for three times 0.4, whose sum in floating point lies above.
ROUNDING = 1e-12

_UNNAMED = ""
_LEAKAGE: BudgetFigure = "leakage"


@dataclass(frozen=True)
class Sharing:
    """The federations whose spending counts together, as one project sees them."""

    own_id: str
    owner_id: str | None
    """The federation whose totals hold for all; None where nobody owns the content."""
    ids: tuple[str, ...]
    """Of every project that has the content, the own one included."""
    across: BudgetsAcross
    forbids_simulation: bool = False
    """Whether this project, or the one whose totals hold for it, admits secret noise alone."""

    @property
    def is_owner(self) -> bool:
        """Whether no other project's totals hold for this one."""
        return self.owner_id in (None, self.own_id)


@dataclass(frozen=True)
class Amounts:
    """What is reserved and spent, and how much of it by other projects."""

    reserved: float
    spent: float
    others_reserved: float
    others_spent: float

    @property
    def in_all(self) -> float:
        """Reserved and spent together."""
        return self.reserved + self.spent


@dataclass
class BookedBudget:
    """A row of the budgets, as it was read and with what was reserved since."""

    federation_id: str
    book: str
    figure: BudgetFigure
    delta: float
    adjacency: str
    observer: str
    unit_key: str
    total: float | None
    reserved: float
    spent: float
    busy: bool
    """Whether there are reservations."""

    @property
    def pool(self) -> tuple[object, ...]:
        """What those have in common that count together, whosever clients they are about."""
        return (self.book, self.figure, self.delta, self.adjacency, self.observer)


@dataclass(frozen=True)
class Pool:
    """The rows of one book, figure, delta, adjacency and observer, of all that share."""

    rows: Sequence[BookedBudget]
    sharing: Sharing

    @cached_property
    def totals(self) -> dict[str, float]:
        """The totals that hold for this project, by the clients that they name; '' names none."""
        found: dict[str, float] = {}
        for row in self.rows:
            holds = row.federation_id in (self.sharing.own_id, self.sharing.owner_id)
            if holds and row.total is not None:
                found[row.unit_key] = min(row.total, found.get(row.unit_key, row.total))
        return found

    @cached_property
    def keys(self) -> list[str]:
        """The keys under which something is reserved or spent."""
        found = {row.unit_key for row in self.rows if row.reserved + row.spent > 0}
        return sorted(found - {_UNNAMED})

    def amounts(self, unit_key: str) -> Amounts:
        """What counts for the clients of a key."""
        mine = [row for row in self.rows if row.unit_key in (unit_key, _UNNAMED)]
        others = [row for row in mine if row.federation_id != self.sharing.own_id]
        return Amounts(
            sum(row.reserved for row in mine),
            sum(row.spent for row in mine),
            sum(row.reserved for row in others),
            sum(row.spent for row in others),
        )

    def shown_key(self, named: str) -> str:
        """Whose clients a budget counts: those it names, or else those that cost most."""
        if named or not self.keys:
            return named
        return max(self.keys, key=lambda key: self.amounts(key).in_all)

    def budget(self, named: str, *, counted: str | None = None) -> Budget:
        """The budget of a row's key; `counted`: for other clients than those that cost most."""
        row = self.rows[0]
        key = self.shown_key(named) if counted is None else counted
        amounts, leakage = self.amounts(key), row.figure == _LEAKAGE
        return Budget(
            book=row.book,
            figure=row.figure,
            delta=row.delta or None,
            adjacency=None if leakage else row.adjacency or None,
            observer=row.observer or None,
            total=self.totals.get(named),
            reserved=amounts.reserved,
            spent=amounts.spent,
            terms=LeakageTerms.read(row.adjacency) if leakage else None,
            unit_key=key or None,
            for_clients=named,
            own_total=self._total_of(named, self.sharing.own_id),
            owner_total=self._total_of(named, self.sharing.owner_id),
            across=self.sharing.across,
            is_owner=self.sharing.is_owner,
            others_reserved=amounts.others_reserved,
            others_spent=amounts.others_spent,
        )

    def budgets(self) -> list[Budget]:
        """Each that somebody has spent from or this project has set, and those that hold for it.

        A total that names no clients stands for the rows without one.
        """
        busy = {row.unit_key for row in self.rows if row.busy}
        own = {row.unit_key for row in self.rows if row.federation_id == self.sharing.own_id}
        if _UNNAMED in self.totals:
            return [self.budget(key) for key in sorted({_UNNAMED, *self.totals})]
        named = own | busy | set(self.totals)
        if _UNNAMED not in busy and not self._unnamed_rest() and len(named) > 1:
            named.discard(_UNNAMED)
        return [self.budget(key) for key in sorted(named)]

    def shortage(self, unit_key: str, amount: float) -> tuple[Budget, Shortage] | None:
        """The first total that a new run of these clients cannot be counted under, and why."""
        named = [key for key in self.totals if key]
        if unit_key and _UNNAMED in self.totals:
            others = [key for key in self.keys if key != unit_key]
            if others:
                return self.budget(_UNNAMED), "other-clients"
        elif unit_key and named and unit_key not in named:
            return self.budget(named[0]), "other-clients"
        return self.without_room(unit_key, amount)

    def without_room(self, unit_key: str, amount: float) -> tuple[Budget, Shortage] | None:
        """The first total that has no room for more by these clients."""
        for key, total in self.totals.items():
            if key and unit_key and key != unit_key:
                continue
            # A run whose clients nobody knows counts under every key.
            counted = unit_key or self.shown_key(key)
            if self.amounts(counted).in_all + amount > total * (1.0 + ROUNDING):
                return self.budget(key, counted=counted), "no-room"
        return None

    def _total_of(self, unit_key: str, federation_id: str | None) -> float | None:
        for row in self.rows:
            if (row.federation_id, row.unit_key) == (federation_id, unit_key):
                return row.total
        return None

    def _unnamed_rest(self) -> bool:
        """Whether something was booked before keys were recorded."""
        return any(row.reserved + row.spent > 0 for row in self.rows if row.unit_key == _UNNAMED)
