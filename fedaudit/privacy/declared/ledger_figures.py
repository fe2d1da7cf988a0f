"""What a declared ledger comes to, for whoever shows it."""

from dataclasses import dataclass, field

import numpy as np

from fedaudit.privacy.accounting.privacy_events import NonPrivate
from fedaudit.privacy.declared.histories import (
    Histories,
    distinct,
    largest_epsilon,
    leakages,
    log_ratio,
    over_budget,
)
from fedaudit.spec.declared.ledger_terms import LedgerTerms

UNBOUNDED = "some rounds were declared without noise, so nothing bounds what they reveal"
OVERFLOW = "exceeds what floating-point numbers hold, so it bounds nothing"
NO_EPSILON = "the cost of {} is not counted as an epsilon with a delta"
NO_LEAKAGE = "only metric privacy is counted as leakage"
NO_THEOREM = "the theorem's sum needs a fixed radius and a clip in every round"
NO_MECHANISM = "no mechanism was declared, so nothing bounds what the rounds reveal"


@dataclass(frozen=True)
class LedgerFigures:
    """The largest cost of any subject; a None has its reason."""

    epsilon_max: float | None
    accountant: str | None
    """Of the epsilon; where it is not that of the terms, `reasons` says why."""
    leakage_max: float | None
    leakage_median: float | None
    log_ratio_max: float | None
    participations_max: int
    """Compositions of the subject that was charged most."""
    over_budget: int
    reasons: dict[str, str] = field(default_factory=dict)


def ledger_figures(terms: LedgerTerms, histories: Histories) -> LedgerFigures:
    """The figures after all rounds so far."""
    rows, charges = histories.distinct(), histories.charges
    reasons: dict[str, str] = {}
    largest = largest_epsilon(histories, terms)
    epsilon = _bounded("epsilon_max", largest.value if largest else None, reasons)
    if largest is not None and largest.reason is not None:
        reasons["accountant"] = largest.reason
    if not terms.counts_epsilon:
        reasons["epsilon_max"] = NO_EPSILON.format(terms.mechanism)
    leakage = median = bound = None
    if terms.mechanism == "laplace-l2":
        own = leakages(histories.of(np.arange(1, len(histories.names))), charges)
        leakage = _bounded("leakage_max", float(own.max(initial=0.0)), reasons)
        middle = float(np.median(_population(own, terms))) if terms.population else 0.0
        median = _bounded("leakage_median", middle, reasons)
        worst = log_ratio(rows[int(leakages(rows, charges).argmax())], charges) if charges else 0.0
        if worst is None:
            reasons["log_ratio_max"] = NO_THEOREM
        bound = _bounded("log_ratio_max", worst, reasons)
    else:
        why = NO_LEAKAGE if terms.counts_epsilon else NO_MECHANISM
        reasons |= dict.fromkeys(("leakage_max", "leakage_median", "log_ratio_max"), why)
    if has_unprotected(histories):
        overflown = [name for name, why in reasons.items() if why == OVERFLOW]
        reasons |= dict.fromkeys(overflown, UNBOUNDED)
    return LedgerFigures(
        epsilon_max=epsilon,
        accountant=largest.accountant if largest else None,
        leakage_max=leakage,
        leakage_median=median,
        log_ratio_max=bound,
        participations_max=int(rows.sum(axis=1).max(initial=0)),
        over_budget=clients_over(terms, histories),
        reasons=reasons,
    )


def has_unprotected(histories: Histories) -> bool:
    """Whether some round was declared without noise."""
    return any(isinstance(charge.event, NonPrivate) for charge in histories.charges)


def _population(own: np.ndarray, terms: LedgerTerms) -> np.ndarray:
    """With those who were never named, who spent nothing; as far as memory is worth it."""
    if terms.unit == "record":
        return own if len(own) else np.zeros(1)
    unnamed = min(max(terms.population - len(own), 0), len(own) + 1)
    return np.concatenate([own, np.zeros(unnamed)])


def clients_over(terms: LedgerTerms, histories: Histories) -> int:
    """How many clients have spent more than the budget of one; those that were never named have
    spent what everyone has."""
    if terms.budget is None:
        return 0
    rows = histories.of(np.arange(len(histories.names)))
    found, which = distinct(rows)
    over = over_budget(found, histories.charges, terms)[which]
    unnamed = terms.population - (len(rows) - 1)
    return int(over[1:].sum()) + (unnamed if over[0] else 0)


def _bounded(name: str, value: float | None, reasons: dict[str, str]) -> float | None:
    if value is not None and not np.isfinite(value):
        reasons[name] = OVERFLOW
        return None
    return value
