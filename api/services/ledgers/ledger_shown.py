"""A stored ledger as callers see it."""

from typing import Any, Literal

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from api.schemas.ledger_bodies import LedgerBody, LedgerEpsilon, LedgerSummary, PostedRound
from api.services.ledgers.ledger_opening import find_ledger
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.privacy.declared.figures import UNBOUNDED, ledger_figures
from fedaudit.privacy.declared.histories import charge_of
from fedaudit.reports.declared.declared_material import gaps_of
from fedaudit.spec.declared_ledgers import AnyRelease, DeclaredEvent, LedgerTerms
from models.repositories import DeclaredPartRepository
from models.tables.declared_ledgers import DeclaredLedger, DeclaredRoundRow

_MAX_GAPS = 100
_EVENT: TypeAdapter[AnyRelease] = TypeAdapter(DeclaredEvent)


def shown_ledger(resources: Resources, caller: Caller, ledger_id: str) -> LedgerBody:
    """One ledger. Raises ProblemError where the caller's project has none of this id."""
    with resources.database.read() as session:
        row = find_ledger(session, caller, ledger_id)
        state = resources.ledgers.get(session, caller.project_id, ledger_id)
        gaps, missing = gaps_of(declared_numbers(session, row))
    assert state is not None
    terms, figures = state.terms, ledger_figures(state.terms, state.histories)
    of_cost = ("delta", "adjacency", "accountant", "metric")
    plain = ("observer", "population", "unit", "mechanism", *of_cost)
    reasons = {
        name: why
        for name, why in figures.reasons.items()
        if name in ("leakage_max", "log_ratio_max")
    }
    if not terms.counts_epsilon:
        reasons["epsilon"] = figures.reasons["epsilon_max"]
    return LedgerBody.model_validate(
        {
            **{name: getattr(terms, name) for name in plain},
            **{name: getattr(row, name) for name in _COLUMNS},
            "guarantee": guarantee_of(terms),
            "subjects": len({*state.histories.names, *state.drawn.names}) - 1,
            "budget": None if terms.budget is None else terms.budget.model_dump(),
            "rounds": state.rounds,
            "last_round": state.last_round,
            "gaps": gaps[:_MAX_GAPS],
            "missing_rounds": missing,
            "epsilon": epsilon_bodies(
                terms,
                figures.epsilon_max,
                accountant=figures.accountant or "rdp",
                reason=figures.reasons.get("epsilon_max") or figures.reasons.get("accountant"),
            ),
            "leakage_max": figures.leakage_max,
            "log_ratio_max": figures.log_ratio_max,
            "over_budget": figures.over_budget,
            "entries": state.entries,
            "chain_head": state.head.hex(),
            "signed_entries": max(0, row.signed_entries),
            "reasons": reasons,
        }
    )


_COLUMNS = ("id", "name", "federation_id", "terms_hash", "created_at", "created_by", "declared_at")


def epsilon_bodies(
    terms: LedgerTerms, value: float | None, *, accountant: str, reason: str | None = None
) -> list[LedgerEpsilon]:
    """The figure as a list, and whose it is; empty where the cost is not an epsilon."""
    if terms.delta is None or terms.adjacency is None or not terms.counts_epsilon:
        return []
    return [
        LedgerEpsilon(
            observer=terms.observer,
            delta=terms.delta,
            adjacency=terms.adjacency,
            accountant=accountant,
            value=value,
            reason=reason or (UNBOUNDED if value is None else None),
        )
    ]


def summary(row: DeclaredLedger) -> LedgerSummary:
    """A ledger in a list."""
    terms = LedgerTerms.model_validate(row.terms)
    named = ("mechanism", "unit", "observer", "delta", "adjacency")
    stored = (
        "id",
        "name",
        "rounds",
        "last_round",
        "epsilon_max",
        "leakage_max",
        "federation_id",
        "created_at",
        "declared_at",
    )
    fields: dict[str, Any] = {name: getattr(terms, name) for name in named}
    fields |= {name: getattr(row, name) for name in stored}
    return LedgerSummary.model_validate({**fields, "guarantee": guarantee_of(terms)})


def guarantee_of(terms: LedgerTerms) -> Literal["declared", "none"]:
    """A guarantee as declared, or none."""
    return "none" if terms.mechanism == "none" else "declared"


def posted_round(terms: LedgerTerms, row: DeclaredRoundRow) -> PostedRound:
    """A stored round."""
    everyone = charge_of(terms, read_event(row.event)).everyone
    return PostedRound.model_validate(
        {
            "round": row.round,
            "participants": row.participants,
            "failures": row.failures,
            "charged": "population" if everyone else "participants",
            "over_budget": row.over_budget,
            "reservation": row.reserved,
            "chain_head": row.head,
        }
    )


def read_event(value: dict[str, Any]) -> AnyRelease:
    """A stored event."""
    found: AnyRelease = _EVENT.validate_python(value)
    return found


def declared_numbers(session: Session, row: DeclaredLedger) -> list[int]:
    """The numbers of the rounds, ascending."""
    return DeclaredPartRepository(session, row.project_id).numbers(row.id)
