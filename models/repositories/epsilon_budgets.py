"""Budgets of epsilons: composed over all experiments on a federation's data, not added up.

Each reservation keeps a curve of Renyi divergences, which do add up, whatever the deltas of the
experiments; only their sum is turned into an epsilon, at the delta of the budget. How, the caller
says (`Price`). A held reservation counts with the worst case of its whole run, a settled one with
what was spent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select, update

from models.arrays import BINARY_RESULTS
from models.epsilon_costs import EpsilonCost, EpsilonRefusal, Shortage
from models.repositories.base import table_of
from models.repositories.contents.budget_pools import ROUNDING
from models.repositories.contents.budget_rows import (
    HELD,
    SETTLED,
    BudgetRows,
    is_reservation,
    of_figure,
)
from models.repositories.contents.held_contents import (
    BOOKED_COLUMNS,
    BookedEpsilon,
    CountedEpsilons,
    Counts,
    agree,
    held_contents,
)
from models.tables.declared_ledgers import DeclaredLedger
from models.tables.federations import Federation
from models.tables.reservations import Reservation
from models.values import Budget, BudgetFigure

Curve = NDArray[np.float64]
Price = Callable[[Curve, float], float]
"""From a sum of curves and a delta to an epsilon."""

_Booked = Reservation | BookedEpsilon

_FIGURE: BudgetFigure = "epsilon"
_RESERVED = table_of(Reservation).c
_READ = select(*(_RESERVED[name] for name in BOOKED_COLUMNS)).where(_RESERVED.figure == _FIGURE)
# An order without a bound. JSON has no infinity, and an order that is so large is never the best.
_UNBOUNDED = 1e300
_SERVER, _FINAL_MODEL = "server", "final_model"
REPORT = "report"
"""Counts what is published of the people held out of training, whatever training costs."""


class EpsilonBudgetRepository(BudgetRows):
    """Reservations of epsilon on a project's federations."""

    def composed(self, federation_id: str, budget: Budget, price: Price) -> Budget:
        """A budget with what is reserved and spent of it.

        `spent` is composed of what was spent; `reserved` is what all that is held adds to it.
        Figures of clients and of records are composed apart, and so are those of clients that are
        told apart otherwise; the largest one is shown: no theorem covers them together.
        """
        shown = replace(budget, spent=0.0, reserved=0.0, declared=0.0)
        counted = self._counted(federation_id, budget).rows
        ledgers = self._declared_ledgers(federation_id) if counted else frozenset()
        for whose in _groups(counted):
            mine = [one for one in counted if _is_about(one, whose)]
            spent, reserved = _amounts(mine, budget, price)
            if shown.unit is None or spent + reserved > shown.spent + shown.reserved:
                others = [one for one in mine if one.federation_id != federation_id]
                others_spent, others_reserved = _amounts(others, budget, price)
                declared = [one for one in mine if one.experiment_id in ledgers]
                shown = replace(
                    shown,
                    spent=spent,
                    reserved=reserved,
                    unit=whose[0],
                    unit_key=whose[1] or None,
                    others_spent=others_spent,
                    others_reserved=others_reserved,
                    declared=_amounts(declared, budget, price)[0],
                )
        return shown

    def reserve(
        self,
        federation_id: str,
        *,
        experiment_id: str,
        book: str,
        costs: Sequence[EpsilonCost],
        price: Price,
    ) -> EpsilonRefusal | None:
        """Reserves the worst case against every observer; a refusal, and nothing changed,
        otherwise.

        `costs`: of training, or those against readers of the report. Every budget of the book with
        a total for such costs must be able to count the experiment, and have room for it. The
        content is locked for the rest of the transaction, so that two experiments cannot both take
        the last room. Raises LookupError where the project has no such federation.
        """
        self._lock(federation_id)
        of_report = any(cost.observer == REPORT for cost in costs)
        for budget in self._bounded(federation_id, book):
            if counts_report(budget.observer) != of_report:
                continue
            refusal = self._refusal(federation_id, budget, costs, price)
            if refusal is not None:
                return refusal
        made = []
        for cost in costs:
            key = self._key(
                federation_id,
                book=book,
                figure=_FIGURE,
                delta=cost.delta,
                adjacency=cost.adjacency,
                observer=cost.observer,
                unit_key=cost.unit_key,
            )
            booked = BookedEpsilon(
                experiment_id=experiment_id,
                federation_id=federation_id,
                book=book,
                adjacency=cost.adjacency,
                observer=cost.observer,
                unit_key=cost.unit_key,
                unit=cost.unit,
                curve=np.minimum(cost.curve, _UNBOUNDED),
                step=np.minimum(cost.step, _UNBOUNDED),
                compositions=0,
            )
            amounts = {"amount": cost.epsilon, "spent": 0.0, "planned": cost.compositions}
            self._insert(Reservation, [{**key, **vars(booked), **amounts, "state": HELD}])
            made.append(booked)
            if (known := self._known(key)) is not None:
                known.busy = True
        held_contents(self.session).reserved(made)
        return None

    def draw(self, experiment_id: str, compositions: Mapping[str, int], *, price: Price) -> bool:
        """Books that so many compositions are spent against each observer, before noise is drawn.

        In all, so that a repeat changes nothing. More than was reserved is taken from what is left
        of the budgets; False, and nothing changed, where one has no room for it: nothing may then
        be released. True where the experiment has nothing reserved. What is held against other
        observers stays as it is.
        """
        held = [one for one in self.held(experiment_id) if one.observer in compositions]
        for one in held:
            if not self._has_room(one, _enlarged(one, compositions[one.observer]), price):
                return False
        for one in held:
            count = compositions[one.observer]
            if count > (one.compositions or 0):
                self._change(one, compositions=count, curve=_enlarged(one, count))
        return True

    def rebook(
        self, experiment_id: str, *, held: Curve, spent: Curve | None, price: Price | None
    ) -> bool:
        """Books other divergences for what is held: `held` in all, of which `spent` is spent.

        Of what is charged by histories and not by equal compositions. `spent`: None leaves it as it
        is. `price`: None books it whether there is room or not, as for what has happened; otherwise
        False, and nothing changed, where a budget has no room, or is passed already. True where
        nothing is held.
        """
        mine = self.held(experiment_id)
        most = np.minimum(held, _UNBOUNDED)
        if price is not None and not all(self._bears(one, most, price) for one in mine):
            return False
        values: dict[str, object] = {"curve": most}
        if spent is not None:
            values |= {"step": np.minimum(spent, _UNBOUNDED), "compositions": 1}
        for one in mine:
            self._change(one, **values)
        return True

    def settle(self, experiment_id: str, compositions: Mapping[str, int]) -> bool:
        """Ends the reservations: what was not spent returns to the budgets.

        Never less than was drawn already. False where nothing was held, so that a second call
        changes nothing.
        """
        held = self.held(experiment_id)
        for one in held:
            count = max(compositions[one.observer], one.compositions or 0)
            self._change(one, state=SETTLED, compositions=count, curve=_after(one, count))
        return bool(held)

    def held(self, experiment_id: str) -> list[Reservation]:
        """The reservations that are not settled, locked for this (write) transaction."""
        mine = self._select(Federation).with_only_columns(Federation.id)
        return self._all(
            select(Reservation)
            .where(
                Reservation.experiment_id == experiment_id,
                Reservation.figure == _FIGURE,
                Reservation.state == HELD,
                Reservation.federation_id.in_(mine),
            )
            .order_by(Reservation.observer)
            .with_for_update()
        )

    def _bounded(self, federation_id: str, book: str) -> list[Budget]:
        budgets = self.budgets(federation_id, shown=False)
        return [one for one in of_figure(budgets, book, _FIGURE) if one.total is not None]

    def _like(self, federation_id: str, budget: Budget) -> list[Budget]:
        """The totals that differ from a budget in the clients that they name, if in anything."""
        return [
            one
            for one in self._bounded(federation_id, budget.book)
            if (one.delta, one.adjacency, one.observer)
            == (budget.delta, budget.adjacency, budget.observer)
        ]

    def _refusal(
        self, federation_id: str, budget: Budget, costs: Sequence[EpsilonCost], price: Price
    ) -> EpsilonRefusal | None:
        seen = _comparable(budget, costs)
        if isinstance(seen, str):
            return self._refused(federation_id, budget, seen, price)
        if not agree(budget.for_clients, seen.unit_key):
            # It is counted under the total that names its clients, or none's, where there is one.
            others = self._like(federation_id, budget)
            if any(one.for_clients in ("", seen.unit_key) for one in others):
                return None
            return self._refused(federation_id, budget, "other-clients", price)
        counted = self._counted(federation_id, budget)
        shortage = _other_units(counted, seen)
        if shortage is not None:
            return self._refused(federation_id, budget, shortage, price)
        with_others = [seen.curve] if counted.curve is None else [seen.curve, counted.curve]
        if _fits(_priced(with_others, budget, price), budget):
            return None
        return EpsilonRefusal(
            self.composed(federation_id, budget, price),
            "no-room",
            requested=_priced([seen.curve], budget, price),
            composed_total=_priced([seen.curve, *map(_curve, counted.rows)], budget, price),
        )

    def _refused(
        self, federation_id: str, budget: Budget, shortage: Shortage, price: Price
    ) -> EpsilonRefusal:
        return EpsilonRefusal(self.composed(federation_id, budget, price), shortage)

    def _has_room(self, mine: Reservation, curve: Curve, price: Price) -> bool:
        """Whether every budget can bear it if this held reservation has another curve."""
        if np.array_equal(curve, _curve(mine)):
            return True
        return self._bears(mine, curve, price)

    def _bears(self, mine: Reservation, curve: Curve, price: Price) -> bool:
        self._lock(mine.federation_id)
        for budget in self._bounded(mine.federation_id, mine.book):
            counted = [
                one
                for one in self._counted(mine.federation_id, budget).rows
                if _is_about(one, (mine.unit or "", mine.unit_key))
            ]
            if any(_same(one, mine) for one in counted):
                curves = [curve if _same(one, mine) else _curve(one) for one in counted]
                if not _fits(_priced(curves, budget, price), budget):
                    return False
        return True

    def _counted(self, federation_id: str, budget: Budget) -> CountedEpsilons:
        """The reservations that a budget counts: one of each experiment that it can count, of every
        project whose spending counts."""
        sharing, held = self._sharing(federation_id), held_contents(self.session)
        counts = Counts.of(sharing, budget, observers=counts_for(budget))
        if not held.ids.issuperset(counts.federation_ids):
            return CountedEpsilons(counts.chosen(self._of_epsilon(counts)))
        if counts not in held.counted:
            stored = {one.key: one for one in self._of_epsilon(counts)}
            made = {one.key: one for one in held.made}
            held.counted[counts] = CountedEpsilons(counts.chosen((made | stored).values()))
        return held.counted[counts]

    def _of_epsilon(self, counts: Counts) -> list[BookedEpsilon]:
        rows = self.session.execute(
            _READ.where(
                _RESERVED.federation_id.in_(counts.federation_ids),
                _RESERVED.book == counts.book,
                _RESERVED.adjacency == counts.adjacency,
                _RESERVED.observer.in_(counts.observers),
            ),
            execution_options=BINARY_RESULTS,
        )
        return [BookedEpsilon(**row) for row in rows.mappings()]

    def _declared_ledgers(self, federation_id: str) -> frozenset[str]:
        """Those that draw on this content, of every project whose spending counts."""
        sharing = self._sharing(federation_id)
        ids = () if sharing is None else sharing.ids
        mine = select(DeclaredLedger.id).where(DeclaredLedger.federation_id.in_(ids))
        return frozenset(self.session.scalars(mine))

    def _change(self, reservation: Reservation, **values: object) -> None:
        self._execute(update(Reservation).where(is_reservation(reservation)).values(values))
        held_contents(self.session).counted.clear()


def counts_report(observer: str | None) -> bool:
    """Whether a budget or cost is about people held out of training, and not about those who
    train."""
    return observer == REPORT


def counts_for(budget: Budget) -> tuple[str, ...]:
    """The observers whose figures bound the budget's, the best first.

    Whatever holds against the server holds for those who see less.
    """
    if budget.observer == _FINAL_MODEL:
        return (_FINAL_MODEL, _SERVER)
    return (budget.observer or "",)


def _comparable(budget: Budget, costs: Sequence[EpsilonCost]) -> EpsilonCost | Shortage:
    """The cost that a budget can compare with what it counts, or why there is none."""
    fitting = [cost for cost in costs if cost.adjacency == budget.adjacency]
    if not fitting:
        return "other-adjacency"
    seen = [cost for cost in fitting if cost.observer in counts_for(budget)]
    if not seen:
        return "other-observer"
    return min(seen, key=lambda one: counts_for(budget).index(one.observer))


def _other_units(counted: CountedEpsilons, cost: EpsilonCost) -> Shortage | None:
    """Why a cost cannot be composed with what is counted, if it cannot."""
    if any(unit != cost.unit for unit, _ in counted.kinds):
        return "other-unit"
    alike = all(agree(unit_key, cost.unit_key) for _, unit_key in counted.kinds)
    return None if alike else "other-clients"


def _is_about(reservation: _Booked, whose: tuple[str, str]) -> bool:
    """Whether it counts for a unit and its key."""
    unit, unit_key = whose
    return reservation.unit == unit and agree(reservation.unit_key, unit_key)


def _groups(counted: Sequence[_Booked]) -> list[tuple[str, str]]:
    """The units and keys that are composed apart."""
    found = {(one.unit, one.unit_key) for one in counted if one.unit is not None}
    known = {unit for unit, unit_key in found if unit_key}
    return sorted((unit, key) for unit, key in found if key or unit not in known)


def _amounts(reservations: Sequence[_Booked], budget: Budget, price: Price) -> tuple[float, float]:
    """What they have spent, and what they may spend beside it."""
    spent = _priced([_after(one, one.compositions or 0) for one in reservations], budget, price)
    in_all = _priced([_curve(one) for one in reservations], budget, price)
    return spent, max(0.0, in_all - spent)


def _priced(curves: Sequence[Curve], budget: Budget, price: Price) -> float:
    return price(np.sum(curves, axis=0), budget.delta or 0.0) if curves else 0.0


def _fits(in_all: float, budget: Budget) -> bool:
    return budget.total is None or in_all <= budget.total * (1.0 + ROUNDING)


def _same(one: _Booked, other: _Booked) -> bool:
    return (one.experiment_id, one.observer) == (other.experiment_id, other.observer)


def _curve(reservation: _Booked) -> Curve:
    assert reservation.curve is not None
    return reservation.curve


def _steps(reservation: _Booked, count: int) -> Curve:
    assert reservation.step is not None
    largest = _UNBOUNDED / max(count, 1)
    many: Curve = count * np.minimum(reservation.step, largest)
    return many


def _after(reservation: _Booked, count: int) -> Curve:
    """What so many compositions come to, which is no more than all that is booked."""
    return np.minimum(_curve(reservation), _steps(reservation, count))


def _enlarged(reservation: Reservation, count: int) -> Curve:
    """What must be booked for so many compositions: more only where more than planned is spent."""
    if count <= (reservation.planned or 0):
        return _curve(reservation)
    return np.maximum(_curve(reservation), _steps(reservation, count))
