"""Budgets on a federation's data: reserved before a release, booked when it is known.

A budget belongs to the data and not to a run: ten runs on one federation spend ten times. Leakage
of one radius and clip adds up, and so does the theorem's own sum, whatever the radius: they are
kept here as sums. Epsilons are composed (`epsilon_budgets`).
"""

import math
from collections.abc import Iterable
from typing import assert_never

import numpy as np
from sqlalchemy import ColumnElement, Double, Select, and_, case, literal, or_, select, update

from models.leakage_terms import LeakageTerms
from models.repositories.base import ScopedRepository
from models.tables.federations import Federation, FederationBudget, Reservation
from models.values import Budget, BudgetFigure

# A total such as 1.2 must have room for three times 0.4, whose sum in floating point lies above.
ROUNDING = 1e-12

HELD, SETTLED = "held", "settled"
_LEAKAGE: BudgetFigure = "leakage"
_LOG_RATIO: BudgetFigure = "log_ratio"
_ADDED_UP = (_LEAKAGE, _LOG_RATIO)


class BudgetRows(ScopedRepository):
    """The budgets of a project's federations, whatever their figure."""

    def budgets(self, federation_id: str) -> list[Budget]:
        """Every budget that was set or spent from.

        Of an epsilon without what is reserved and spent, which `EpsilonBudgetRepository` composes.
        """
        rows = self._all(
            self._select(FederationBudget)
            .where(FederationBudget.federation_id == federation_id)
            .order_by(*FederationBudget.__table__.primary_key)
        )
        return [_budget(row) for row in rows]

    def set_budget(
        self,
        federation_id: str,
        *,
        book: str,
        figure: BudgetFigure,
        total: float | None,
        delta: float | None = None,
        adjacency: str | None = None,
        observer: str | None = None,
        terms: LeakageTerms | None = None,
    ) -> Budget:
        """Sets a bound; one below what is spent only stops what is still to come.

        `terms`: of leakage, and then needed. A total of leakage in the same book that was set
        before radius and clip were recorded, and so refuses every run, is replaced by it. Raises
        LookupError where the project has no such federation, ValueError where the total is
        negative or not finite, or leakage has no terms.
        """
        if (figure == _LEAKAGE) != (terms is not None):
            raise ValueError("terms: leakage, and nothing else, has a radius and a clip")
        if total is not None:
            _check_amount("total", total)
        self._lock(federation_id)
        key = self._key(
            federation_id,
            book=book,
            figure=figure,
            delta=delta or 0.0,
            adjacency=(adjacency or "") if terms is None else terms.key,
            observer=observer or "",
        )
        if terms is not None:
            unknown = {**key, "adjacency": ""}
            self._execute(update(FederationBudget).where(_is(unknown)).values(total=None))
        self._execute(update(FederationBudget).where(_is(key)).values(total=total))
        return _budget(self.session.scalars(self._budget(key)).one())

    def _lock(self, federation_id: str) -> None:
        """Until the transaction ends nobody else reserves epsilons, or sets a budget."""
        mine = self._select(Federation).where(Federation.id == federation_id)
        # The weaker lock: it does not stop rows from being added that refer to this one.
        self._one(mine.with_for_update(key_share=True))

    def _budget(self, key: dict[str, object]) -> Select[FederationBudget]:
        return select(FederationBudget).where(_is(key)).execution_options(populate_existing=True)

    def _key(self, federation_id: str, **rest: str | float) -> dict[str, object]:
        """The key of a budget, which exists from now on."""
        mine = self._select(Federation).where(Federation.id == federation_id)
        if self._one(mine) is None:
            raise LookupError(f"federation {federation_id}: this project has no such federation")
        key: dict[str, object] = {"federation_id": federation_id, **rest}
        empty = {"project_id": self.project_id, "total": None, "reserved": 0.0, "spent": 0.0}
        self._insert_absent(FederationBudget, {**key, **empty})
        return key


class BudgetRepository(BudgetRows):
    """Reservations on a project's federations of what adds up: leakage, and the theorem's sum."""

    def reserve(
        self,
        federation_id: str,
        *,
        experiment_id: str,
        book: str,
        amount: float,
        terms: LeakageTerms,
    ) -> bool:
        """Reserves leakage for an experiment; False, and nothing changed, without room for it.

        One conditional UPDATE decides, so that two experiments cannot both take the last room.
        Where nobody has set a bound the amount is booked all the same. Raises LookupError where
        the project has no such federation, ValueError for an amount that is negative or infinite.
        """
        key = self._sum(federation_id, book, _LEAKAGE, adjacency=terms.key)
        return self._reserve(key, experiment_id, amount)

    def reserve_log_ratio(
        self,
        federation_id: str,
        *,
        experiment_id: str,
        book: str,
        amount: float,
        of_one_release: float,
    ) -> bool:
        """Reserves the theorem's sum, as `reserve` does leakage; releases spend `of_one_release`
        each."""
        _check_amount("of_one_release", of_one_release)
        key = self._sum(federation_id, book, _LOG_RATIO, adjacency="")
        return self._reserve(key, experiment_id, amount, step=np.array([of_one_release]))

    def draw(self, experiment_id: str, *, spent: float, releases: int) -> bool:
        """Books that the experiment has leaked `spent` in all by so many releases of one client,
        before the noise is drawn.

        Absolute, so that a repeat changes nothing. More than was reserved is taken from what is
        left of the budgets; False, and nothing changed, where one has no room for it: nothing may
        then be released. True where the experiment has nothing reserved.
        """
        _check_amount("spent", spent)
        after = [
            (one, max(one.spent, _spent(one, leakage=spent, releases=releases)))
            for one in self.held(experiment_id)
        ]
        enlarged: list[tuple[dict[str, object], float]] = []
        for one, amount in after:
            missing = amount - one.amount
            if missing <= 0:
                continue
            if not self._enlarge(key_of(one), missing):
                for key, taken in enlarged:
                    self._book(key, unreserve=taken, spend=0.0)
                return False
            enlarged.append((key_of(one), missing))
        for one, amount in after:
            more = amount - one.spent
            if more <= 0:
                continue
            self._book(key_of(one), unreserve=more, spend=more)
            self._execute(
                update(Reservation)
                .where(is_reservation(one))
                .values(spent=amount, amount=max(one.amount, amount))
            )
        return True

    def settle(self, experiment_id: str, *, spent: float, releases: int) -> bool:
        """Ends the reservations: what was not spent returns to the budgets.

        Never less than was drawn already. False where nothing was held, so that a second call
        changes nothing.
        """
        _check_amount("spent", spent)
        held = self.held(experiment_id)
        for one in held:
            self._settle(one, _spent(one, leakage=spent, releases=releases))
        return bool(held)

    def settle_in_full(self, experiment_id: str) -> bool:
        """Ends the reservations as if all that was reserved were spent; False as with `settle`."""
        held = self.held(experiment_id)
        for one in held:
            self._settle(one, one.amount)
        return bool(held)

    def held(self, experiment_id: str) -> list[Reservation]:
        """The reservations of sums that are not settled, locked for this transaction."""
        mine = self._select(Federation).with_only_columns(Federation.id)
        return self._all(
            select(Reservation)
            .where(
                Reservation.experiment_id == experiment_id,
                Reservation.figure.in_(_ADDED_UP),
                Reservation.state == HELD,
                Reservation.federation_id.in_(mine),
            )
            # The order in which budgets are locked, the same for all.
            .order_by(Reservation.figure)
            .with_for_update()
        )

    def _sum(
        self, federation_id: str, book: str, figure: BudgetFigure, *, adjacency: str
    ) -> dict[str, object]:
        return self._key(
            federation_id, book=book, figure=figure, delta=0.0, adjacency=adjacency, observer=""
        )

    def _reserve(
        self, key: dict[str, object], experiment_id: str, amount: float, **values: object
    ) -> bool:
        _check_amount("amount", amount)
        if not self._enlarge(key, amount):
            return False
        values = {**key, "experiment_id": experiment_id, "amount": amount, "spent": 0.0, **values}
        self._insert(Reservation, [{**values, "state": HELD}])
        return True

    def _settle(self, reservation: Reservation, amount: float) -> None:
        spent = max(amount, reservation.spent)
        self._book(
            key_of(reservation),
            unreserve=reservation.amount - reservation.spent,
            spend=spent - reservation.spent,
        )
        self._execute(
            update(Reservation)
            .where(is_reservation(reservation))
            .values(state=SETTLED, spent=spent)
        )

    def _enlarge(self, key: dict[str, object], amount: float) -> bool:
        after = FederationBudget.reserved + FederationBudget.spent + literal(amount, Double)
        room = or_(
            FederationBudget.total.is_(None), after <= FederationBudget.total * (1.0 + ROUNDING)
        )
        reserve = update(FederationBudget).where(_is(key), room)
        return bool(self._execute(reserve.values(reserved=FederationBudget.reserved + amount)))

    def _book(self, key: dict[str, object], *, unreserve: float, spend: float) -> None:
        rest = FederationBudget.reserved - literal(unreserve, Double)
        self._execute(
            update(FederationBudget)
            .where(_is(key))
            # Sums of floats may end a rounding below zero.
            .values(
                reserved=case((rest < 0, 0.0), else_=rest), spent=FederationBudget.spent + spend
            )
        )


def of_figure(budgets: Iterable[Budget], book: str, figure: BudgetFigure) -> list[Budget]:
    """Those of one book and figure."""
    return [one for one in budgets if (one.book, one.figure) == (book, figure)]


def _spent(reservation: Reservation, *, leakage: float, releases: int) -> float:
    """What a reservation spends by so many releases that leak this much in all."""
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


def _check_amount(field: str, amount: float) -> None:
    if not (math.isfinite(amount) and amount >= 0):
        raise ValueError(f"{field}: {amount} is not a finite number of at least 0")


def _is(key: dict[str, object]) -> ColumnElement[bool]:
    return and_(*(FederationBudget.__table__.c[name] == value for name, value in key.items()))


def key_of(reservation: Reservation) -> dict[str, object]:
    """The key of the budget that it is on."""
    names = ("federation_id", "book", "figure", "delta", "adjacency", "observer")
    return {name: getattr(reservation, name) for name in names}


def is_reservation(reservation: Reservation) -> ColumnElement[bool]:
    """The condition that a row is just this one."""
    key = {**key_of(reservation), "experiment_id": reservation.experiment_id}
    return and_(*(Reservation.__table__.c[name] == value for name, value in key.items()))


def _budget(row: FederationBudget) -> Budget:
    leakage = row.figure == _LEAKAGE
    return Budget(
        book=row.book,
        figure=row.figure,
        delta=row.delta or None,
        adjacency=None if leakage else row.adjacency or None,
        observer=row.observer or None,
        total=row.total,
        reserved=row.reserved,
        spent=row.spent,
        terms=LeakageTerms.read(row.adjacency) if leakage else None,
    )
