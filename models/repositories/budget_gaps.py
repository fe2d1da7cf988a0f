"""What the budgets of a federation leave out: runs whose cost one of them cannot count.

A budget with a total refuses such runs of its book. One whose total was set late, or that has none,
has them behind it: whoever reads what remains must know of them. A total for release does not
refuse simulation, nor the profile of the data, and both publish what follows from the data: it
lists them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from sqlalchemy import and_, or_, select

from models.leakage_terms import LeakageTerms
from models.repositories.base import ScopedRepository
from models.repositories.epsilon_budgets import counts_for, counts_report
from models.repositories.experiments import ENDED
from models.tables.experiments import Experiment
from models.tables.federations import Federation, Reservation
from models.values import Budget, BudgetFigure, Gap, Uncounted

_RELEASE = "release"


@dataclass(frozen=True)
class _Cost:
    figure: BudgetFigure
    adjacency: str
    observer: str
    unit: str | None


@dataclass
class _Run:
    """One experiment that has spent something, or still may; `costs` is empty without noise."""

    book: str
    mechanism: str
    costs: list[_Cost] = field(default_factory=list)


class BudgetGapRepository(ScopedRepository):
    """Compares the runs on a federation with its budgets."""

    def uncounted(self, federation_id: str, budgets: Sequence[Budget]) -> list[Budget]:
        """The same budgets, each with the runs that are not in its figures."""
        runs, profiles = self._runs(federation_id), self._profiles(federation_id)
        return [
            replace(one, uncounted=_uncounted(one, runs) + _shown(one, profiles)) for one in budgets
        ]

    def _profiles(self, federation_id: str) -> int:
        """How many profiles were published that are still known of: one, or none."""
        found = self._one(self._select(Federation).where(Federation.id == federation_id))
        if found is None or found.profiled_at is None:
            return 0
        return int(bool(found.profile) or found.status == "deleted")

    def _runs(self, federation_id: str) -> list[_Run]:
        mine = and_(
            Reservation.experiment_id == Experiment.id,
            Reservation.federation_id == Experiment.federation_id,
        )
        rows = self.session.execute(
            select(
                Experiment.id,
                Experiment.noise,
                Experiment.mechanism,
                Reservation.figure,
                Reservation.adjacency,
                Reservation.observer,
                Reservation.unit,
            )
            .outerjoin(Reservation, mine)
            .where(
                Experiment.project_id == self.project_id,
                Experiment.federation_id == federation_id,
                # What ended before its first round has cost nothing, unless noise was drawn.
                or_(
                    Experiment.status.not_in(ENDED),
                    Experiment.rounds_done > 0,
                    Reservation.spent > 0,
                    Reservation.compositions > 0,
                ),
            )
        )
        runs: dict[str, _Run] = {}
        for id_, noise, mechanism, figure, adjacency, observer, unit in rows:
            run = runs.setdefault(id_, _Run(noise, mechanism))
            if figure is not None:
                run.costs.append(_Cost(figure, adjacency, observer, unit))
        return list(runs.values())


def _uncounted(budget: Budget, runs: Iterable[_Run]) -> tuple[Uncounted, ...]:
    found: Counter[tuple[str, Gap]] = Counter()
    for run in runs:
        why: Gap | None = None
        if run.book == budget.book:
            why = _why(budget, run.costs)
        elif _bounds_release(budget):
            why = "simulated"
        if why is not None:
            found[run.mechanism, why] += 1
    return tuple(
        Uncounted(mechanism, count, why) for (mechanism, why), count in sorted(found.items())
    )


def _shown(budget: Budget, profiles: int) -> tuple[Uncounted, ...]:
    """A profile is exact: a bound on what is released does not bound it."""
    if not profiles or not _bounds_release(budget):
        return ()
    return (Uncounted("profile", profiles, "profile"),)


def _bounds_release(budget: Budget) -> bool:
    return budget.book == _RELEASE and budget.total is not None


def _why(budget: Budget, costs: Sequence[_Cost]) -> Gap | None:
    """Why the budget does not count a run of these costs; None where it does."""
    of_report = counts_report(budget.observer)
    costs = [cost for cost in costs if counts_report(cost.observer) == of_report]
    if not costs:
        return "unbounded"
    costs = [cost for cost in costs if cost.figure == budget.figure]
    if not costs:
        return "other-figure"
    match budget.figure:
        case "leakage":
            return _why_no_leakage(budget, costs)
        case "log_ratio":
            return None
        case "epsilon":
            return _why_no_epsilon(budget, costs)
        case _:
            assert_never(budget.figure)


def _why_no_leakage(budget: Budget, costs: Sequence[_Cost]) -> Gap | None:
    terms = budget.terms
    return (
        None if any(LeakageTerms.read(cost.adjacency) == terms for cost in costs) else "other-terms"
    )


def _why_no_epsilon(budget: Budget, costs: Sequence[_Cost]) -> Gap | None:
    costs = [cost for cost in costs if cost.adjacency == budget.adjacency]
    if not costs:
        return "other-adjacency"
    costs = [cost for cost in costs if cost.observer in counts_for(budget)]
    if not costs:
        return "other-observer"
    return None if any(cost.unit == budget.unit for cost in costs) else "other-unit"
