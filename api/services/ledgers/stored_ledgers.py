"""Ledgers of trainings that run elsewhere: opened, found, and shown with their rounds."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
import rfc8785
from sqlalchemy.orm import Session

from api.http.problems import ProblemError, invalid, not_found
from api.schemas.ledger_bodies import LedgerBody, LedgerEpsilon, LedgerSummary, PostedRound
from api.services.base.idempotency import IdempotentRequest
from api.services.base.lookups import find_federation
from api.services.federations.disclosure_policies import floor_of
from api.services.ledgers.federation_charges import hold_budget
from api.services.ledgers.round_charging import read_event
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.chain import genesis
from fedaudit.privacy.declared.figures import UNBOUNDED, contradictions, ledger_figures
from fedaudit.privacy.declared.histories import charge_of
from fedaudit.reports.declared.declared_material import gaps_of
from fedaudit.spec.declared_ledgers import EVERYONE, LedgerTerms
from fedaudit.spec.disclosure.disclosure_policy import least_group_size
from models.clock import utc_now
from models.identifiers import is_id, new_id
from models.repositories import (
    AuditLogRepository,
    DeclaredLedgerRepository,
    DeclaredPartRepository,
    FederationRepository,
)
from models.repositories.declared_ledgers import OPEN, REFUSED, RELEASED
from models.tables.declared_ledgers import DeclaredLedger, DeclaredReservation, DeclaredRoundRow

_MAX_GAPS = 100
_OF_ROW = ("id", "name", "federation_id", "created_at", "declared_at")
_OF_COST = ("mechanism", "unit", "observer", "delta", "adjacency")


def open_ledger(
    resources: Resources, caller: Caller, terms: LedgerTerms, idempotency: IdempotentRequest | None
) -> DeclaredLedger:
    """A new ledger without rounds, or the one that the same request made before.

    Raises InvalidInputError or ProblemError where the terms name a federation that the caller's
    project does not have.
    """
    with resources.database.write() as session:
        ledgers = DeclaredLedgerRepository(session, caller.project_id)
        known = None if idempotency is None else idempotency.lookup(session, caller)
        if known is not None:
            found = ledgers.get(known.resource_id or "")
            if found is not None:
                return found
        _check_federation(session, caller, terms)
        least = shown_group_size(resources, session, caller.project_id, terms.federation_id)
        if terms.minimum_group_size < least:
            raise invalid(
                "/minimum_group_size",
                f"is below {least}, the least that this service or the federation's disclosure "
                "policy allows; raise it",
            )
        made = _row(caller, terms)
        ledgers.add(made)
        hold_budget(resources, session, made, terms)
        if idempotency is not None and not idempotency.claim(
            session, caller, made.id, status_code=201
        ):
            raise ProblemError(
                409, "conflict", "the same request is being answered; send it again for its answer"
            )
        AuditLogRepository(session, caller.project_id).enter(
            "ledger.opened",
            made.id,
            by=caller.actor,
            name=made.name,
            federation_id=made.federation_id,
            terms_hash=made.terms_hash,
        )
        return made


def find_ledger(session: Session, caller: Caller, ledger_id: str) -> DeclaredLedger:
    """Raises ProblemError where the caller's project has no such ledger."""
    found = None
    if is_id(ledger_id):
        found = DeclaredLedgerRepository(session, caller.project_id).get(ledger_id)
    if found is None:
        raise not_found("ledger")
    return found


def shown_group_size(
    resources: Resources, session: Session, project_id: str, federation_id: str | None
) -> int:
    """The least rows of a declared group that is shown: what the service, and the policies of the
    federation and of its content's owner, allow at this moment."""
    across = resources.settings.budgets_across
    federations = FederationRepository(session, project_id, across=across)
    policies = [] if federation_id is None else federations.disclosures(federation_id)
    return least_group_size(floor_of(resources.settings), policies)


def _row(caller: Caller, terms: LedgerTerms) -> DeclaredLedger:
    ledger_id, stated = new_id(), terms.model_dump(mode="json")
    names = [EVERYONE, *(terms.subjects or ())]
    return DeclaredLedger(
        id=ledger_id,
        project_id=caller.project_id,
        name=terms.name,
        terms=stated,
        terms_hash=hashlib.sha256(rfc8785.dumps(stated)).hexdigest(),
        federation_id=terms.federation_id,
        created_at=utc_now(),
        created_by=caller.actor.as_dict(),
        rounds=0,
        last_round=0,
        entries=0,
        head=genesis(ledger_id),
        names=names,
        releases=np.zeros(len(names), dtype=np.int32),
        epsilon_max=0.0 if terms.counts_epsilon else None,
        leakage_max=0.0 if terms.mechanism == "laplace-l2" else None,
        declared_at=None,
        signed_entries=-1,
        signed_at=None,
    )


def _check_federation(session: Session, caller: Caller, terms: LedgerTerms) -> None:
    if terms.federation_id is None:
        return
    try:
        found = find_federation(session, caller, terms.federation_id)
    except ProblemError:
        raise invalid("/federation_id", "there is no such federation in this project") from None
    # Locked, so that it is not erased before the ledger is stored.
    locked = FederationRepository(session, caller.project_id).lock(found.id)
    if locked is not None and locked.status == "erased":
        raise invalid("/federation_id", "was erased; register the data anew to use them again")


def shown_ledger(resources: Resources, caller: Caller, ledger_id: str) -> LedgerBody:
    """One ledger. Raises ProblemError where the caller's project has none of this id."""
    with resources.database.read() as session:
        row = find_ledger(session, caller, ledger_id)
        state = resources.ledgers.get(session, caller.project_id, ledger_id)
        numbers = DeclaredPartRepository(session, row.project_id).numbers(row.id)
    assert state is not None
    gaps, missing = gaps_of(numbers)
    terms, figures = state.terms, ledger_figures(state.terms, state.histories)
    reasons = {
        name: why
        for name, why in figures.reasons.items()
        if name in ("leakage_max", "log_ratio_max")
    }
    if not terms.counts_epsilon:
        reasons["epsilon"] = figures.reasons["epsilon_max"]
    of_row = (*_OF_ROW, "terms_hash", "created_by")
    of_terms = (*_OF_COST, "population", "accountant", "metric")
    return LedgerBody.model_validate(
        {
            **{name: getattr(row, name) for name in of_row},
            **{name: getattr(terms, name) for name in of_terms},
            **{name: getattr(state, name) for name in ("rounds", "last_round", "entries")},
            "guarantee": _guarantee_of(terms),
            "subjects": len({*state.histories.names, *state.drawn.names}) - 1,
            "budget": None if terms.budget is None else terms.budget.model_dump(),
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
            "chain_head": state.head.hex(),
            "signed_entries": max(0, row.signed_entries),
            "reasons": reasons,
        }
    )


def summary(row: DeclaredLedger) -> LedgerSummary:
    """A ledger in a list."""
    terms = LedgerTerms.model_validate(row.terms)
    of_row = (*_OF_ROW, "rounds", "last_round", "epsilon_max", "leakage_max")
    fields: dict[str, Any] = {name: getattr(terms, name) for name in _OF_COST}
    fields |= {name: getattr(row, name) for name in of_row}
    return LedgerSummary.model_validate({**fields, "guarantee": _guarantee_of(terms)})


def _guarantee_of(terms: LedgerTerms) -> Literal["declared", "none"]:
    return "none" if terms.mechanism == "none" else "declared"


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


def posted_round(terms: LedgerTerms, row: DeclaredRoundRow) -> PostedRound:
    """A stored round."""
    everyone = charge_of(terms, read_event(row.event)).everyone
    stored = ("round", "participants", "failures", "over_budget")
    return PostedRound.model_validate(
        {
            **{name: getattr(row, name) for name in stored},
            "charged": "population" if everyone else "participants",
            "reservation": row.reserved,
            "chain_head": row.head,
        }
    )


@dataclass(frozen=True)
class ShownRound:
    """A declared round, and how many clients its reservation refused."""

    row: DeclaredRoundRow
    refused: int


@dataclass(frozen=True)
class ShownReservation:
    """A reservation without a round, and what became of it; `unanswered`: the round may have
    run."""

    row: DeclaredReservation
    became: Literal["held", "unanswered", "given-back", "refused"]


@dataclass(frozen=True)
class LedgerRounds:
    """Some of a ledger's rounds, and its reservations, newest first."""

    rounds: Sequence[ShownRound]
    older: int | None
    """Below which round the next ones are; None where these are the last."""
    reservations: Sequence[ShownReservation]
    more_reservations: int
    """How many older ones are left out."""
    contradictions: Sequence[str]
    """Where what was declared contradicts itself."""


def ledger_rounds(
    resources: Resources, caller: Caller, ledger_id: str, *, below: int | None, limit: int
) -> LedgerRounds:
    """The newest rounds with numbers `below` one. Raises ProblemError without such a ledger."""
    with resources.database.read() as session:
        row = find_ledger(session, caller, ledger_id)
        state = resources.ledgers.get(session, caller.project_id, ledger_id)
        parts = DeclaredPartRepository(session, caller.project_id)
        rows = parts.newest_rounds(row.id, below=below, limit=limit + 1)
        reservations = parts.reservations(row.id)
    refused = {one.round: one.refused for one in reservations}
    now = utc_now()
    unanswered = [
        _shown(one, now=now, last_round=row.last_round)
        for one in reversed(reservations)
        if one.state in (OPEN, RELEASED, REFUSED)
    ]
    return LedgerRounds(
        rounds=[ShownRound(one, refused.get(one.round, 0)) for one in rows[:limit]],
        older=rows[limit - 1].round if len(rows) > limit else None,
        reservations=unanswered[:limit],
        more_reservations=max(0, len(unanswered) - limit),
        contradictions=()
        if state is None
        else contradictions(state.terms, state.histories, state.drawn),
    )


def _shown(one: DeclaredReservation, *, now: datetime, last_round: int) -> ShownReservation:
    if one.state == REFUSED:
        return ShownReservation(one, "refused")
    if one.state == RELEASED:
        return ShownReservation(one, "given-back")
    is_over = one.expires_at <= now or one.round < last_round
    return ShownReservation(one, "unanswered" if is_over else "held")
