"""The budgets of a federation's content: which there are, who may set them, whom they hold for.

With budgets across the service the spending of every project on one content counts together. The
project that registered the content first, or was the first to set a budget on it, owns it: its
totals hold for all, and another project's hold for itself alone, so that no stranger can stop the
owner and none can raise what the owner has set. Whoever reserves locks the content.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from sqlalchemy import ColumnElement, and_, case, func, select, update
from sqlalchemy.orm import Session

from models.leakage_terms import LeakageTerms
from models.repositories.base import ScopedRepository
from models.repositories.contents.budget_pools import Pool, Sharing
from models.tables.declared.declared_ledgers import DeclaredLedger
from models.tables.federations import Content, Federation
from models.tables.reservations import BUDGET_KEY, FederationBudget, Reservation
from models.values import Budget, BudgetFigure, BudgetsAcross

HELD, SETTLED = "held", "settled"
_LEAKAGE: BudgetFigure = "leakage"
POOL = ("book", "figure", "delta", "adjacency", "observer")


class Spending:
    """By pool, the keys of the clients for whom there are reservations, and how much of what was
    spent by them trainers elsewhere declare (of sums; an epsilon is composed)."""

    def __init__(self) -> None:
        self._declared: defaultdict[tuple[object, ...], defaultdict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )

    def add(self, pool: tuple[object, ...], unit_key: str, *, declared: float) -> None:
        """A reservation, or several of one pool and key."""
        self._declared[pool][unit_key] += declared

    def keys(self, pool: tuple[object, ...]) -> set[str]:
        """For whom there are any."""
        return set(self._declared[pool])

    def declared(self, pool: tuple[object, ...], unit_key: str | None) -> float:
        """What counts for the clients of a key: theirs, and nobody's in particular."""
        mine = self._declared[pool].items()
        return sum(amount for key, amount in mine if key in (unit_key or "", ""))


class BudgetRows(ScopedRepository):
    """The budgets of a project's federations, whatever their figure."""

    def __init__(
        self, session: Session, project_id: str, *, across: BudgetsAcross = "service"
    ) -> None:
        """`across`: whether the spending of all projects on one content counts together."""
        super().__init__(session, project_id)
        self._across = across

    def budgets(self, federation_id: str) -> list[Budget]:
        """Every budget that was set or spent from.

        Of an epsilon without what is reserved and spent, which `EpsilonBudgetRepository` composes.
        None for a federation of another project.
        """
        sharing = self._sharing(federation_id)
        if sharing is None:
            return []
        pools: dict[tuple[object, ...], list[FederationBudget]] = defaultdict(list)
        for row in self._rows(sharing):
            pools[_values(row, POOL)].append(row)
        spending = self._spending(sharing)
        return [
            replace(budget, declared=spending.declared(key, budget.unit_key))
            for key, rows in pools.items()
            for budget in Pool(rows, sharing).budgets(spending.keys(key))
        ]

    def forbids_simulation(self, federation_id: str) -> bool:
        """Whether this project, or the one whose totals hold for it, admits secret noise alone."""
        sharing = self._sharing(federation_id)
        if sharing is None:
            return False
        forbid = select(Federation.id).where(
            Federation.id.in_({sharing.own_id, sharing.owner_id} - {None}),
            Federation.simulation == "forbidden",
        )
        return self.session.scalars(forbid.limit(1)).first() is not None

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
        unit_key: str | None = None,
    ) -> Budget:
        """Sets this project's bound; one below what is spent only stops what is still to come.

        A content that nobody owns belongs to this project from now on. `terms`: of leakage, and
        then needed. A total of leakage in the same book that was set before radius and clip were
        recorded, and so refuses every run, is replaced by it. `unit_key`: whose clients it is for;
        whoever's come first unless given. Raises LookupError where the project has no such
        federation, ValueError where the total is negative or not finite, or leakage has no terms.
        """
        if (figure == _LEAKAGE) != (terms is not None):
            raise ValueError("terms: leakage, and nothing else, has a radius and a clip")
        if total is not None:
            check_amount("total", total)
        self._lock(federation_id)
        key = self._key(
            federation_id,
            book=book,
            figure=figure,
            delta=delta or 0.0,
            adjacency=(adjacency or "") if terms is None else terms.key,
            observer=observer or "",
            unit_key=unit_key or "",
        )
        if total is not None:
            self._claim(federation_id)
        if terms is not None:
            unknown = {name: value for name, value in key.items() if name != "unit_key"}
            unknown["adjacency"] = ""
            self._execute(update(FederationBudget).where(is_budget(unknown)).values(total=None))
        self._execute(update(FederationBudget).where(is_budget(key)).values(total=total))
        return self._pool(key).budget(unit_key or "")

    def _sharing(self, federation_id: str) -> Sharing | None:
        """The federations that count together with one of this project; None without such a one."""
        own = self._one(self._select(Federation).where(Federation.id == federation_id))
        if own is None:
            return None
        content = self._one(select(Content).where(Content.fingerprint == own.fingerprint))
        if content is None or not counts_together(self._across):
            return sharing_of(own.id, by_project=None, owner=None, across=self._across)
        same = select(Federation.project_id, Federation.id).where(
            Federation.fingerprint == own.fingerprint
        )
        by_project = dict(self.session.execute(same).all())
        owner = content.owner_project_id
        return sharing_of(own.id, by_project=by_project, owner=owner, across=self._across)

    def _rows(self, sharing: Sharing) -> list[FederationBudget]:
        mine = FederationBudget.federation_id.in_(sharing.ids)
        order = [FederationBudget.__table__.c[name] for name in (*POOL, "unit_key")]
        return self._all(select(FederationBudget).where(mine).order_by(*order))

    def _spending(self, sharing: Sharing) -> Spending:
        """For whom there are reservations, and what ledgers of trainings elsewhere spent."""
        columns = [Reservation.__table__.c[name] for name in (*POOL, "unit_key")]
        declared = case((DeclaredLedger.id.is_not(None), Reservation.spent), else_=0.0)
        rows = self.session.execute(
            select(*columns, func.sum(declared))
            .outerjoin(DeclaredLedger, DeclaredLedger.id == Reservation.experiment_id)
            .where(Reservation.federation_id.in_(sharing.ids))
            .group_by(*columns)
        )
        found = Spending()
        for *pool, unit_key, spent in rows:
            found.add(tuple(pool), unit_key, declared=spent)
        return found

    def _pool(self, key: dict[str, object]) -> Pool:
        """All that counts together with a budget of this project."""
        sharing = self._sharing(str(key["federation_id"]))
        if sharing is None:
            raise LookupError(f"federation {key['federation_id']}: not of this project")
        wanted = tuple(key[name] for name in POOL)
        rows = [row for row in self._rows(sharing) if _values(row, POOL) == wanted]
        return Pool(rows, sharing)

    def _lock(self, federation_id: str) -> None:
        """Until the transaction ends nobody else reserves of this content, or sets a budget on it.

        The federation before the content, everywhere, so that nobody waits in a circle.
        """
        mine = self._select(Federation).where(Federation.id == federation_id)
        # The weaker lock: it does not stop rows from being added that refer to this one.
        found = self._one(mine.with_for_update(key_share=True))
        if found is not None:
            content = select(Content).where(Content.fingerprint == found.fingerprint)
            self._one(content.with_for_update())

    def _claim(self, federation_id: str) -> None:
        """A content that nobody owns is this project's from now on."""
        mine = select(Federation.fingerprint).where(
            Federation.id == federation_id, Federation.project_id == self.project_id
        )
        self._execute(
            update(Content)
            .where(
                Content.fingerprint == mine.scalar_subquery(), Content.owner_project_id.is_(None)
            )
            .values(owner_project_id=self.project_id)
        )

    def _key(self, federation_id: str, **rest: str | float) -> dict[str, object]:
        """The key of a budget, which exists from now on."""
        mine = self._select(Federation).where(Federation.id == federation_id)
        if self._one(mine) is None:
            raise LookupError(f"federation {federation_id}: this project has no such federation")
        key: dict[str, object] = {"federation_id": federation_id, **rest}
        empty = {"project_id": self.project_id, "total": None, "reserved": 0.0, "spent": 0.0}
        self._insert_absent(FederationBudget, {**key, **empty})
        return key


def sharing_of(
    own_id: str,
    *,
    by_project: Mapping[str, str] | None,
    owner: str | None,
    across: BudgetsAcross,
) -> Sharing:
    """The federations that count together with one.

    `by_project`: those of the same content; None for made-up data, which is nobody's. `owner`: the
    project that owns the content.
    """
    if by_project is None or not counts_together(across):
        return Sharing(own_id, own_id, (own_id,), "project")
    owner_id = None if owner is None else by_project.get(owner)
    return Sharing(own_id, owner_id, tuple(sorted(by_project.values())), "service")


def counts_together(across: BudgetsAcross) -> bool:
    match across:
        case "service":
            return True
        case "project":
            return False
        case _:
            assert_never(across)


def of_figure(budgets: Iterable[Budget], book: str, figure: BudgetFigure) -> list[Budget]:
    """Those of one book and figure."""
    return [one for one in budgets if (one.book, one.figure) == (book, figure)]


def check_amount(field: str, amount: float) -> None:
    """Raises ValueError for what cannot be spent."""
    if not (math.isfinite(amount) and amount >= 0):
        raise ValueError(f"{field}: {amount} is not a finite number of at least 0")


def is_budget(key: dict[str, object]) -> ColumnElement[bool]:
    """The condition that a row has these values."""
    return and_(*(FederationBudget.__table__.c[name] == value for name, value in key.items()))


def key_of(reservation: Reservation) -> dict[str, object]:
    """The key of the budget that it is on."""
    return dict(zip(BUDGET_KEY, _values(reservation, BUDGET_KEY), strict=True))


def is_reservation(reservation: Reservation) -> ColumnElement[bool]:
    """The condition that a row is just this one."""
    key = {**key_of(reservation), "experiment_id": reservation.experiment_id}
    return and_(*(Reservation.__table__.c[name] == value for name, value in key.items()))


def _values(row: FederationBudget | Reservation, names: Sequence[str]) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in names)
