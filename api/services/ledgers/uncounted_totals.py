"""Whether the totals of a federation can count what a declared training costs.

A total that cannot count a cost has to refuse it, or a change of mechanism, radius or observer
would be the way around it. It is asked when a ledger is opened, and again for every reservation:
totals may be set later, and a ledger has no end.
"""

from collections.abc import Sequence
from typing import assert_never

from fedaudit.spec.declared.ledger_terms import LedgerTerms
from models.leakage_terms import LeakageTerms
from models.repositories.epsilon_budgets import counts_for, counts_report
from models.values import Budget

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
