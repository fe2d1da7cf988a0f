"""What the budgets of a federation leave out: runs whose cost one of them cannot count.

A budget with a total refuses such runs of its book. One whose total was set late, or that has none,
has them behind it: whoever reads what remains must know of them. A total for release does not
refuse simulation, nor the profile of the data, and both publish what follows from the data: it
lists them. A run without a mechanism has no noise of either mode, and every total lists it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from sqlalchemy import and_, func, or_, select

from models.leakage_terms import LeakageTerms
from models.repositories.contents.budget_rows import BudgetRows
from models.repositories.epsilon_budgets import counts_for, counts_report
from models.repositories.experiments import ENDED
from models.tables.declared_ledgers import DeclaredLedger
from models.tables.experiments import Experiment
from models.tables.federations import Federation
from models.tables.reservations import Reservation
from models.values import Budget, BudgetFigure, Gap, Uncounted

_RELEASE = "release"


@dataclass(frozen=True)
class _Cost:
    figure: BudgetFigure
    adjacency: str
    observer: str
    unit: str | None
    unit_key: str


@dataclass
class _Run:
    """One experiment that has spent something, or still may; `costs` is empty without noise."""

    book: str
    mechanism: str
    costs: list[_Cost] = field(default_factory=list)

    @property
    def is_in_both_books(self) -> bool:
        """Without a mechanism there is no noise in training that could be of either mode."""
        return all(counts_report(cost.observer) for cost in self.costs)


class BudgetGapRepository(BudgetRows):
    """Compares the runs on a federation with its budgets, and those of projects that share it."""

    def uncounted(self, federation_id: str, budgets: Sequence[Budget]) -> list[Budget]:
        """The same budgets, each with the runs that are not in its figures."""
        sharing = self._sharing(federation_id)
        ids = () if sharing is None else sharing.ids
        runs = [*self._runs(ids), *self._ledgers(ids)]
        profiles = self._profiles(ids)
        return [
            replace(one, uncounted=_uncounted(one, runs) + _shown(one, profiles)) for one in budgets
        ]

    def _profiles(self, federation_ids: Sequence[str]) -> int:
        """How many profiles were published: one for each registration that differs."""
        profiles = select(func.sum(Federation.profiles)).where(Federation.id.in_(federation_ids))
        return int(self.session.scalar(profiles) or 0)

    def _runs(self, federation_ids: Sequence[str]) -> list[_Run]:
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
                Reservation.unit_key,
            )
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
        runs: dict[str, _Run] = {}
        for id_, noise, mechanism, figure, adjacency, observer, unit, unit_key in rows:
            run = runs.setdefault(id_, _Run(noise, mechanism))
            if figure is not None:
                run.costs.append(_Cost(figure, adjacency, observer, unit, unit_key))
        return list(runs.values())

    def _ledgers(self, federation_ids: Sequence[str]) -> list[_Run]:
        """Trainings elsewhere that have declared a round."""
        mine = and_(
            Reservation.experiment_id == DeclaredLedger.id,
            Reservation.federation_id == DeclaredLedger.federation_id,
        )
        rows = self.session.execute(
            select(
                DeclaredLedger.id,
                DeclaredLedger.terms["mechanism"].as_string(),
                Reservation.figure,
                Reservation.adjacency,
                Reservation.observer,
                Reservation.unit,
                Reservation.unit_key,
            )
            .join(Reservation, mine)
            .where(DeclaredLedger.federation_id.in_(federation_ids), DeclaredLedger.rounds > 0)
        )
        runs: dict[str, _Run] = {}
        for id_, mechanism, *cost in rows:
            run = runs.setdefault(id_, _Run(_RELEASE, f"{mechanism}, declared"))
            run.costs.append(_Cost(*cost))
        return list(runs.values())


def _uncounted(budget: Budget, runs: Iterable[_Run]) -> tuple[Uncounted, ...]:
    found: Counter[tuple[str, Gap]] = Counter()
    for run in runs:
        why: Gap | None = None
        if run.book == budget.book:
            why = _why(budget, run.costs)
        elif budget.total is not None and run.is_in_both_books and not _of(budget, run.costs):
            why = "unbounded"
        elif _bounds_release(budget):
            why = "simulated"
        if why is not None:
            found[run.mechanism, why] += 1
    return tuple(
        Uncounted(mechanism, count, why) for (mechanism, why), count in sorted(found.items())
    )


def _shown(budget: Budget, profiles: int) -> tuple[Uncounted, ...]:
    """A profile is exact: a bound on what is released does not bound it."""
    if not profiles or budget.total is None:
        return ()
    return (Uncounted("profile", profiles, "profile"),)


def _bounds_release(budget: Budget) -> bool:
    return budget.book == _RELEASE and budget.total is not None


def _of(budget: Budget, costs: Sequence[_Cost]) -> list[_Cost]:
    """Those of what the budget is about: training, or what reports show."""
    of_report = counts_report(budget.observer)
    return [cost for cost in costs if counts_report(cost.observer) == of_report]


def _why(budget: Budget, costs: Sequence[_Cost]) -> Gap | None:
    """Why the budget does not count a run of these costs; None where it does."""
    costs = _of(budget, costs)
    if not costs:
        return "unbounded"
    costs = [cost for cost in costs if cost.figure == budget.figure]
    if not costs:
        return "other-figure"
    match budget.figure:
        case "leakage":
            return _why_no_leakage(budget, costs)
        case "log_ratio":
            return _why_other_clients(budget, costs)
        case "epsilon":
            return _why_no_epsilon(budget, costs)
        case _:
            assert_never(budget.figure)


def _why_no_leakage(budget: Budget, costs: Sequence[_Cost]) -> Gap | None:
    costs = [cost for cost in costs if LeakageTerms.read(cost.adjacency) == budget.terms]
    return _why_other_clients(budget, costs) if costs else "other-terms"


def _why_no_epsilon(budget: Budget, costs: Sequence[_Cost]) -> Gap | None:
    costs = [cost for cost in costs if cost.adjacency == budget.adjacency]
    if not costs:
        return "other-adjacency"
    costs = [cost for cost in costs if cost.observer in counts_for(budget)]
    if not costs:
        return "other-observer"
    costs = [cost for cost in costs if cost.unit == budget.unit]
    return _why_other_clients(budget, costs) if costs else "other-unit"


def _why_other_clients(budget: Budget, costs: Iterable[_Cost]) -> Gap | None:
    counted = budget.unit_key or budget.for_clients
    agree = any(not cost.unit_key or cost.unit_key == counted for cost in costs)
    return None if agree or not counted else "other-clients"
