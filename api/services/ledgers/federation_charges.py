"""Charge the budget of the federation that a declared training used.

A ledger holds one reservation on it from the day it is opened: what was spent, and what open
reservations of rounds may still spend. It is of the book `release`, since a trainer that wants no
budget charged names no federation.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.shared.resources import Resources
from fedaudit.ledger.composition import composed_epsilon
from fedaudit.privacy.accounting.accountants.rdp import RDP_ORDERS
from fedaudit.privacy.declared.histories import Histories, renyi_curve
from fedaudit.spec.declared.ledger_terms import LedgerTerms
from models.epsilon_costs import EpsilonCost, EpsilonRefusal
from models.repositories import FederationRepository, LowBudgetRepository
from models.repositories.epsilon_budgets import counts_report
from models.tables.declared.declared_ledgers import DeclaredLedger

_BOOK = "release"


def hold_budget(
    resources: Resources, session: Session, row: DeclaredLedger, terms: LedgerTerms
) -> None:
    """Open the ledger's reservation, of nothing yet. Raises ProblemError, to be followed by a
    roll-back, where a budget of the federation cannot count such costs."""
    if row.federation_id is None or terms.adjacency is None or terms.delta is None:
        return
    across = resources.settings.budgets_across
    federations = FederationRepository(session, row.project_id, across=across)
    for budget in federations.budgets(row.federation_id):
        bounded = budget.book == _BOOK and budget.total is not None
        if bounded and budget.figure != "epsilon" and not counts_report(budget.observer):
            raise _problem(
                f"the {_BOOK} book of this federation has a total for a {budget.figure}, and the "
                "ledger's cost is counted as an epsilon, which cannot be added to it",
                row.federation_id,
            )
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
    with _told(resources, session, row, row.federation_id) as repository:
        refusal = repository.reserve(
            row.federation_id,
            experiment_id=row.id,
            book=_BOOK,
            costs=[cost],
            price=composed_epsilon,
        )
    if refusal is not None:
        raise _refused(refusal, terms, row.federation_id)


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
    if row.federation_id is None or terms.adjacency is None:
        return
    with _told(resources, session, row, row.federation_id) as repository:
        repository.rebook(row.id, held=_curve(terms, held), spent=_curve(terms, spent), price=None)


def has_room(
    resources: Resources,
    session: Session,
    row: DeclaredLedger,
    terms: LedgerTerms,
    held: Histories,
) -> bool:
    """Hold so much in all; False, and nothing changed, where the federation's budget has no
    room."""
    if row.federation_id is None or terms.adjacency is None:
        return True
    with _told(resources, session, row, row.federation_id) as repository:
        return repository.rebook(
            row.id, held=_curve(terms, held), spent=None, price=composed_epsilon
        )


@contextmanager
def _told(
    resources: Resources, session: Session, row: DeclaredLedger, federation_id: str
) -> Iterator[LowBudgetRepository]:
    """The budgets, of which those that run low within the block are told."""
    settings = resources.settings
    budgets = LowBudgetRepository(session, row.project_id, across=settings.budgets_across)
    share = settings.webhooks_low_budget_share
    with budgets.told(federation_id, price=composed_epsilon, share=share):
        yield budgets


def _curve(terms: LedgerTerms, histories: Histories) -> np.ndarray:
    assert terms.adjacency is not None
    return renyi_curve(histories.distinct(), histories.charges, adjacency=terms.adjacency)


def _refused(refusal: EpsilonRefusal, terms: LedgerTerms, federation_id: str) -> ProblemError:
    budget = refusal.budget
    why = {
        "no-room": "has no room left",
        "other-adjacency": f"has a total of adjacency {budget.adjacency}, and the ledger's figures "
        f"are of {terms.adjacency}",
        "other-observer": f"has a total against {budget.observer}, whom the ledger's figures do "
        "not cover",
        "other-unit": f"counts another unit than the {terms.unit} of the ledger's figures",
        "other-clients": "counts clients that are told apart otherwise",
    }[refusal.shortage]
    return _problem(f"the {_BOOK} book of this federation {why}", federation_id)


def _problem(detail: str, federation_id: str) -> ProblemError:
    return ProblemError(
        409,
        "budget-exhausted",
        f"{detail}; state other terms, or have the budget changed",
        federation_id=federation_id,
    )
