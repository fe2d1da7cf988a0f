"""What a budget counts, without SQL: sums by whose clients they are about, and epsilons by curves.

Figures of clients that are identified by different keys do not add up (`unit_key`): each key has a
separate amount. What was charged before keys were recorded has the key '' and counts with all.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, Self, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.stored import Cost, CostFigure, LeakageTerms
from models.tables.ledger import BUDGET_KEY, Reservation
from models.values import Budget, BudgetsAcross, Gap

Curve = NDArray[np.float64]
POOL = ("book", "figure", "delta", "adjacency", "observer")
HELD, SETTLED = "held", "settled"
UNBOUNDED = 1e300
"""An amount, or the divergence at an order, that nothing bounds: JSON has no infinity, no total has
room for it, and an order that is so large is never the best."""
REPORT = "report"
"""Counts what is published of the people held out of training, whatever training costs."""
_ROUNDING = 1.0 + 1e-12
"""A total such as 1.2 must have room for three times 0.4, which as floats add up to more."""
_SERVER, _FINAL_MODEL = "server", "final_model"

Shortage = Gap | Literal["no-room"]


@dataclass(frozen=True)
class Sharing:
    """The federations whose spending counts together, as one project sees them: those of every
    project with the content. The project that registered the content first, or was the first to set
    a budget on it, owns it: its totals hold for all, and another project's hold for it alone,
    so that no stranger can stop the owner and none can raise what the owner has set."""

    own_id: str
    owner_id: str | None
    """The federation whose totals hold for all; None where no project owns the content."""
    ids: tuple[str, ...]
    """Ids of every project that has the content, its own included."""
    across: BudgetsAcross
    """`project` of data that were made up, which are each project's own."""
    forbids_simulation: bool = False
    """Whether this project, or the one whose totals hold for it, admits secret noise alone."""

    @property
    def is_owner(self) -> bool:
        """Whether no other project's totals hold for this one."""
        return self.owner_id in (None, self.own_id)


@dataclass
class StoredBudget:
    """A row of the budgets, as it was read and with what was reserved since."""

    federation_id: str
    book: str
    figure: CostFigure
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
        """What rows have in common that count together, for any clients."""
        return (self.book, self.figure, self.delta, self.adjacency, self.observer)


@dataclass(frozen=True)
class Pool:
    """The rows of one book, figure, delta, adjacency and observer, of all that share."""

    rows: Sequence[StoredBudget]
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
    def _keys(self) -> list[str]:
        """The keys under which something is reserved or spent."""
        return sorted({row.unit_key for row in self.rows if row.reserved + row.spent > 0} - {""})

    def _counted(self, unit_key: str) -> list[StoredBudget]:
        return [row for row in self.rows if row.unit_key in (unit_key, "")]

    def _in_all(self, unit_key: str) -> float:
        mine = self._counted(unit_key)
        return sum(row.reserved for row in mine) + sum(row.spent for row in mine)

    def _shown_key(self, named: str) -> str:
        """Whose clients a budget counts: those it names, or else those that cost most."""
        return named or max(self._keys, key=self._in_all, default=named)

    def budget(self, named: str, *, counted: str | None = None) -> Budget:
        """The budget of a row's key; `counted`: for other clients than those that cost most."""
        row, leakage = self.rows[0], self.rows[0].figure == "leakage"
        key = self._shown_key(named) if counted is None else counted
        mine = self._counted(key)
        others = [one for one in mine if one.federation_id != self.sharing.own_id]
        return Budget(
            book=row.book,
            figure=row.figure,
            delta=row.delta or None,
            adjacency=None if leakage else row.adjacency or None,
            observer=row.observer or None,
            total=self.totals.get(named),
            reserved=sum(one.reserved for one in mine),
            spent=sum(one.spent for one in mine),
            terms=LeakageTerms.read(row.adjacency) if leakage else None,
            unit_key=key or None,
            for_clients=named,
            own_total=self._total_of(named, self.sharing.own_id),
            owner_total=self._total_of(named, self.sharing.owner_id),
            across=self.sharing.across,
            is_owner=self.sharing.is_owner,
            others_reserved=sum(one.reserved for one in others),
            others_spent=sum(one.spent for one in others),
        )

    def budgets(self) -> list[Budget]:
        """Each that was spent from or that this project has set, and those that hold for it. A
        total that names no clients covers the rows without one."""
        busy = {row.unit_key for row in self.rows if row.busy}
        own = {row.unit_key for row in self.rows if row.federation_id == self.sharing.own_id}
        if "" in self.totals:
            return [self.budget(key) for key in sorted({"", *self.totals})]
        named = own | busy | set(self.totals)
        unnamed_rest = any(row.reserved + row.spent > 0 for row in self.rows if not row.unit_key)
        if "" not in busy and not unnamed_rest and len(named) > 1:
            named.discard("")
        return [self.budget(key) for key in sorted(named)]

    def shortage(self, unit_key: str, amount: float) -> tuple[Budget, Shortage] | None:
        """The first total that a new run of these clients cannot be counted under, and why."""
        named = [key for key in self.totals if key]
        if unit_key and "" in self.totals:
            if any(key != unit_key for key in self._keys):
                return self.budget(""), "other-clients"
        elif unit_key and named and unit_key not in named:
            return self.budget(named[0]), "other-clients"
        return self.without_room(unit_key, amount)

    def without_room(self, unit_key: str, amount: float) -> tuple[Budget, Shortage] | None:
        """The first total that has no room for more by these clients."""
        for key, total in self.totals.items():
            if key and unit_key and key != unit_key:
                continue
            # A run whose clients are unknown counts under every key.
            counted = unit_key or self._shown_key(key)
            if self._in_all(counted) + amount > total * _ROUNDING:
                return self.budget(key, counted=counted), "no-room"
        return None

    def _total_of(self, unit_key: str, federation_id: str | None) -> float | None:
        own = (row for row in self.rows if row.federation_id == federation_id)
        return next((row.total for row in own if row.unit_key == unit_key), None)


def after_releases(reservation: Reservation, *, leakage: float, releases: int) -> float:
    """What a reservation of a sum spends by so many releases that leak this much in all."""
    match reservation.figure:
        case "leakage":
            return leakage
        case "log_ratio":
            assert reservation.step is not None
            # The product of a whole number and a float is rounded once, as is the theorem's sum.
            return releases * float(reservation.step[0])
        case "epsilon":
            raise ValueError("an epsilon is composed and not added up")
        case _:
            assert_never(reservation.figure)


@dataclass(frozen=True)
class Refusal:
    """Why a budget has no place for an experiment."""

    budget: Budget
    shortage: Shortage
    requested: float | None = None
    """Its own cost; an epsilon is at the budget's delta, and None where it cannot be counted."""
    composed_total: float | None = None
    """What all would come to with it; None as `requested`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ReservedEpsilon:
    """A reservation of an epsilon as it was read, or as it is being made."""

    experiment_id: str
    federation_id: str
    book: str
    adjacency: str
    observer: str
    unit_key: str
    unit: str | None
    curve: Curve | None
    step: Curve | None
    compositions: int | None

    @property
    def key(self) -> tuple[str, ...]:
        """What no two of them have in common."""
        place = (self.experiment_id, self.federation_id, self.book)
        return (*place, self.adjacency, self.observer, self.unit_key)


RESERVED_COLUMNS = tuple(one.name for one in fields(ReservedEpsilon))
Reserved = Reservation | ReservedEpsilon


def curve_of(one: Reserved | Cost) -> Curve:
    """The whole cost that is reserved, spent or not."""
    assert one.curve is not None
    return one.curve


def _steps(one: Reserved, count: int) -> Curve:
    assert one.step is not None
    many: Curve = count * np.minimum(one.step, UNBOUNDED / max(count, 1))
    return many


def after(one: Reserved, count: int) -> Curve:
    """The cost of so many compositions, at most the whole cost."""
    return np.minimum(curve_of(one), _steps(one, count))


def enlarged(one: Reservation, count: int) -> Curve:
    """What to reserve for so many compositions: more only where more than planned is spent."""
    if count <= (one.planned or 0):
        return curve_of(one)
    return np.maximum(curve_of(one), _steps(one, count))


def amounts(rows: Sequence[Reserved]) -> tuple[Curve, Curve]:
    """The sums of what was spent, and of the whole costs."""
    spent = [after(one, one.compositions or 0) for one in rows]
    return np.sum(spent, axis=0), np.sum([curve_of(one) for one in rows], axis=0)


@dataclass(frozen=True)
class Counts:
    """Which reservations of epsilons a budget counts."""

    federation_ids: tuple[str, ...]
    book: str
    adjacency: str | None
    observers: tuple[str, ...]
    """Whose figures bound the budget's, the best first."""
    for_clients: str

    def chosen(self, rows: Iterable[ReservedEpsilon]) -> list[ReservedEpsilon]:
        """One of each experiment that can be counted, by experiment."""
        mine = [
            one
            for one in rows
            if one.federation_id in self.federation_ids
            and (one.book, one.adjacency) == (self.book, self.adjacency)
            and one.observer in self.observers
            and agree(self.for_clients, one.unit_key)
        ]
        # The observer that the budget names comes last, and so takes the other one's place.
        mine.sort(key=lambda one: (one.experiment_id, -self.observers.index(one.observer)))
        return list({one.experiment_id: one for one in mine}.values())


@dataclass
class CountedEpsilons:
    """The reservations that a budget counts, and the sum of their divergences."""

    rows: list[ReservedEpsilon] = field(default_factory=list)
    kinds: set[tuple[str | None, str]] = field(default_factory=set)
    """Units, and keys, that they are about."""
    curve: Curve | None = None
    """None where there are none."""

    def add(self, rows: Iterable[ReservedEpsilon]) -> Self:
        """Counts more, of experiments that are not counted yet."""
        for one in rows:
            self.rows.append(one)
            self.kinds.add((one.unit, one.unit_key))
            if one.curve is not None:
                self.curve = one.curve if self.curve is None else self.curve + one.curve
        return self

    def about(self, unit: str, unit_key: str) -> list[ReservedEpsilon]:
        """Those that count for a unit and its key."""
        return [one for one in self.rows if one.unit == unit and agree(one.unit_key, unit_key)]

    def groups(self) -> list[tuple[str, str]]:
        """The units and keys that are composed apart."""
        found = {(unit, key) for unit, key in self.kinds if unit is not None}
        known = {unit for unit, key in found if key}
        return sorted((unit, key) for unit, key in found if key or unit not in known)

    def why_not_with(self, cost: Cost) -> Shortage | None:
        """Why a cost cannot be composed with what is counted, if it cannot."""
        if any(unit != cost.unit for unit, _ in self.kinds):
            return "other-unit"
        alike = all(agree(unit_key, cost.unit_key) for _, unit_key in self.kinds)
        return None if alike else "other-clients"


def budget_key(row: Mapping[str, Any]) -> dict[str, Any]:
    """The key of the budget that a reservation is of."""
    return {name: row[name] for name in BUDGET_KEY}


def agree(one: str, other: str) -> bool:
    """Whether two keys may be of the same clients: '' was not recorded, and counts with all."""
    return one == other or "" in (one, other)


def counts_report(observer: str | None) -> bool:
    """Whether a budget or cost is about people held out of training, and not about those who
    train."""
    return observer == REPORT


def counts_for(budget: Budget) -> tuple[str, ...]:
    """The observers whose figures bound the budget's, the best first. Whatever holds against the
    server holds for those who see less."""
    if budget.observer == _FINAL_MODEL:
        return (_FINAL_MODEL, _SERVER)
    return (budget.observer or "",)


def why_uncounted(budget: Budget, costs: Sequence[Cost]) -> Gap | None:
    """Why the budget does not count a run of these costs; None where it does."""
    needed: list[tuple[Gap, Callable[[Cost], bool]]] = [
        ("unbounded", lambda _: True),
        ("other-figure", lambda one: one.figure == budget.figure),
        ("unproven", lambda one: one.proven or one.figure == "leakage"),
    ]
    match budget.figure:
        case "leakage":
            terms = budget.terms
            needed.append(("other-terms", lambda one: LeakageTerms.read(one.adjacency) == terms))
        case "log_ratio":
            pass
        case "epsilon":
            observers = counts_for(budget)
            needed += [
                ("other-adjacency", lambda one: one.adjacency == budget.adjacency),
                ("other-observer", lambda one: one.observer in observers),
                ("other-unit", lambda one: budget.unit is None or one.unit == budget.unit),
            ]
        case _:
            assert_never(budget.figure)
    counted = budget.unit_key or budget.for_clients
    needed.append(("other-clients", lambda one: agree(counted, one.unit_key)))
    needed.append(("unowned", lambda one: one.planned != -1))
    for gap, has in needed:
        costs = [cost for cost in costs if has(cost)]
        if not costs:
            return gap
    return None


def first_uncounted(totals: Sequence[Budget], costs: Sequence[Cost]) -> tuple[Budget, Gap] | None:
    """The first total that does not count the costs, of any clients, and why; None where
    all do. Such a total has to refuse them, or a change of mechanism, radius or clip would be the
    way around it. Of leakages one total of the same radius and clip is enough."""
    found = [(one, why_uncounted(one, costs)) for one in totals]
    has_terms = any(one.figure == "leakage" and why != "other-terms" for one, why in found)
    for budget, why in found:
        if why not in (None, "other-clients") and not (why == "other-terms" and has_terms):
            return budget, why
    return None


def compared(budget: Budget, costs: Sequence[Cost]) -> Cost:
    """Of the costs that an epsilon's budget counts the one that it compares."""
    observers = counts_for(budget)
    alike = [one for one in costs if one.adjacency == budget.adjacency]
    seen = [one for one in alike if one.observer in observers]
    return min(seen, key=lambda one: observers.index(one.observer))


def fits(in_all: float, budget: Budget) -> bool:
    """Whether a budget has room for all that it would count."""
    return budget.total is None or in_all <= budget.total * _ROUNDING


def unpriced(_curve: Curve, _delta: float) -> float:
    """The price of a caller that composes no epsilon."""
    raise ValueError("an epsilon is composed by a price; give one")


def check_amount(field: str, amount: float) -> None:
    """Raises ValueError for what no budget can bear."""
    if not (math.isfinite(amount) and amount >= 0):
        raise ValueError(f"{field}: {amount} is not a finite number of at least 0")
