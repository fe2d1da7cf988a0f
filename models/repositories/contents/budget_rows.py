"""The budgets of a federation's content: which there are, who may set them, whom they hold for.

With budgets across the service the spending of every project on one content counts together. The
project that registered the content first, or was the first to set a budget on it, owns it: its
totals hold for all, and another project's hold for itself alone, so that no stranger can stop the
owner and none can raise what the owner has set. Whoever reserves locks the content.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from sqlalchemy import ColumnElement, and_, bindparam, exists, func, select, update
from sqlalchemy.orm import Session

from models.leakage_terms import LeakageTerms
from models.prepared import Prepared, PreparedRows
from models.repositories.base import ScopedRepository
from models.repositories.contents.budget_pools import BookedBudget, Pool, Sharing
from models.repositories.contents.held_contents import held_contents
from models.tables.declared_ledgers import DeclaredLedger
from models.tables.federations import Content, Federation
from models.tables.reservations import BUDGET_KEY, FederationBudget, Reservation
from models.values import Budget, BudgetFigure, BudgetsAcross

HELD, SETTLED = "held", "settled"
_LEAKAGE: BudgetFigure = "leakage"
POOL = ("book", "figure", "delta", "adjacency", "observer")
_BUDGET = FederationBudget.__table__.c
_ROWS = select(
    *(_BUDGET[name] for name in (*BUDGET_KEY, "total", "reserved", "spent")),
    exists().where(*(Reservation.__table__.c[name] == _BUDGET[name] for name in BUDGET_KEY)),
)
_ROWS_OF = Prepared(
    _ROWS.where(_BUDGET.federation_id.in_(bindparam("federation_ids", expanding=True)))
)
# The weaker lock: it does not stop rows from being added that refer to this one.
_HELD_FEDERATION = (
    select(Federation)
    .where(Federation.project_id == bindparam("project_id"))
    .with_for_update(key_share=True)
)
_BY_ID = PreparedRows(_HELD_FEDERATION.where(Federation.id == bindparam("id")))
_BY_DATA = PreparedRows(_HELD_FEDERATION.where(Federation.fingerprint == bindparam("fingerprint")))
_OF_DATA = select(Content).where(Content.fingerprint == bindparam("fingerprint"))
_CONTENT = PreparedRows(_OF_DATA)
_HELD_CONTENT = PreparedRows(_OF_DATA.with_for_update())
_ALIKE = Prepared(
    select(Federation.id, Federation.project_id, Federation.simulation).where(
        Federation.fingerprint == bindparam("fingerprint")
    )
)


class DeclaredSpending:
    """How much of what was spent trainers elsewhere declare, by pool and the clients' key; of sums,
    since an epsilon is composed."""

    def __init__(self) -> None:
        self._amounts: defaultdict[tuple[object, ...], defaultdict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )

    def add(self, pool: tuple[object, ...], unit_key: str, amount: float) -> None:
        """A reservation, or several of one pool and key."""
        self._amounts[pool][unit_key] += amount

    def of(self, pool: tuple[object, ...], unit_key: str | None) -> float:
        """What counts for the clients of a key: theirs, and nobody's in particular."""
        mine = self._amounts[pool].items()
        return sum(amount for key, amount in mine if key in (unit_key or "", ""))


class BudgetRows(ScopedRepository):
    """The budgets of a project's federations, whatever their figure."""

    def __init__(
        self, session: Session, project_id: str, *, across: BudgetsAcross = "service"
    ) -> None:
        """`across`: whether the spending of all projects on one content counts together."""
        super().__init__(session, project_id)
        self._across = across

    def budgets(self, federation_id: str, *, shown: bool = True) -> list[Budget]:
        """Every budget that was set or spent from.

        Not `shown`: without what trainers elsewhere declare, on which nothing depends.

        Of an epsilon without what is reserved and spent, which `EpsilonBudgetRepository` composes.
        None for a federation of another project.
        """
        sharing = self._sharing(federation_id)
        if sharing is None:
            return []
        pools: dict[tuple[object, ...], list[BookedBudget]] = defaultdict(list)
        for row in self._rows(sharing):
            pools[row.pool].append(row)
        declared = self._declared(sharing) if shown else DeclaredSpending()
        return [
            replace(budget, declared=declared.of(pool, budget.unit_key))
            for pool, rows in pools.items()
            for budget in Pool(rows, sharing).budgets()
        ]

    def forbids_simulation(self, federation_id: str) -> bool:
        """Whether this project, or the one whose totals hold for it, admits secret noise alone."""
        sharing = self._sharing(federation_id)
        return sharing is not None and sharing.forbids_simulation

    def is_owner(self, federation_id: str) -> bool:
        """Whether no other project's totals and policy hold for this one's federation."""
        sharing = self._sharing(federation_id)
        return sharing is None or sharing.is_owner

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
        held_contents(self.session).forget()
        return self._pool(key).budget(unit_key or "")

    def hold(self, federation_id: str) -> Federation | None:
        """Locks a federation and its content until the transaction ends: nobody else reserves of
        it, sets a budget on it, deletes or erases it.

        The federation before the content, everywhere, so that nobody waits in a circle. None where
        this project has no such federation; the row is as it was when the lock was got.
        """
        held = held_contents(self.session)
        found = held.federations.get(federation_id)
        if found is None:
            found = self._hold(_BY_ID, id=federation_id)
        return found if found is not None and found.project_id == self.project_id else None

    def hold_data(self, fingerprint: str) -> Federation | None:
        """Like `hold`, of the federation with these data."""
        for one in held_contents(self.session).federations.values():
            if (one.project_id, one.fingerprint) == (self.project_id, fingerprint):
                return one
        return self._hold(_BY_DATA, fingerprint=fingerprint)

    def _hold(self, mine: PreparedRows[Federation], **values: str) -> Federation | None:
        found = mine.one(self.session, project_id=self.project_id, **values)
        if found is None:
            return None
        owner = _HELD_CONTENT.one(self.session, fingerprint=found.fingerprint)
        held = held_contents(self.session)
        held.federations[found.id] = found
        held.ids.add(found.id)
        sharing = self._shared(found, owner)
        held.ids.update(sharing.ids)
        held.sharings[self.project_id, self._across, found.id] = sharing
        return found

    def _sharing(self, federation_id: str) -> Sharing | None:
        """The federations that count together with one of this project; None without such a one."""
        held, asked = held_contents(self.session), (self.project_id, self._across, federation_id)
        if asked in held.sharings:
            return held.sharings[asked]
        own = self._one(self._select(Federation).where(Federation.id == federation_id))
        if own is None:
            return None
        content = _CONTENT.one(self.session, fingerprint=own.fingerprint)
        sharing = self._shared(own, content)
        if federation_id in held.ids:
            held.sharings[asked] = sharing
        return sharing

    def _shared(self, own: Federation, content: Content | None) -> Sharing:
        if content is None or not counts_together(self._across):
            forbidding = {own.id} if own.simulation == "forbidden" else set()
            return sharing_of(
                own.id, by_project=None, owner=None, across=self._across, forbidding=forbidding
            )
        alike = _ALIKE.rows(self.session, fingerprint=own.fingerprint)
        return sharing_of(
            own.id,
            by_project={project: id_ for id_, project, _ in alike},
            owner=content.owner_project_id,
            across=self._across,
            forbidding={id_ for id_, _, simulation in alike if simulation == "forbidden"},
        )

    def _rows(self, sharing: Sharing) -> list[BookedBudget]:
        held = held_contents(self.session)
        if not held.ids.issuperset(sharing.ids):
            return in_order(self._read_rows(sharing.ids))
        if missing := [one for one in sharing.ids if one not in held.rows]:
            held.rows |= {one: [] for one in missing}
            for row in self._read_rows(missing):
                held.rows[row.federation_id].append(row)
        return in_order(row for one in sharing.ids for row in held.rows[one])

    def _read_rows(self, federation_ids: Sequence[str]) -> list[BookedBudget]:
        rows = _ROWS_OF.rows(self.session, federation_ids=federation_ids)
        return [BookedBudget(*row) for row in rows]

    def _declared(self, sharing: Sharing) -> DeclaredSpending:
        """What ledgers of trainings elsewhere spent."""
        columns = [Reservation.__table__.c[name] for name in (*POOL, "unit_key")]
        rows = self.session.execute(
            select(*columns, func.sum(Reservation.spent))
            .join(DeclaredLedger, DeclaredLedger.id == Reservation.experiment_id)
            .where(Reservation.federation_id.in_(sharing.ids))
            .group_by(*columns)
        )
        found = DeclaredSpending()
        for *pool, unit_key, spent in rows:
            found.add(tuple(pool), unit_key, spent)
        return found

    def _pool(self, key: dict[str, object]) -> Pool:
        """All that counts together with a budget of this project."""
        sharing = self._sharing(str(key["federation_id"]))
        if sharing is None:
            raise LookupError(f"federation {key['federation_id']}: not of this project")
        wanted = tuple(key[name] for name in POOL)
        return Pool([row for row in self._rows(sharing) if row.pool == wanted], sharing)

    def _lock(self, federation_id: str) -> None:
        """Nobody else reserves of this content, or sets a budget on it, while this lasts."""
        self.hold(federation_id)

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
        held_contents(self.session).forget()

    def _key(self, federation_id: str, **rest: str | float) -> dict[str, object]:
        """The key of a budget, which exists from now on."""
        key: dict[str, object] = {"federation_id": federation_id, **rest}
        held = held_contents(self.session)
        if self._known(key) is not None:
            return key
        mine = self._select(Federation).where(Federation.id == federation_id)
        if federation_id not in held.federations and self._one(mine) is None:
            raise LookupError(f"federation {federation_id}: this project has no such federation")
        empty = {"project_id": self.project_id, "total": None, "reserved": 0.0, "spent": 0.0}
        self._insert_absent(FederationBudget, {**key, **empty})
        if federation_id in held.rows:
            added = self.session.execute(_ROWS.where(is_budget(key)))
            held.rows[federation_id] += [BookedBudget(*row) for row in added]
        return key

    def _known(self, key: Mapping[str, object]) -> BookedBudget | None:
        """The row of a key, where it was read under the lock."""
        rows = held_contents(self.session).rows
        for row in rows.get(str(key["federation_id"]), ()):
            if all(getattr(row, name) == value for name, value in key.items()):
                return row
        return None


def sharing_of(
    own_id: str,
    *,
    by_project: Mapping[str, str] | None,
    owner: str | None,
    across: BudgetsAcross,
    forbidding: Collection[str] = (),
) -> Sharing:
    """The federations that count together with one.

    `by_project`: those of the same content; None for made-up data, which is nobody's. `owner`: the
    project that owns the content. `forbidding`: the federations that admit secret noise alone.
    """
    if by_project is None or not counts_together(across):
        return Sharing(own_id, own_id, (own_id,), "project", own_id in forbidding)
    owner_id = None if owner is None else by_project.get(owner)
    forbids = own_id in forbidding or owner_id in forbidding
    return Sharing(own_id, owner_id, tuple(sorted(by_project.values())), "service", forbids)


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


def in_order(rows: Iterable[BookedBudget]) -> list[BookedBudget]:
    """Sorted as budgets are listed."""
    return sorted(rows, key=lambda row: (*row.pool, row.unit_key, row.federation_id))


def _values(row: Reservation, names: Sequence[str]) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in names)
