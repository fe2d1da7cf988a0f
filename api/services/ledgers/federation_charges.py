"""Charge the budget of the federation that a declared training used.

A ledger holds reservations on it from the day it is opened: what was spent, and what open
reservations of rounds may still spend. Epsilons are composed. Leakages add up under the radius and
clip of the terms, and beside them, where there is one, the theorem's own sum. A total that cannot
count a cost has to refuse it, or a change of mechanism, radius or observer would be the way around
it: that is checked when a ledger is opened, and again for every reservation, since totals may be
set later.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.services.budgets import CountedCost, uncountable
from api.shared.resources import Resources
from fedaudit.arrays import Floats
from fedaudit.privacy.accounting.accountant import RDP_ORDERS
from fedaudit.privacy.declared.histories import (
    Histories,
    largest_leakage,
    largest_log_ratio,
    renyi_curve,
)
from fedaudit.spec.declared_ledgers import LedgerTerms
from fedaudit.stored import CostFigure
from models.repositories import Budgets
from models.repositories.budgets.counting import Cost, Shortage, counts_for, counts_report
from models.repositories.webhooks import announcing_low
from models.tables.ledger import DeclaredLedger
from models.values import Budget, LeakageTerms

BOOK = "release"
"""A trainer that wants no budget charged names no federation."""
_SHORTAGES: dict[Shortage, str] = {
    "no-room": "has no room left",
    "other-adjacency": "has a total of another adjacency than the ledger's figures",
    "other-observer": "has a total against an observer whom the ledger's figures do not cover",
    "other-unit": "counts another unit than the ledger's figures",
    "other-clients": "counts clients that are identified by another key",
}


def hold_budget(
    resources: Resources, session: Session, row: DeclaredLedger, terms: LedgerTerms
) -> None:
    """Open the ledger's reservations, of nothing yet. Raises ProblemError, to be followed by a
    roll-back, where a budget of the federation cannot count such costs or is used up."""
    if row.federation_id is None:
        return
    with _announcing(resources, session, row, row.federation_id) as budgets:
        why = why_uncounted(terms, budgets.budgets(row.federation_id))
        if why is None:
            short = _hold_nothing(budgets, row.id, row.federation_id, terms)
            why = None if short is None else _SHORTAGES[short]
    if why is not None:
        raise ProblemError(
            409,
            "budget-exhausted",
            f"the {BOOK} book of this federation {why}; state other terms, or have the budget "
            "changed",
            federation_id=row.federation_id,
        )


def charge_federation(
    resources: Resources,
    session: Session,
    row: DeclaredLedger,
    terms: LedgerTerms,
    *,
    held: Histories,
    spent: Histories | None = None,
    within_totals: bool = False,
) -> str | None:
    """Book what rounds have spent in all, None for no more than before, and what reservations hold
    beside them.

    Whether there is room or not; `within_totals`: why not, and nothing changed, where the
    federation's budget has no room or a total of it cannot count the ledger.
    """
    if row.federation_id is None:
        return None
    with _announcing(resources, session, row, row.federation_id) as budgets:
        why = why_uncounted(terms, budgets.budgets(row.federation_id)) if within_totals else None
        if why is not None:
            return f"the {BOOK} book of the ledger's federation {why}"
        has_room = budgets.rebook(
            row.id,
            held=_by_figure(held, terms),
            spent=None if spent is None else _by_figure(spent, terms),
            within_totals=within_totals,
        )
    return None if has_room else "the budget of the ledger's federation has no room for the round"


def _by_figure(histories: Histories, terms: LedgerTerms) -> dict[CostFigure, Floats]:
    if terms.adjacency is not None and terms.counts_epsilon:
        return {"epsilon": renyi_curve(histories, terms.adjacency)}
    log_ratio = largest_log_ratio(histories)
    sums = (largest_leakage(histories), np.inf if log_ratio is None else log_ratio)
    return {"leakage": np.array(sums[:1]), "log_ratio": np.array(sums[1:])}


def why_uncounted(terms: LedgerTerms, budgets: Sequence[Budget]) -> str | None:
    """Why some total of the federation cannot count the ledger; None where all can."""
    totals = [
        one
        for one in budgets
        if one.book == BOOK and one.total is not None and not counts_report(one.observer)
    ]
    has_theorem = terms.metric is not None and terms.metric.has_theorem
    cost = CountedCost(
        "the ledger",
        counts_epsilon=terms.counts_epsilon,
        terms=_leakage_terms(terms),
        no_theorem=None if has_theorem else "that needs a fixed radius and a clip",
    )
    if (found := uncountable(totals, cost)) is not None:
        return found[1]
    for budget in totals:
        if budget.figure == "epsilon" and budget.adjacency != terms.adjacency:
            return _SHORTAGES["other-adjacency"]
        if budget.figure == "epsilon" and terms.observer not in counts_for(budget):
            return _SHORTAGES["other-observer"]
    return None


def _leakage_terms(terms: LedgerTerms) -> LeakageTerms | None:
    """What its leakages are counted under; None of other costs."""
    if terms.metric is None:
        return None
    return LeakageTerms.of(radius=terms.metric.radius, clip=terms.metric.clip)


@contextmanager
def _announcing(
    resources: Resources, session: Session, row: DeclaredLedger, federation_id: str
) -> Iterator[Budgets]:
    """The project's budgets; those that run low within the block are announced."""
    budgets = resources.budgets(session, row.project_id)
    with announcing_low(budgets, federation_id):
        yield budgets


def _hold_nothing(
    budgets: Budgets, ledger_id: str, federation_id: str, terms: LedgerTerms
) -> Shortage | None:
    stated = _leakage_terms(terms)
    if stated is None:
        assert terms.adjacency is not None
        assert terms.delta is not None
        nothing = np.zeros(len(RDP_ORDERS))
        cost = Cost(
            figure="epsilon",
            observer=terms.observer,
            adjacency=terms.adjacency,
            unit=terms.unit,
            delta=terms.delta,
            amount=0.0,
            curve=nothing,
            step=nothing,
            planned=1,
        )
    else:
        cost = Cost(figure="leakage", adjacency=stated.key, amount=0.0)
    costs = [cost]
    if terms.metric is not None and terms.metric.has_theorem:
        costs.append(Cost(figure="log_ratio", amount=0.0, step=np.zeros(1)))
    refusal = budgets.reserve(federation_id, experiment_id=ledger_id, book=BOOK, costs=costs)
    return None if refusal is None else refusal.shortage
