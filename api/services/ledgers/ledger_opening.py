"""Open ledgers of trainings that run elsewhere, and look them up."""

import hashlib

import numpy as np
import rfc8785
from sqlalchemy.orm import Session

from api.http.problems import ProblemError, invalid, not_found
from api.services.dispatch import IdempotentRequest
from api.services.ledgers.federation_charges import hold_budget
from api.services.ledgers.ledger_disclosure import shown_group_size
from api.services.lookups import find_federation
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.chain import genesis
from fedaudit.spec.declared_ledgers import EVERYONE, LedgerTerms
from models.clock import utc_now
from models.identifiers import is_id, new_id
from models.repositories import AuditLogRepository, DeclaredLedgerRepository, FederationRepository
from models.tables.declared_ledgers import DeclaredLedger


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
