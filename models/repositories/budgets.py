"""Reservations of what adds up: leakage of one radius and clip, and the theorem's own sum.

A budget belongs to the data and not to a run: ten runs on one federation spend ten times. Epsilons
are composed (`epsilon_budgets`).
"""

from collections.abc import Mapping
from typing import assert_never

import numpy as np
from sqlalchemy import Double, bindparam, case, func, literal, select, update

from models.epsilon_costs import Shortage
from models.leakage_terms import LeakageTerms
from models.repositories.base import table_of
from models.repositories.contents.budget_rows import (
    HELD,
    SETTLED,
    BudgetRows,
    check_amount,
    is_budget,
    is_reservation,
    key_of,
)
from models.repositories.contents.held_contents import held_contents
from models.tables.federations import Federation
from models.tables.reservations import BUDGET_KEY, FederationBudget, Reservation
from models.values import Budget, BudgetFigure

_LEAKAGE: BudgetFigure = "leakage"
_LOG_RATIO: BudgetFigure = "log_ratio"
_ADDED_UP = (_LEAKAGE, _LOG_RATIO)
_BUDGET = table_of(FederationBudget)
_ENLARGE = (
    update(_BUDGET)
    .where(*(_BUDGET.c[name] == bindparam(f"of_{name}") for name in BUDGET_KEY))
    .values(reserved=_BUDGET.c.reserved + bindparam("more", type_=Double))
)
_UNBOUNDED = 1e300
"""What no total has room for: of rounds that nothing bounds."""


class BudgetRepository(BudgetRows):
    """Reservations on a project's federations of what adds up: leakage, and the theorem's sum."""

    def shortage(
        self,
        federation_id: str,
        *,
        book: str,
        amount: float,
        terms: LeakageTerms | None,
        unit_key: str = "",
    ) -> tuple[Budget, Shortage] | None:
        """The first total that cannot bear so much more, and why; None where all can.

        `terms`: of leakage; None for the theorem's sum. Exact until the transaction ends. Raises
        LookupError where the project has no such federation.
        """
        self._lock(federation_id)
        pool = self._pool(self._sum(federation_id, book, terms=terms, unit_key=unit_key))
        return pool.shortage(unit_key, amount)

    def reserve(
        self,
        federation_id: str,
        *,
        experiment_id: str,
        book: str,
        amount: float,
        terms: LeakageTerms,
        unit_key: str = "",
    ) -> bool:
        """Reserves leakage for an experiment; False, and nothing changed, without room for it.

        The content is locked, so that two experiments cannot both take the last room. Where nobody
        has set a bound the amount is booked all the same. `unit_key`: how its clients are told
        apart; '' counts as the same as any. Raises LookupError where the project has no such
        federation, ValueError for an amount that is negative or infinite.
        """
        check_amount("amount", amount)
        return self._reserve(
            federation_id, experiment_id, amount, book=book, terms=terms, unit_key=unit_key
        )

    def reserve_log_ratio(
        self,
        federation_id: str,
        *,
        experiment_id: str,
        book: str,
        amount: float,
        of_one_release: float,
        unit_key: str = "",
    ) -> bool:
        """Reserves the theorem's sum, as `reserve` does leakage; releases spend `of_one_release`
        each."""
        check_amount("amount", amount)
        check_amount("of_one_release", of_one_release)
        return self._reserve(
            federation_id,
            experiment_id,
            amount,
            book=book,
            terms=None,
            unit_key=unit_key,
            step=np.array([of_one_release]),
        )

    def draw(self, experiment_id: str, *, spent: float, releases: int) -> bool:
        """Books that the experiment has leaked `spent` in all by so many releases of one client,
        before the noise is drawn.

        Absolute, so that a repeat changes nothing. More than was reserved is taken from what is
        left of the budgets; False, and nothing changed, where one has no room for it: nothing may
        then be released. True where the experiment has nothing reserved.
        """
        check_amount("spent", spent)
        after = [
            (one, max(one.spent, _spent(one, leakage=spent, releases=releases)))
            for one in self.held(experiment_id)
        ]
        enlarged: list[tuple[dict[str, object], float]] = []
        for one, amount in after:
            missing = amount - one.amount
            if missing <= 0:
                continue
            if not self._has_enlarged(one, missing):
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

    def rebook(
        self,
        experiment_id: str,
        *,
        held: Mapping[BudgetFigure, float],
        spent: Mapping[BudgetFigure, float] | None,
        within_totals: bool,
    ) -> bool:
        """Books other sums for what is held: `held` in all, of which `spent` is spent.

        Of what is charged by histories and not by equal releases. `spent`: None leaves it as it is;
        it never falls. Without `within_totals` it is booked whether there is room or not, as what
        has happened is; with it False, and nothing changed, where a total has no room. True where
        nothing is held.
        """
        mine = self.held(experiment_id)
        most = {figure: min(amount, _UNBOUNDED) for figure, amount in held.items()}
        if within_totals and not all(self._bears(one, most[one.figure]) for one in mine):
            return False
        for one in mine:
            paid = one.spent
            if spent is not None:
                paid = max(paid, min(spent[one.figure], _UNBOUNDED))
            self._execute(
                update(Reservation)
                .where(is_reservation(one))
                .values(spent=paid, amount=max(most[one.figure], paid))
            )
            self._book_anew(key_of(one), spend=paid - one.spent)
        return True

    def settle(self, experiment_id: str, *, spent: float, releases: int) -> bool:
        """Ends the reservations: what was not spent returns to the budgets.

        Never less than was drawn already. False where nothing was held, so that a second call
        changes nothing.
        """
        check_amount("spent", spent)
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
        self, federation_id: str, book: str, *, terms: LeakageTerms | None, unit_key: str
    ) -> dict[str, object]:
        return self._key(
            federation_id,
            book=book,
            figure=_LOG_RATIO if terms is None else _LEAKAGE,
            delta=0.0,
            adjacency="" if terms is None else terms.key,
            observer="",
            unit_key=unit_key,
        )

    def _reserve(
        self,
        federation_id: str,
        experiment_id: str,
        amount: float,
        *,
        book: str,
        terms: LeakageTerms | None,
        unit_key: str,
        **values: object,
    ) -> bool:
        if self.shortage(federation_id, book=book, amount=amount, terms=terms, unit_key=unit_key):
            return False
        key = self._sum(federation_id, book, terms=terms, unit_key=unit_key)
        self._write(_ENLARGE, [_enlarged(key, amount)])
        values = {**key, "experiment_id": experiment_id, "amount": amount, "spent": 0.0, **values}
        self._insert(Reservation, [{"step": None, **values, "state": HELD}])
        row = self._known(key)
        if row is not None:
            row.reserved += amount
            row.busy = True
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

    def _bears(self, reservation: Reservation, amount: float) -> bool:
        """Whether every total has room if this held reservation has another amount; not where a
        total is passed already."""
        self._lock(reservation.federation_id)
        more = amount - reservation.amount
        return not self._pool(key_of(reservation)).without_room(reservation.unit_key, more)

    def _has_enlarged(self, reservation: Reservation, missing: float) -> bool:
        """Takes more than was reserved; False, and nothing changed, where a total has no room."""
        self._lock(reservation.federation_id)
        key = key_of(reservation)
        if self._pool(key).without_room(reservation.unit_key, missing):
            return False
        self._enlarge(key, missing)
        return True

    def _enlarge(self, key: dict[str, object], amount: float) -> None:
        self.session.execute(_ENLARGE, _enlarged(key, amount))
        held_contents(self.session).rows.clear()

    def _book_anew(self, key: dict[str, object], *, spend: float) -> None:
        """Adds to what is spent, and adds up anew what is reserved.

        A ledger may hold any amount and give it back: taken off a sum, it would take along what
        the sum had lost of smaller ones.
        """
        # Whoever else books changes this row before reservations. Held, it lets the next statement
        # see all that they did, and none of them come in between.
        self._one(select(FederationBudget).where(is_budget(key)).with_for_update())
        columns = Reservation.__table__.c
        left = select(func.coalesce(func.sum(Reservation.amount - Reservation.spent), 0.0)).where(
            Reservation.state == HELD, *(columns[name] == value for name, value in key.items())
        )
        self._execute(
            update(FederationBudget)
            .where(is_budget(key))
            .values(reserved=left.scalar_subquery(), spent=FederationBudget.spent + spend)
        )
        held_contents(self.session).rows.clear()

    def _book(self, key: dict[str, object], *, unreserve: float, spend: float) -> None:
        rest = FederationBudget.reserved - literal(unreserve, Double)
        self._execute(
            update(FederationBudget)
            .where(is_budget(key))
            # Sums of floats may end a rounding below zero.
            .values(
                reserved=case((rest < 0, 0.0), else_=rest), spent=FederationBudget.spent + spend
            )
        )
        held_contents(self.session).rows.clear()


def _enlarged(key: dict[str, object], amount: float) -> dict[str, object]:
    """What `_ENLARGE` is given."""
    return {"more": amount, **{f"of_{name}": value for name, value in key.items()}}


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
