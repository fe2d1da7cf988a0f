"""Whether the totals of a federation can count what a declared training costs.

A total that cannot count a cost has to refuse it, or a change of mechanism, radius or observer
would be the way around it. It is asked when a ledger is opened, and again for every reservation:
totals may be set later, and a ledger has no end.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import assert_never

import numpy as np
from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.shared.resources import Resources
from fedaudit.privacy.accounting.rdp import RDP_ORDERS, composed_epsilon
from fedaudit.privacy.declared.histories import (
    Histories,
    largest_leakage,
    largest_log_ratio,
    renyi_curve,
)
from fedaudit.spec.declared_ledgers import LedgerTerms
from models.epsilon_costs import EpsilonCost, Shortage
from models.leakage_terms import LeakageTerms
from models.repositories import FederationRepository, LowBudgetRepository
from models.repositories.epsilon_budgets import counts_for, counts_report
from models.tables.declared_ledgers import DeclaredLedger
from models.values import Budget, BudgetFigure

BOOK = "release"
"""A trainer that wants no budget charged names no federation."""
_FIGURES = {"epsilon": "an epsilon", "leakage": "a leakage", "log_ratio": "a sum by the theorem"}


def why_uncounted(terms: LedgerTerms, budgets: Sequence[Budget]) -> str | None:
    """Why some total of the federation cannot count the ledger; None where all can."""
    totals = [
        one
        for one in budgets
        if one.book == BOOK and one.total is not None and not counts_report(one.observer)
    ]
    found = (_why(terms, one) for one in totals)
    return next((why for why in found if why is not None), None) or _other_radius(terms, totals)


def leakage_terms(terms: LedgerTerms) -> LeakageTerms | None:
    """What its leakages are counted under; None of other costs."""
    if terms.metric is None:
        return None
    return LeakageTerms.of(radius=terms.metric.radius, clip=terms.metric.clip)


def _why(terms: LedgerTerms, budget: Budget) -> str | None:
    match budget.figure:
        case "epsilon":
            return _why_no_epsilon(terms, budget)
        case "leakage":
            return _unlike(budget, "an epsilon") if terms.counts_epsilon else None
        case "log_ratio":
            if terms.counts_epsilon:
                return _unlike(budget, "an epsilon")
            if terms.metric is None or not terms.metric.has_theorem:
                return (
                    "has a total for a sum by the theorem, and the ledger has none: that needs a "
                    "fixed radius and a clip"
                )
            return None
        case _:
            assert_never(budget.figure)


def _why_no_epsilon(terms: LedgerTerms, budget: Budget) -> str | None:
    if not terms.counts_epsilon:
        return _unlike(budget, "leakage")
    if budget.adjacency != terms.adjacency:
        return (
            f"has a total of adjacency {budget.adjacency}, and the ledger's figures are of "
            f"{terms.adjacency}"
        )
    if terms.observer not in counts_for(budget):
        return f"has a total against {budget.observer}, whom the ledger's figures do not cover"
    return None


def _unlike(budget: Budget, counted: str) -> str:
    return (
        f"has a total for {_FIGURES[budget.figure]}, and the ledger's cost is counted as "
        f"{counted}, which cannot be added to it"
    )


def _other_radius(terms: LedgerTerms, totals: Sequence[Budget]) -> str | None:
    """Once a book has a total for some radius and clip, others are refused."""
    mine, known = leakage_terms(terms), [one for one in totals if one.figure == "leakage"]
    if mine is None or not known or any(one.terms == mine for one in known):
        return None
    return (
        f"has a total for a leakage of another radius or clip than the ledger's {mine}: n/nu holds "
        "between uploads within the radius, so leakages of different ones cannot be added"
    )


_NO_ROOM = "the budget of the ledger's federation has no room for the round"
_SHORTAGES: dict[Shortage, str] = {
    "no-room": "has no room left",
    "other-adjacency": "has a total of another adjacency than the ledger's figures",
    "other-observer": "has a total against somebody whom the ledger's figures do not cover",
    "other-unit": "counts another unit than that of the ledger's figures",
    "other-clients": "counts clients that are told apart otherwise",
}


def hold_budget(
    resources: Resources, session: Session, row: DeclaredLedger, terms: LedgerTerms
) -> None:
    """Open the ledger's reservations, of nothing yet. Raises ProblemError, to be followed by a
    roll-back, where a budget of the federation cannot count such costs or is used up."""
    if row.federation_id is None:
        return
    with _told(resources, session, row, row.federation_id) as (sums, epsilons):
        why = why_uncounted(terms, sums.budgets(row.federation_id))
        if why is None:
            stated = leakage_terms(terms)
            short = (
                _hold_epsilon(epsilons, row, row.federation_id, terms)
                if stated is None
                else _hold_leakage(sums, row, row.federation_id, terms, stated)
            )
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
    spent: Histories,
    held: Histories,
) -> None:
    """Book what rounds have spent, room or not, and what reservations beside them hold."""
    if row.federation_id is None:
        return
    with _told(resources, session, row, row.federation_id) as (sums, epsilons):
        if terms.counts_epsilon:
            curves = _curve(terms, held), _curve(terms, spent)
            epsilons.rebook(row.id, held=curves[0], spent=curves[1], price=None)
        else:
            most, paid = _sums(held), _sums(spent)
            sums.rebook(row.id, held=most, spent=paid, within_totals=False)


def give_back(
    resources: Resources, session: Session, row: DeclaredLedger, terms: LedgerTerms, held: Histories
) -> None:
    """Hold no more than this, whatever totals there are by now."""
    if row.federation_id is None:
        return
    with _told(resources, session, row, row.federation_id) as (sums, epsilons):
        if terms.counts_epsilon:
            epsilons.rebook(row.id, held=_curve(terms, held), spent=None, price=None)
        else:
            sums.rebook(row.id, held=_sums(held), spent=None, within_totals=False)


def hold_more(
    resources: Resources, session: Session, row: DeclaredLedger, terms: LedgerTerms, held: Histories
) -> str | None:
    """Hold so much in all; why not, and nothing changed, where the federation's budget has no room
    or a total of it cannot count the ledger."""
    if row.federation_id is None:
        return None
    with _told(resources, session, row, row.federation_id) as (sums, epsilons):
        why = why_uncounted(terms, sums.budgets(row.federation_id))
        if why is not None:
            return f"the {BOOK} book of the ledger's federation {why}"
        if terms.counts_epsilon:
            curve = _curve(terms, held)
            has_room = epsilons.rebook(row.id, held=curve, spent=None, price=composed_epsilon)
        else:
            has_room = sums.rebook(row.id, held=_sums(held), spent=None, within_totals=True)
    return None if has_room else _NO_ROOM


@contextmanager
def _told(
    resources: Resources, session: Session, row: DeclaredLedger, federation_id: str
) -> Iterator[tuple[FederationRepository, LowBudgetRepository]]:
    """The budgets of sums and of epsilons; those that run low within the block are told."""
    settings = resources.settings
    across, share = settings.budgets_across, settings.webhooks_low_budget_share
    epsilons = LowBudgetRepository(session, row.project_id, across=across)
    with epsilons.notifying_on_low(federation_id, price=composed_epsilon, share=share):
        yield FederationRepository(session, row.project_id, across=across), epsilons


def _hold_epsilon(
    epsilons: LowBudgetRepository, row: DeclaredLedger, federation_id: str, terms: LedgerTerms
) -> Shortage | None:
    assert terms.adjacency is not None
    assert terms.delta is not None
    nothing = np.zeros(len(RDP_ORDERS))
    cost = EpsilonCost(
        observer=terms.observer,
        adjacency=terms.adjacency,
        unit=terms.unit,
        delta=terms.delta,
        epsilon=0.0,
        curve=nothing,
        step=nothing,
        compositions=1,
    )
    refusal = epsilons.reserve(
        federation_id, experiment_id=row.id, book=BOOK, costs=[cost], price=composed_epsilon
    )
    return None if refusal is None else refusal.shortage


def _hold_leakage(
    sums: FederationRepository,
    row: DeclaredLedger,
    federation_id: str,
    terms: LedgerTerms,
    stated: LeakageTerms,
) -> Shortage | None:
    has_theorem = terms.metric is not None and terms.metric.has_theorem
    for counted in (stated, None) if has_theorem else (stated,):
        short = sums.shortage(federation_id, book=BOOK, amount=0.0, terms=counted)
        if short is not None:
            return short[1]
    sums.reserve(federation_id, experiment_id=row.id, book=BOOK, amount=0.0, terms=stated)
    if has_theorem:
        sums.reserve_log_ratio(
            federation_id, experiment_id=row.id, book=BOOK, amount=0.0, of_one_release=0.0
        )
    return None


def _curve(terms: LedgerTerms, histories: Histories) -> np.ndarray:
    assert terms.adjacency is not None
    return renyi_curve(histories.distinct(), histories.charges, adjacency=terms.adjacency)


def _sums(histories: Histories) -> dict[BudgetFigure, float]:
    return {"leakage": largest_leakage(histories), "log_ratio": largest_log_ratio(histories)}
