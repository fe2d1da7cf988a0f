"""Budgets on the content of a project's federations: set, reserved, drawn on and settled.

A budget belongs to the data and not to a run: ten runs on one federation spend ten times. Leakage
of one radius and clip adds up, and so does the theorem's own sum. Epsilons are composed: each
reservation keeps a curve of Renyi divergences, which do add up whatever the deltas of the
experiments, and only their sum is turned into an epsilon, at the delta of the budget, by the
caller's `Price`. A held reservation counts with the worst case of its whole run, a settled one with
what was spent.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from sqlalchemy import ColumnElement, and_, bindparam, select
from sqlalchemy.orm import Session

from fedaudit.stored import Cost, CostFigure, LeakageTerms
from models.repositories.base import ScopedRepository, table_of
from models.repositories.budgets.counting import (
    HELD,
    POOL,
    SETTLED,
    UNBOUNDED,
    CountedEpsilons,
    Counts,
    Curve,
    Pool,
    Refusal,
    ReservedEpsilon,
    Sharing,
    StoredBudget,
    after,
    after_releases,
    agree,
    amounts,
    budget_key,
    check_amount,
    compared,
    counts_for,
    counts_report,
    curve_of,
    enlarged,
    first_uncounted,
    fits,
    unpriced,
)
from models.repositories.budgets.reading import BudgetReader
from models.tables.federations import Content, Federation
from models.tables.ledger import DeclaredLedger, FederationBudget, Reservation
from models.values import Budget

Price = Callable[[Curve, float], float]
"""Maps a sum of curves and a delta to an epsilon."""
SUMS: tuple[CostFigure, ...] = ("leakage", "log_ratio")
_BUDGET = table_of(FederationBudget)
_HELD = (
    select(Reservation)
    .where(
        Reservation.experiment_id == bindparam("experiment_id"),
        Reservation.figure.in_(bindparam("figures", expanding=True)),
        Reservation.state == HELD,
        Reservation.federation_id.in_(
            select(Federation.id).where(Federation.project_id == bindparam("project_id"))
        ),
    )
    # The order in which budgets are locked, the same for all.
    .order_by(Reservation.figure, Reservation.observer)
    .with_for_update()
)


class Budgets(ScopedRepository):
    """The budgets of a project's federations, and the reservations on them."""

    def __init__(self, session: Session, project_id: str, *, price: Price = unpriced) -> None:
        super().__init__(session, project_id)
        self._price = price
        self._reader = BudgetReader.of(session)

    def budgets(self, federation_id: str, *, shown: bool = True) -> list[Budget]:
        """Every budget that was set or spent from. Not `shown`: without what trainers elsewhere
        declare, on which nothing depends. Of an epsilon without what is reserved and spent, which
        `composed` adds. Raises LookupError as `sharing`."""
        sharing = self.sharing(federation_id)
        pools: dict[tuple[object, ...], list[StoredBudget]] = defaultdict(list)
        for row in self._reader.rows(sharing):
            pools[row.pool].append(row)
        declared = self._reader.declared(sharing.ids) if shown else []
        return [
            replace(
                budget,
                declared=sum(
                    one.spent
                    for one in declared
                    if one[: len(pool)] == pool and one.unit_key in (budget.unit_key or "", "")
                ),
            )
            for pool, rows in pools.items()
            for budget in Pool(rows, sharing).budgets()
        ]

    def composed(self, federation_id: str, budget: Budget) -> Budget:
        """A budget with what is reserved and spent of it; a sum as it is. `spent` is composed of
        what was spent; `reserved` is what all that is held adds to it. Figures of clients and of
        records are composed apart, and so are figures of clients with different keys; the largest
        one is shown: no theorem covers them together."""
        if budget.figure != "epsilon":
            return budget
        shown = replace(budget, spent=0.0, reserved=0.0, declared=0.0)
        counted = self._counted(federation_id, budget)
        declared = self._reader.declared(self.sharing(federation_id).ids) if counted.rows else ()
        ledgers = {one.experiment_id for one in declared}
        for unit, unit_key in counted.groups():
            mine = counted.about(unit, unit_key)
            spent, reserved = self._amounts(mine, budget)
            if shown.unit is None or spent + reserved > shown.spent + shown.reserved:
                others = [one for one in mine if one.federation_id != federation_id]
                others_spent, others_reserved = self._amounts(others, budget)
                of_ledgers = [one for one in mine if one.experiment_id in ledgers]
                shown = replace(
                    shown,
                    spent=spent,
                    reserved=reserved,
                    unit=unit,
                    unit_key=unit_key or None,
                    others_spent=others_spent,
                    others_reserved=others_reserved,
                    declared=self._amounts(of_ledgers, budget)[0],
                )
        return shown

    def of_project(self, project_id: str) -> "Budgets":
        """The same of another project."""
        return Budgets(self.session, project_id, price=self._price)

    def sharing(self, federation_id: str) -> Sharing:
        """The federations whose spending counts together with this one's. Raises LookupError where
        the project has no such federation."""
        return self._reader.sharing(self.project_id, federation_id)

    def hold(self, **by: str) -> Federation | None:
        """Locks the federation of this `id` or `fingerprint`, and its content, until the
        transaction ends: meanwhile no other transaction reserves of it, sets a budget on it,
        deletes or erases it. None where this project has no such federation."""
        return self._reader.hold(self.project_id, **by)

    def claim(self, federation_id: str) -> None:
        """A content that no project owns is this project's from now on."""
        mine = self._select(Federation).where(Federation.id == federation_id)
        fingerprint = mine.with_only_columns(Federation.fingerprint).scalar_subquery()
        unowned = (Content.fingerprint == fingerprint, Content.owner_project_id.is_(None))
        self._set(Content, *unowned, owner_project_id=self.project_id)
        self._reader.forget(sharings=True)

    def set_budget(
        self,
        federation_id: str,
        *,
        book: str,
        figure: CostFigure,
        total: float | None,
        delta: float | None = None,
        adjacency: str | None = None,
        observer: str | None = None,
        terms: LeakageTerms | None = None,
        unit_key: str | None = None,
    ) -> Budget:
        """Sets this project's bound; one below what is spent only stops what is still to come. A
        content that no project owns belongs to this one from now on. What other projects declared
        before there was a total of the owner's is counted no more. `terms`: of leakage, and then
        needed. A total of leakage in the same book that was set before radius and clip were
        recorded, and so refuses every run, is replaced by it. `unit_key`: whose clients it is for.
        Raises LookupError where the project has no such federation, ValueError where the total is
        negative or not finite, or leakage has no terms."""
        if (figure == "leakage") != (terms is not None):
            raise ValueError("terms: leakage, and nothing else, has a radius and a clip")
        if total is not None:
            check_amount("total", total)
        self.hold(id=federation_id)
        key: dict[str, object] = {
            "federation_id": federation_id,
            "book": book,
            "figure": figure,
            "delta": delta or 0.0,
            "adjacency": (adjacency or "") if terms is None else terms.key,
            "observer": observer or "",
            "unit_key": unit_key or "",
        }
        self._enter(key)
        if total is not None:
            self.claim(federation_id)
            if not counts_report(observer):
                self._leave_out_declared(federation_id, book)
        if terms is not None:
            unknown = {name: value for name, value in key.items() if name != "unit_key"}
            unknown["adjacency"] = ""
            self._set(FederationBudget, _is_budget(unknown), total=None)
        self._set(FederationBudget, _is_budget(key), total=total)
        self._reader.forget(sharings=True)
        return self._pool(key).budget(unit_key or "")

    def _leave_out_declared(self, federation_id: str, book: str) -> None:
        """A declared round costs a request alone, so that a stranger could exhaust any later total.
        Its ledger holds nothing from now on, and is refused further rounds."""
        sharing, totals = self.sharing(federation_id), self._totals(federation_id, book, "")
        owns = sharing.owner_id == federation_id
        if owns and all(one.owner_total is None for one in totals):
            others = DeclaredLedger.federation_id.in_({*sharing.ids} - {federation_id})
            of_ledgers = Reservation.experiment_id.in_(select(DeclaredLedger.id).where(others))
            mine = and_(of_ledgers, Reservation.book == book)
            ids = [one.experiment_id for one in self._all(select(Reservation).where(mine))]
            self._set(Reservation, mine, amount=0.0, spent=0.0, planned=-1)
            self.give_back(ids)

    def held(self, experiment_id: str, *figures: CostFigure) -> list[Reservation]:
        """An experiment's reservations of these figures that are not settled, locked for this
        (write) transaction."""
        of = {"project_id": self.project_id, "experiment_id": experiment_id}
        return self._all(_HELD, **of, figures=figures)

    def reserve(
        self, federation_id: str, *, experiment_id: str, book: str, costs: Sequence[Cost]
    ) -> Refusal | None:
        """Reserves the worst case, of training or against readers of the report: in each figure,
        and against every observer. A refusal, and nothing changed, where a total of the book cannot
        count it or has no room for it; without a bound it is reserved all the same. The content is
        locked for the rest of the transaction, so that two experiments cannot both take the last
        room. Raises LookupError where the project has no such federation, ValueError for a sum that
        is negative or infinite."""
        self.hold(id=federation_id)
        refusal = self._refusal(federation_id, book, costs)
        if refusal is not None:
            return refusal
        place = {"experiment_id": experiment_id, "federation_id": federation_id, "book": book}
        begun = {"compositions": 0, "spent": 0.0, "state": HELD}
        rows = [{**vars(one), **place, **begun} for one in costs]
        for row in rows:
            del row["proven"]
            for name in ("curve", "step"):
                if row[name] is not None:
                    row[name] = np.minimum(row[name], UNBOUNDED)
            self._enter(budget_key(row))
        self._insert(Reservation, rows)
        self._reader.reserved(rows)
        return None

    def draw(self, experiment_id: str, *, spent: float, releases: int) -> bool:
        """Books that the experiment has leaked `spent` in all by so many releases of one client,
        before the noise is drawn. Absolute, so that a repeat changes nothing. More than was
        reserved is taken from what is left of the budgets; False, and nothing changed, where one
        has no room for it: nothing may then be released. True where the experiment has nothing
        reserved."""
        check_amount("spent", spent)
        drawn = [
            (one, max(one.spent, after_releases(one, leakage=spent, releases=releases)))
            for one in self.held(experiment_id, *SUMS)
        ]
        if not all(
            self._bears(one, np.array([amount])) for one, amount in drawn if amount > one.amount
        ):
            return False
        for one, amount in drawn:
            if amount > one.spent:
                self._change(one, spent=amount, amount=max(one.amount, amount))
        return True

    def rebook(
        self,
        experiment_id: str,
        *,
        held: Mapping[CostFigure, Curve],
        spent: Mapping[CostFigure, Curve] | None,
        within_totals: bool,
    ) -> bool:
        """Books other amounts for what is held of these figures, a sum as a curve of one order:
        `held` in all, of which `spent` is spent. Of what is charged by histories and not by equal
        releases. `spent`: None leaves it as it is; a sum never falls. Without `within_totals` it is
        recorded whether there is room or not, as what has happened is; with it False, and nothing
        changed, where a total has no room, or nothing is held. Else True where nothing is held."""
        mine = self.held(experiment_id, *held)
        most = {figure: np.minimum(curve, UNBOUNDED) for figure, curve in held.items()}
        if within_totals and not (mine and all(self._bears(one, most[one.figure]) for one in mine)):
            return False
        for one in mine:
            curve = most[one.figure]
            paid = None if spent is None else np.minimum(spent[one.figure], UNBOUNDED)
            if one.figure == "epsilon":
                counted = {} if paid is None else {"step": paid, "compositions": 1}
                self._change(one, curve=curve, **counted)
            else:
                in_all = max(one.spent, 0.0 if paid is None else float(paid[0]))
                self._change(one, spent=in_all, amount=max(float(curve[0]), in_all))
        return True

    def settle(self, held: Sequence[Reservation], *, spent: float, releases: int) -> None:
        """Ends those of an experiment's `held` reservations that are of sums: what was not spent
        returns to the budgets; what was drawn counts as spent at least."""
        check_amount("spent", spent)
        for one in (one for one in held if one.figure in SUMS):
            paid = max(one.spent, after_releases(one, leakage=spent, releases=releases))
            self._change(one, state=SETTLED, spent=paid)

    def give_back(self, experiment_ids: Collection[str]) -> None:
        """Settles what experiments of the project hold that have spent nothing, as `settle` and
        `settle_epsilon` do, in a few statements."""
        held = and_(Reservation.experiment_id.in_(experiment_ids), Reservation.state == HELD)
        self._set(Reservation, held, Reservation.figure.in_(SUMS), state=SETTLED)
        of_epsilon = and_(held, Reservation.figure == "epsilon")
        ids_by_size = defaultdict(list)
        for one in self._all(select(Reservation).where(of_epsilon)):
            ids_by_size[len(curve_of(one))].append(one.experiment_id)
        for size, ids in ids_by_size.items():
            alike = Reservation.experiment_id.in_(ids)
            unused = {"state": SETTLED, "compositions": 0, "curve": np.zeros(size)}
            self._set(Reservation, of_epsilon, alike, **unused)
        self._reader.forget()

    def draw_epsilon(self, experiment_id: str, compositions: Mapping[str, int]) -> bool:
        """Books that so many compositions are spent against each observer, before noise is drawn.
        As `draw` otherwise. What is held against other observers stays as it is."""
        held = self.held(experiment_id, "epsilon")
        drawn = [(one, compositions[one.observer]) for one in held if one.observer in compositions]
        for one, count in drawn:
            more = enlarged(one, count)
            if not np.array_equal(more, curve_of(one)) and not self._bears(one, more):
                return False
        for one, count in drawn:
            if count > (one.compositions or 0):
                self._change(one, compositions=count, curve=enlarged(one, count))
        return True

    def settle_epsilon(self, held: Sequence[Reservation], compositions: Mapping[str, int]) -> None:
        """Ends the reservations of epsilons, as `settle` does those of sums."""
        for one in (one for one in held if one.figure == "epsilon"):
            count = max(compositions[one.observer], one.compositions or 0)
            self._change(one, state=SETTLED, compositions=count, curve=after(one, count))

    def _pool(self, key: Mapping[str, object]) -> Pool:
        """All that counts together with a budget of this project."""
        sharing = self.sharing(str(key["federation_id"]))
        wanted = tuple(key[name] for name in POOL)
        return Pool([row for row in self._reader.rows(sharing) if row.pool == wanted], sharing)

    def _enter(self, key: Mapping[str, object]) -> None:
        """The budget of this key exists from now on. Raises LookupError as `sharing`."""
        if self._reader.known(key) is not None:
            return
        self.sharing(str(key["federation_id"]))
        self._insert_absent(FederationBudget, {**key, "project_id": self.project_id, "total": None})
        self._reader.added(key)

    def _bears(self, mine: Reservation, held: Curve) -> bool:
        """Whether every total has room if this held reservation has another curve, or amount."""
        self.hold(id=mine.federation_id)
        if mine.figure != "epsilon":
            more = float(held[0]) - mine.amount
            return not self._pool(vars(mine)).without_room(mine.unit_key, more)
        for budget in self._totals(mine.federation_id, mine.book, mine.observer):
            if budget.figure != "epsilon":
                continue
            counted = self._counted(mine.federation_id, budget)
            curves, is_counted = [], False
            for one in counted.about(mine.unit or "", mine.unit_key):
                is_mine = (one.experiment_id, one.observer) == (mine.experiment_id, mine.observer)
                curves.append(held if is_mine else curve_of(one))
                is_counted |= is_mine
            if is_counted and not fits(
                self._price(np.sum(curves, axis=0), budget.delta or 0.0), budget
            ):
                return False
        return True

    def _totals(self, federation_id: str, book: str, observer: str) -> list[Budget]:
        """The totals of a book about the people whom costs against an observer are about."""
        of_report = counts_report(observer)
        return [
            one
            for one in self.budgets(federation_id, shown=False)
            if (one.book, counts_report(one.observer)) == (book, of_report)
            and one.total is not None
        ]

    def _counted(self, federation_id: str, budget: Budget) -> CountedEpsilons:
        ids, observers = self.sharing(federation_id).ids, counts_for(budget)
        return self._reader.counted(
            Counts(ids, budget.book, budget.adjacency, observers, budget.for_clients)
        )

    def uncounted(self, federation_id: str, book: str, costs: Sequence[Cost]) -> Refusal | None:
        """The refusal by a total of the book that does not count such costs."""
        found = first_uncounted(self._totals(federation_id, book, costs[0].observer), costs)
        return None if found is None else Refusal(self.composed(federation_id, found[0]), found[1])

    def _refusal(self, federation_id: str, book: str, costs: Sequence[Cost]) -> Refusal | None:
        if costs and (refusal := self.uncounted(federation_id, book, costs)) is not None:
            return refusal
        for cost in costs:
            if cost.figure != "epsilon":
                check_amount("amount", cost.amount)
                key = {"federation_id": federation_id, "book": book, **vars(cost)}
                short = self._pool(key).shortage(cost.unit_key, cost.amount)
                if short is not None:
                    budget, in_all = short[0], short[0].reserved + short[0].spent + cost.amount
                    return Refusal(*short, requested=cost.amount, composed_total=in_all)
        epsilons = [cost for cost in costs if cost.figure == "epsilon"]
        totals = self._totals(federation_id, book, epsilons[0].observer) if epsilons else []
        # What counts the cost of an epsilon is a total for one.
        for budget in totals:
            refusal = self._epsilon_refusal(federation_id, budget, compared(budget, epsilons))
            if refusal is not None:
                return refusal
        return None

    def _epsilon_refusal(self, federation_id: str, budget: Budget, seen: Cost) -> Refusal | None:
        if not agree(budget.for_clients, seen.unit_key):
            # It is counted under the total that names its clients, or none's, where there is one.
            if any(
                (one.delta, one.adjacency, one.observer)
                == (budget.delta, budget.adjacency, budget.observer)
                and one.for_clients in ("", seen.unit_key)
                for one in self._totals(federation_id, budget.book, seen.observer)
            ):
                return None
            return Refusal(self.composed(federation_id, budget), "other-clients")
        counted = self._counted(federation_id, budget)
        shortage = counted.why_not_with(seen)
        if shortage is not None:
            return Refusal(self.composed(federation_id, budget), shortage)
        in_all = curve_of(seen) if counted.curve is None else curve_of(seen) + counted.curve
        if fits(self._price(in_all, budget.delta or 0.0), budget):
            return None
        together = np.sum([curve_of(seen), *map(curve_of, counted.rows)], axis=0)
        return Refusal(
            self.composed(federation_id, budget),
            "no-room",
            requested=self._price(curve_of(seen), budget.delta or 0.0),
            composed_total=self._price(together, budget.delta or 0.0),
        )

    def _amounts(self, rows: Sequence[ReservedEpsilon], budget: Budget) -> tuple[float, float]:
        """What they have spent, and what they may spend beside it."""
        if not rows:
            return 0.0, 0.0
        spent, in_all = (self._price(curve, budget.delta or 0.0) for curve in amounts(rows))
        return spent, max(0.0, in_all - spent)

    def _change(self, reservation: Reservation, **values: object) -> None:
        key = table_of(Reservation).primary_key.columns
        is_it = (column == getattr(reservation, column.name) for column in key)
        self._set(Reservation, *is_it, **values)
        self._reader.forget()


def _is_budget(key: Mapping[str, object]) -> ColumnElement[bool]:
    """The condition that a row has these values."""
    return and_(*(_BUDGET.c[name] == value for name, value in key.items()))
