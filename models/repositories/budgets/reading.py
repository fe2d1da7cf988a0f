"""What one transaction reads of budgets, what it has reserved since, and what pages show of them.

The holder of a content's lock is the only one who reserves of the content, or sets a budget on it,
so its rows are read once however many experiments are reserved. Workers meanwhile book what they
have reserved as spent and return the rest, without the lock: that leaves as much room as was read,
or more. A reader lasts as long as the session, which is one transaction.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import BindParameter, Select, and_, bindparam, case, func, literal, or_, select
from sqlalchemy.orm import Session

from fedaudit.stored import Cost
from models.arrays import BINARY_RESULTS
from models.repositories.base import Repository, table_of
from models.repositories.budgets.counting import (
    HELD,
    POOL,
    REPORT,
    RESERVED_COLUMNS,
    CountedEpsilons,
    Counts,
    ReservedEpsilon,
    Sharing,
    StoredBudget,
    budget_key,
    counts_report,
    why_uncounted,
)
from models.tables.experiments import Experiment, PredictionAudit
from models.tables.federations import Content, Federation
from models.tables.ledger import BUDGET_KEY, DeclaredLedger, FederationBudget, Reservation
from models.values import ENDED, Budget, Gap, Uncounted

_SESSION_KEY = "fedaudit.budget_reader"
_BUDGET, _RESERVED = table_of(FederationBudget).c, table_of(Reservation).c
_IDS: BindParameter[Any] = bindparam("federation_ids", expanding=True)
_KEY = [_RESERVED[name] for name in BUDGET_KEY]
_HELD_SUM = case(
    (_RESERVED.figure == "epsilon", 0.0),
    (_RESERVED.state == HELD, _RESERVED.amount - _RESERVED.spent),
    else_=0.0,
)
_SUMS = (
    select(*_KEY, func.sum(_HELD_SUM).label("reserved"), func.sum(_RESERVED.spent).label("spent"))
    .where(_RESERVED.federation_id.in_(_IDS))
    .group_by(*_KEY)
    .subquery()
)
_ROWS = (
    select(
        *(_BUDGET[name] for name in (*BUDGET_KEY, "total")),
        *(func.coalesce(_SUMS.c[name], 0.0) for name in ("reserved", "spent")),
        _SUMS.c.federation_id.is_not(None),
    )
    .outerjoin(_SUMS, and_(*(_SUMS.c[name] == _BUDGET[name] for name in BUDGET_KEY)))
    .where(_BUDGET.federation_id.in_(_IDS))
)
_EPSILONS = select(*(_RESERVED[name] for name in RESERVED_COLUMNS)).where(
    _RESERVED.figure == "epsilon"
)
_DECLARED = (
    select(*(_RESERVED[name] for name in (*POOL, "unit_key", "experiment_id", "spent")))
    .join(DeclaredLedger, DeclaredLedger.id == _RESERVED.experiment_id)
    .where(_RESERVED.federation_id.in_(_IDS))
)
# The weaker lock: rows can be added that refer to this one. Profiles are long and admit nothing.
_HELD_FEDERATION = (
    select(*(one for one in table_of(Federation).c if one.name != "profile"))
    .where(Federation.project_id == bindparam("project_id"))
    .with_for_update(key_share=True)
)
_HELD = {
    name: _HELD_FEDERATION.where(table_of(Federation).c[name] == bindparam(name))
    for name in ("id", "fingerprint")
}
_OF_DATA = select(table_of(Content).c.owner_project_id).where(
    table_of(Content).c.fingerprint == bindparam("fingerprint")
)
_HELD_CONTENT = _OF_DATA.with_for_update()
_ALIKE = select(Federation.id, Federation.project_id, Federation.simulation).where(
    Federation.fingerprint == bindparam("fingerprint")
)


class BudgetReader(Repository):
    """Reads budgets, and remembers what it read of contents whose lock is held."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._federations: dict[str, Federation] = {}
        self._known: set[str] = set()
        """The federations, of other projects as well, of which nothing changes meanwhile."""
        self._sharings: dict[tuple[str, str], Sharing] = {}
        self._read: dict[str, list[StoredBudget]] = {}
        self._made: list[ReservedEpsilon] = []
        """Reserved in this transaction; they may not be in the database yet."""
        self._counted: dict[Counts, CountedEpsilons] = {}

    @classmethod
    def of(cls, session: Session) -> "BudgetReader":
        """That of a session's transaction."""
        found: BudgetReader = session.info.setdefault(_SESSION_KEY, cls(session))
        return found

    def hold(self, project_id: str, **by: str) -> Federation | None:
        """Locks the federation of this `id` or `fingerprint`, and its content, until the
        transaction ends; None where the project has none. The row is as it was when the lock was
        granted."""
        [(name, value)] = by.items()
        for one in self._federations.values():
            if one.project_id == project_id and getattr(one, name) == value:
                return one
        held: Sequence[Federation] = self._rows(_HELD[name], project_id=project_id, **by)
        if not held:
            return None
        [found] = held
        sharing = self._sharing_of(found, _HELD_CONTENT)
        self._federations[found.id] = found
        self._known.update((found.id, *sharing.ids))
        self._sharings[project_id, found.id] = sharing
        return found

    def sharing(self, project_id: str, federation_id: str) -> Sharing:
        """The federations that count together with one of a project. Raises LookupError without
        such a one."""
        asked = (project_id, federation_id)
        if asked in self._sharings:
            return self._sharings[asked]
        mine = (Federation.id == federation_id, Federation.project_id == project_id)
        own = self._one(select(Federation).where(*mine))
        if own is None:
            raise LookupError(f"federation {federation_id}: this project has no such federation")
        sharing = self._sharing_of(own, _OF_DATA)
        if federation_id in self._known:
            self._sharings[asked] = sharing
        return sharing

    def rows(self, sharing: Sharing) -> list[StoredBudget]:
        """The budgets of all that share, sorted as they are listed."""
        if self._known.issuperset(sharing.ids):
            if missing := [one for one in sharing.ids if one not in self._read]:
                self._read |= {one: [] for one in missing}
                for row in self._read_rows(missing):
                    self._read[row.federation_id].append(row)
            found = [row for one in sharing.ids for row in self._read[one]]
        else:
            found = self._read_rows(sharing.ids)
        return sorted(found, key=lambda row: (*row.pool, row.unit_key, row.federation_id))

    def known(self, key: Mapping[str, object]) -> StoredBudget | None:
        """The row of a key, where it was read under the lock."""
        for row in self._read.get(str(key["federation_id"]), ()):
            if all(getattr(row, name) == value for name, value in key.items()):
                return row
        return None

    def counted(self, counts: Counts) -> CountedEpsilons:
        """The reservations that a budget counts, one of each experiment that it can count."""
        if not self._known.issuperset(counts.federation_ids):
            return CountedEpsilons().add(counts.chosen(self._epsilons(counts)))
        if counts not in self._counted:
            stored = {one.key: one for one in self._epsilons(counts)}
            made = {one.key: one for one in self._made}
            self._counted[counts] = CountedEpsilons().add(counts.chosen((made | stored).values()))
        return self._counted[counts]

    def declared(self, federation_ids: Sequence[str]) -> Sequence[Any]:
        """Columns of the reservations of trainings elsewhere, the pool's first; of an epsilon
        `spent` says nothing."""
        return self._rows(_DECLARED, federation_ids=federation_ids)

    def added(self, key: Mapping[str, Any]) -> None:
        """A budget was added."""
        if (mine := self._read.get(key["federation_id"])) is not None:
            mine.append(StoredBudget(**key, total=None, reserved=0.0, spent=0.0, busy=False))

    def reserved(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Counts what was reserved for one experiment."""
        made = list[ReservedEpsilon]()
        for row in rows:
            if (known := self.known(budget_key(row))) is not None:
                known.busy = True
            if row["figure"] == "epsilon":
                made.append(ReservedEpsilon(**{name: row[name] for name in RESERVED_COLUMNS}))
            elif known is not None:
                known.reserved += row["amount"]
        self._made.extend(made)
        for counts, counted in self._counted.items():
            counted.add(counts.chosen(made))

    def forget(self, *, sharings: bool = False) -> None:
        """Amounts may have changed, and `sharings` too: they are read again. The locks stay."""
        self._read.clear()
        self._counted.clear()
        if sharings:
            self._sharings.clear()

    def _sharing_of(self, own: Federation, statement: Select[Any]) -> Sharing:
        """`statement`: finds the content's owner; no row of data that were made up, which are each
        project's own."""
        owners = self._rows(statement, fingerprint=own.fingerprint)
        if not owners:
            return Sharing(own.id, own.id, (own.id,), "project", own.simulation == "forbidden")
        alike, owner = self._rows(_ALIKE, fingerprint=own.fingerprint), owners[0].owner_project_id
        owner_id = next((one.id for one in alike if one.project_id == owner), None)
        bound = (one.simulation for one in alike if one.id in (own.id, owner_id))
        ids = tuple(sorted(one.id for one in alike))
        return Sharing(own.id, owner_id, ids, "service", "forbidden" in bound)

    def _read_rows(self, federation_ids: Sequence[str]) -> list[StoredBudget]:
        rows = self._rows(_ROWS, federation_ids=federation_ids)
        return [StoredBudget(*row) for row in rows]

    def _epsilons(self, counts: Counts) -> list[ReservedEpsilon]:
        mine = _EPSILONS.where(
            _RESERVED.federation_id.in_(counts.federation_ids),
            _RESERVED.book == counts.book,
            _RESERVED.adjacency == counts.adjacency,
            _RESERVED.observer.in_(counts.observers),
        )
        rows = self.session.execute(mine, execution_options=BINARY_RESULTS)
        return [ReservedEpsilon(**row) for row in rows.mappings()]


_RELEASE = "release"


_Runs = dict[tuple[str, str, str], list[Cost]]
"""The costs of each experiment and ledger that has spent something, or still may, by id, book and
mechanism; none without noise."""


def with_gaps(
    session: Session, budgets: Iterable[Budget], *, federation_ids: Sequence[str]
) -> list[Budget]:
    """The same budgets, each with the runs on these federations that are not in its figures.

    A budget with a total refuses such runs of its book. One whose total was set late, or that has
    none, has them behind it, and readers of what remains must know of them. A total for release
    does not refuse simulation, nor profiles of the data, nor audits, if it does not bound what
    reports reveal. All publish what follows from the data: it lists them. A run without a mechanism
    has no noise of either mode, and every total lists it."""
    runs: _Runs = defaultdict(list)
    for statement in (_experiments(federation_ids), _ledgers(federation_ids)):
        for id_, book, mechanism, proven, *cost in session.execute(statement):
            costs = runs[id_, book, mechanism]
            if any(cost):
                costs.append(Cost(**dict(zip(_COST, cost, strict=True)), proven=proven))
    mine = Federation.id.in_(federation_ids)
    profiles = int(session.scalar(select(func.sum(Federation.profiles)).where(mine)) or 0)
    of_data = PredictionAudit.fingerprint.in_(select(Federation.fingerprint).where(mine))
    # Those that are queued publish too: nothing asks for room again.
    publishes = PredictionAudit.status != "failed"
    audits = session.scalar(select(func.count()).where(of_data, publishes)) or 0
    # Both are exact: a bound on what is released does not bound them.
    found = (Uncounted("audit", audits, "unbounded"), Uncounted("profile", profiles, "profile"))
    exact = [one for one in found if one.runs]
    return [replace(one, uncounted=_uncounted(one, runs, exact)) for one in budgets]


def _experiments(federation_ids: Sequence[str]) -> Select[*tuple[Any, ...]]:
    mine = and_(
        Reservation.experiment_id == Experiment.id,
        Reservation.federation_id == Experiment.federation_id,
    )
    return (
        select(Experiment.id, Experiment.noise, Experiment.mechanism, _PROVEN, *_COSTS)
        .outerjoin(Reservation, mine)
        .where(
            Experiment.federation_id.in_(federation_ids),
            # What ended before its first round has cost nothing, unless noise was drawn.
            or_(
                Experiment.status.not_in(ENDED),
                Experiment.rounds_done > 0,
                Reservation.spent > 0,
                Reservation.compositions > 0,
            ),
        )
    )


def _ledgers(federation_ids: Sequence[str]) -> Select[*tuple[Any, ...]]:
    """Trainings elsewhere that have declared a round."""
    mine = and_(
        Reservation.experiment_id == DeclaredLedger.id,
        Reservation.federation_id == DeclaredLedger.federation_id,
    )
    mechanism = DeclaredLedger.terms["mechanism"].as_string() + literal(", declared")
    return (
        select(DeclaredLedger.id, literal(_RELEASE), mechanism, literal(True), *_COSTS)
        .join(Reservation, mine)
        .where(DeclaredLedger.federation_id.in_(federation_ids), DeclaredLedger.rounds > 0)
    )


_COST = ("figure", "adjacency", "observer", "unit", "unit_key", "planned")
_COSTS = tuple(_RESERVED[name] for name in _COST)
_GUARANTEE = Experiment.mechanism_inputs["guarantee"].as_string()
_PROVEN = case(
    (_RESERVED.observer == REPORT, literal(True)),
    (_RESERVED.figure == "log_ratio", Experiment.hypotheses == 1),
    else_=func.coalesce(_GUARANTEE, "formal") == "formal",
)
"""`Cost.proven` of an experiment."""


def _uncounted(budget: Budget, runs: _Runs, exact: list[Uncounted]) -> tuple[Uncounted, ...]:
    found: Counter[tuple[str, Gap]] = Counter()
    for (_, book, mechanism), costs in runs.items():
        of_report = counts_report(budget.observer)
        mine = [one for one in costs if counts_report(one.observer) == of_report]
        # Without a mechanism there is no noise in training that could be of either mode.
        in_both_books = all(counts_report(cost.observer) for cost in costs)
        why: Gap | None = None
        if book == budget.book:
            why = why_uncounted(budget, mine)
        elif budget.total is not None and in_both_books and not mine:
            why = "unbounded"
        elif budget.total is not None and budget.book == _RELEASE:
            why = "simulated"
        if why is not None:
            found[mechanism, why] += 1
    gaps = [Uncounted(mechanism, count, why) for (mechanism, why), count in sorted(found.items())]
    return (*gaps, *exact) if budget.total is not None else tuple(gaps)
