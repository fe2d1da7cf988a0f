"""Charge the budget of the federation that a declared training used.

A ledger holds reservations on it from the day it is opened: what was spent, and what open
reservations of rounds may still spend. Epsilons are composed. Leakages add up under the radius and
clip of the terms, and beside them, where there is one, the theorem's own sum. A total that cannot
count a cost has to refuse it, or a change of mechanism, radius or observer would be the way around
it: that is checked when a ledger is opened, and again for every reservation, since totals may be
set later.
"""

import numpy as np
from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.services.budgets import uncounted_words
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
from fedaudit.stored import Cost, CostFigure, LeakageTerms
from models.repositories.budgets.counting import Refusal
from models.repositories.webhooks import announcing_low
from models.tables.ledger import DeclaredLedger

BOOK = "release"
"""A trainer that wants no budget charged names no federation."""


def hold_budget(
    resources: Resources, session: Session, row: DeclaredLedger, terms: LedgerTerms
) -> None:
    """Open the ledger's reservations, of nothing yet. Raises ProblemError, to be followed by a
    roll-back, where a budget of the federation cannot count such costs or is used up."""
    if row.federation_id is None:
        return
    budgets = resources.budgets(session, row.project_id)
    with announcing_low(budgets, row.federation_id):
        refusal = budgets.reserve(
            row.federation_id, experiment_id=row.id, book=BOOK, costs=_no_costs(terms)
        )
    if refusal is not None:
        raise ProblemError(
            "budget-exhausted",
            f"the {BOOK} book of this federation {_why(refusal)}; state other terms, or have the "
            "budget changed",
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
    budgets = resources.budgets(session, row.project_id)
    with announcing_low(budgets, row.federation_id):
        if within_totals:
            budgets.hold(id=row.federation_id)
            refusal = budgets.uncounted(row.federation_id, BOOK, _no_costs(terms))
            if refusal is not None:
                return f"the {BOOK} book of the ledger's federation {_why(refusal)}"
        has_room = budgets.rebook(
            row.id,
            held=_by_figure(held, terms),
            spent=None if spent is None else _by_figure(spent, terms),
            within_totals=within_totals,
        )
    why = "has no room for the round, or leaves out the ledger, as it was opened before a total was"
    return None if has_room else f"the budget of the ledger's federation {why}"


def _by_figure(histories: Histories, terms: LedgerTerms) -> dict[CostFigure, Floats]:
    if terms.adjacency is not None and terms.counts_epsilon:
        return {"epsilon": renyi_curve(histories, terms.adjacency)}
    log_ratio = largest_log_ratio(histories)
    sums = (largest_leakage(histories), np.inf if log_ratio is None else log_ratio)
    return {"leakage": np.array(sums[:1]), "log_ratio": np.array(sums[1:])}


def _why(refusal: Refusal) -> str:
    if refusal.shortage == "no-room":
        return "has no room left"
    return uncounted_words(refusal.budget, refusal.shortage, "the ledger")


def _no_costs(terms: LedgerTerms) -> list[Cost]:
    """What a ledger of these terms costs before its first round: nothing, of each figure."""
    if terms.metric is None:
        assert terms.adjacency is not None
        assert terms.delta is not None
        nothing = np.zeros(len(RDP_ORDERS))
        return [
            Cost(
                figure="epsilon",
                observer=terms.observer,
                adjacency=terms.adjacency,
                unit=terms.unit,
                delta=terms.delta,
                curve=nothing,
                step=nothing,
                planned=1,
            )
        ]
    stated = LeakageTerms.of(radius=terms.metric.radius, clip=terms.metric.clip)
    costs = [Cost(figure="leakage", adjacency=stated.key)]
    if terms.metric.has_theorem:
        costs.append(Cost(figure="log_ratio", step=np.zeros(1)))
    return costs
