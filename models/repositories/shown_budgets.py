"""Budgets as pages show them, with the runs that one cannot count.

A budget with a total refuses such runs of its book. One whose total was set late, or that has none,
has them behind it, and readers of what remains must know of them. A total for release does not
refuse simulation, nor the profile of the data, and both publish what follows from the data: it
lists them. A run without a mechanism has no noise of either mode, and every total lists it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from sqlalchemy import Select, and_, func, literal, or_, select
from sqlalchemy.orm import Session

from models.leakage_terms import LeakageTerms
from models.repositories.budgets.counting import agree, counts_for, counts_report
from models.tables.declared_ledgers import DeclaredLedger
from models.tables.experiments import Experiment
from models.tables.federations import Federation
from models.tables.reservations import Reservation
from models.values import Budget, BudgetFigure, Gap, Uncounted
from models.vocabulary import ENDED

_RELEASE = "release"


@dataclass(frozen=True)
class _Cost:
    figure: BudgetFigure
    adjacency: str
    observer: str
    unit: str | None
    unit_key: str

    @property
    def is_of_report(self) -> bool:
        return counts_report(self.observer)


_Runs = dict[tuple[str, str, str], list[_Cost]]
"""By id, book and mechanism, the costs of each experiment and ledger that has spent something, or
still may; none without noise."""


def with_gaps(
    session: Session, budgets: Iterable[Budget], *, federation_ids: Sequence[str]
) -> list[Budget]:
    """The same budgets, each with the runs on these federations that are not in its figures."""
    runs: _Runs = defaultdict(list)
    for statement in (_experiments(federation_ids), _ledgers(federation_ids)):
        for id_, book, mechanism, figure, *rest in session.execute(statement):
            costs = runs[id_, book, mechanism]
            if figure is not None:
                costs.append(_Cost(figure, *rest))
    counted = select(func.sum(Federation.profiles)).where(Federation.id.in_(federation_ids))
    profiles = int(session.scalar(counted) or 0)
    return [replace(one, uncounted=_uncounted(one, runs, profiles)) for one in budgets]


def _experiments(federation_ids: Sequence[str]) -> Select[*tuple[Any, ...]]:
    mine = and_(
        Reservation.experiment_id == Experiment.id,
        Reservation.federation_id == Experiment.federation_id,
    )
    return (
        select(Experiment.id, Experiment.noise, Experiment.mechanism, *_COST)
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
        select(DeclaredLedger.id, literal(_RELEASE), mechanism, *_COST)
        .join(Reservation, mine)
        .where(DeclaredLedger.federation_id.in_(federation_ids), DeclaredLedger.rounds > 0)
    )


_COST = (
    Reservation.figure,
    Reservation.adjacency,
    Reservation.observer,
    Reservation.unit,
    Reservation.unit_key,
)


def _uncounted(budget: Budget, runs: _Runs, profiles: int) -> tuple[Uncounted, ...]:
    found: Counter[tuple[str, Gap]] = Counter()
    for (_, book, mechanism), costs in runs.items():
        mine = [one for one in costs if one.is_of_report == counts_report(budget.observer)]
        # Without a mechanism there is no noise in training that could be of either mode.
        in_both_books = all(cost.is_of_report for cost in costs)
        why: Gap | None = None
        if book == budget.book:
            why = _why(budget, mine)
        elif budget.total is not None and in_both_books and not mine:
            why = "unbounded"
        elif budget.total is not None and budget.book == _RELEASE:
            why = "simulated"
        if why is not None:
            found[mechanism, why] += 1
    gaps = [Uncounted(mechanism, count, why) for (mechanism, why), count in sorted(found.items())]
    if profiles and budget.total is not None:
        # A profile is exact: a bound on what is released does not bound it.
        gaps.append(Uncounted("profile", profiles, "profile"))
    return tuple(gaps)


def _why(budget: Budget, costs: Sequence[_Cost]) -> Gap | None:
    """Why the budget does not count a run of these costs; None where it does."""
    needed: list[tuple[Gap, Callable[[_Cost], bool]]] = [
        ("unbounded", lambda _: True),
        ("other-figure", lambda one: one.figure == budget.figure),
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
                ("other-unit", lambda one: one.unit == budget.unit),
            ]
        case _:
            assert_never(budget.figure)
    counted = budget.unit_key or budget.for_clients
    needed.append(("other-clients", lambda one: agree(counted, one.unit_key)))
    for gap, has in needed:
        costs = [cost for cost in costs if has(cost)]
        if not costs:
            return gap
    return None
