"""What a transaction has read of contents whose lock it holds, and what it has booked since.

Whoever holds the lock is the only one who reserves of a content, or sets a budget on it, so its
rows are read once however many experiments are reserved. Workers meanwhile book what they have
reserved as spent and give back the rest, without the lock: that leaves as much room as was read,
or more. It lasts as long as the session, which is one transaction.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from models.repositories.contents.budget_pools import BookedBudget, Sharing
from models.tables.federations import Federation
from models.values import Budget, BudgetsAcross

_HELD = "fedaudit.held_contents"
_Curve = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class BookedEpsilon:
    """A reservation of an epsilon as it was read, or as it is being made."""

    experiment_id: str
    federation_id: str
    book: str
    adjacency: str
    observer: str
    unit_key: str
    unit: str | None
    curve: _Curve | None
    step: _Curve | None
    compositions: int | None

    @property
    def key(self) -> tuple[str, ...]:
        """What no two of them have in common."""
        place = (self.experiment_id, self.federation_id, self.book)
        return (*place, self.adjacency, self.observer, self.unit_key)


BOOKED_COLUMNS = tuple(one.name for one in fields(BookedEpsilon))


@dataclass(frozen=True)
class Counts:
    """Which reservations a budget counts."""

    federation_ids: tuple[str, ...]
    book: str
    adjacency: str | None
    observers: tuple[str, ...]
    """Whose figures bound the budget's, the best first."""
    for_clients: str

    @classmethod
    def of(cls, sharing: Sharing | None, budget: Budget, *, observers: tuple[str, ...]) -> Self:
        """Those of a budget, of all whose spending counts together; None for nobody."""
        ids = () if sharing is None else sharing.ids
        return cls(ids, budget.book, budget.adjacency, observers, budget.for_clients)

    def chosen(self, rows: Iterable[BookedEpsilon]) -> list[BookedEpsilon]:
        """One of each experiment that can be counted, by experiment."""
        mine = [one for one in rows if self._has(one)]
        # The observer that the budget names comes last, and so takes the other one's place.
        mine.sort(key=lambda one: (one.experiment_id, -self.observers.index(one.observer)))
        return list({one.experiment_id: one for one in mine}.values())

    def _has(self, one: BookedEpsilon) -> bool:
        return (
            one.federation_id in self.federation_ids
            and one.book == self.book
            and one.adjacency == self.adjacency
            and one.observer in self.observers
            and agree(self.for_clients, one.unit_key)
        )


def agree(one: str, other: str) -> bool:
    """Whether two keys may be of the same clients: '' was not recorded, and counts with all."""
    return one == other or "" in (one, other)


@dataclass
class CountedEpsilons:
    """The reservations that a budget counts, and their sum."""

    rows: list[BookedEpsilon]
    kinds: set[tuple[str | None, str]] = field(init=False)
    """Units and keys of those whom they are about."""
    curve: _Curve | None = field(init=False, default=None)
    """The sum of their divergences; None where there are none."""

    def __post_init__(self) -> None:
        self.kinds = {(one.unit, one.unit_key) for one in self.rows}
        curves = [one.curve for one in self.rows if one.curve is not None]
        if curves:
            self.curve = np.sum(curves, axis=0)

    def add(self, rows: Iterable[BookedEpsilon]) -> None:
        """Counts more, of experiments that are not counted yet."""
        for one in rows:
            self.rows.append(one)
            self.kinds.add((one.unit, one.unit_key))
            if one.curve is not None:
                self.curve = one.curve if self.curve is None else self.curve + one.curve


@dataclass
class HeldContents:
    """By federation, or by what a repository asks for."""

    federations: dict[str, Federation] = field(default_factory=dict)
    """Those that are locked, by their ids."""
    ids: set[str] = field(default_factory=set)
    """Of all federations, of other projects as well, whose content is locked."""
    sharings: dict[tuple[str, BudgetsAcross, str], Sharing] = field(default_factory=dict)
    rows: dict[str, list[BookedBudget]] = field(default_factory=dict)
    made: list[BookedEpsilon] = field(default_factory=list)
    """Reserved in this transaction; they may not be in the database yet."""
    counted: dict[Counts, CountedEpsilons] = field(default_factory=dict)

    def forget(self) -> None:
        """Read again what may have changed; the locks stay."""
        self.sharings.clear()
        self.rows.clear()
        self.counted.clear()

    def reserved(self, of_experiment: Sequence[BookedEpsilon]) -> None:
        """Counts what was reserved for one experiment."""
        self.made.extend(of_experiment)
        for counts, counted in self.counted.items():
            counted.add(counts.chosen(of_experiment))


def held_contents(session: Session) -> HeldContents:
    """Those of a session's transaction."""
    held: HeldContents = session.info.setdefault(_HELD, HeldContents())
    return held
