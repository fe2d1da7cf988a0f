"""Ledgers of trainings that run elsewhere: opened, listed, and shown with their rounds."""

import hashlib
from functools import partial
from typing import Literal

import numpy as np
from fastapi import Response
from sqlalchemy.orm import Session

from api.http.problems import ProblemError, conflict, invalid
from api.openapi import Router, located, problems
from api.routers.experiment_tables import LEDGER_FILE, AskedForm, ledger_page
from api.schemas.base import PageParameters, of_row
from api.schemas.experiment_tables import (
    DeclaredLedgerList,
    LedgerBody,
    LedgerEpsilon,
    LedgerFilters,
    LedgerPage,
    LedgerParameters,
    LedgerSummary,
)
from api.services.disclosure import floor_of
from api.services.dispatch import Idempotent, IdempotentRequest
from api.services.ledgers.federation_charges import hold_budget
from api.services.lookups import find_federation, finder, list_page, note, note_export
from api.services.tables import Form, LedgerTable, export, ledger_table
from api.shared.resources import Resources
from api.shared.security import Call, Caller, ExperimentsReader, ExperimentsWriter, LedgerReader
from fedaudit.ledger.encoding import genesis, new_salt
from fedaudit.privacy.declared.figures import SECRET_COUNT, UNBOUNDED
from fedaudit.reports.declared.declared_sections import declared_privacy
from fedaudit.reports.declared.ledger_material import gaps_of
from fedaudit.spec.canonical import canonical_json
from fedaudit.spec.declared_ledgers import EVERYONE, LedgerTerms
from fedaudit.spec.disclosure import least_group_size
from models.repositories import (
    DeclaredLedgerRepository,
    DeclaredPartRepository,
    FederationRepository,
)
from models.tables.ledger import DeclaredLedger
from models.values import new_id, utc_now

router = Router(prefix="/ledgers", tags=["ledgers"])

find_ledger = finder(DeclaredLedgerRepository, "ledger")
_SUMS = ("leakage_max", "log_ratio_max", "over_budget")
_OF_COST = ("mechanism", "unit", "observer", "delta", "adjacency")


@router.post("", status_code=201, responses=problems(409) | located(201, "A new ledger.", "ledger"))
def create_ledger(
    call: ExperimentsWriter, terms: LedgerTerms, response: Response, idempotency: Idempotent
) -> LedgerBody:
    """Open a ledger for a training that runs elsewhere, such as in Flower or under Opacus.

    Its terms say what every figure is a figure of, and never change. All that it states is as the
    trainer declares it.
    """
    ledger_id = _opened(call, terms, idempotency)
    response.headers["Location"] = f"/v1/ledgers/{ledger_id}"
    return get_ledger(ledger_id, call)


@router.get("")
def list_ledgers(call: ExperimentsReader, parameters: PageParameters) -> DeclaredLedgerList:
    """The project's ledgers, newest first."""
    with call.reading() as session:
        rows = DeclaredLedgerRepository(session, call.project_id).list
        return list_page(DeclaredLedgerList, "ledgers", parameters, rows, partial(map, summary))


@router.get("/{ledger_id}")
def get_ledger(ledger_id: str, call: ExperimentsReader) -> LedgerBody:
    """One ledger, and what its rounds come to."""
    with call.reading() as session:
        row = find_ledger(session, call.caller, ledger_id)
        state = call.resources.ledgers.get(session, call.project_id, ledger_id)
        numbers = DeclaredPartRepository(session, row.project_id).numbers(row.id)
    assert state is not None
    gaps, missing = gaps_of(numbers)
    terms, figures = state.terms, declared_privacy(state.terms, state.histories)
    reasons = {
        name: why
        for name, why in figures.reasons.items()
        if name in ("leakage_max", "log_ratio_max")
    }
    if not terms.counts_epsilon:
        reasons["epsilon"] = figures.reasons["epsilon_max"]
    named = len({*state.histories.names, *(state.drawn or ())}) - 1
    if state.histories.draws_secretly and not call.caller.may("ledger:read"):
        reasons["subjects"] = SECRET_COUNT
    of_terms = (*_OF_COST, "population", "accountant", "metric")
    return of_row(
        LedgerBody,
        row,
        **{name: getattr(terms, name) for name in of_terms},
        **{name: getattr(state, name) for name in ("rounds", "last_round", "entries")},
        guarantee=_guarantee_of(terms),
        subjects=None if "subjects" in reasons else named,
        budget=None if terms.budget is None else terms.budget.model_dump(),
        gaps=gaps,
        missing_rounds=missing,
        epsilon=epsilon_bodies(
            terms,
            figures.epsilon_max,
            accountant=figures.epsilon[0].accountant
            if figures.epsilon
            else terms.accountant or "rdp",
            reason=figures.reasons.get("epsilon_max") or figures.reasons.get("accountant"),
        ),
        **{name: getattr(figures, name) for name in _SUMS},
        chain_head=state.head.hex(),
        signed_entries=max(0, row.signed_entries),
        reasons=reasons,
    )


@router.get("/{ledger_id}/privacy-ledger", response_model=LedgerPage)
def list_declared_entries(
    *, ledger_id: str, call: LedgerReader, parameters: LedgerParameters, form: AskedForm
) -> Response:
    """What each declared round cost each client."""
    if form is not None:
        return export_declared_entries(ledger_id, form, call, parameters)
    table = partial(_table, call, ledger_id, parameters)
    return ledger_page(call.resources, "declared-ledger", parameters, table)


@router.get("/{ledger_id}/privacy-ledger.{form}", responses=LEDGER_FILE)
def export_declared_entries(
    ledger_id: str, form: Form, call: LedgerReader, filters: LedgerFilters
) -> Response:
    """What each declared round cost each client, as a file of all that the filters let through."""
    table = _table(call, ledger_id, filters)
    note_export(call, ledger_id, form)
    return export(table, call.resources.database, form)


def _table(call: Call, ledger_id: str, filters: LedgerFilters) -> LedgerTable:
    found = call.find(find_ledger, ledger_id)
    return ledger_table(call.project_id, found.id, found.names, filters, salt=found.ledger_salt)


def _opened(call: Call, terms: LedgerTerms, idempotency: IdempotentRequest) -> str:
    """The id of a new ledger without rounds, or of the one that the same request made before.

    Raises InvalidInputError or ProblemError where the terms name a federation that the caller's
    project does not have.
    """
    with call.writing() as session:
        ledgers = DeclaredLedgerRepository(session, call.project_id)
        known = idempotency.earlier(session, call.caller)
        if known is not None:
            return known
        if terms.federation_id is not None:
            try:
                find_federation(session, call.caller, terms.federation_id)
            except ProblemError:
                message = "there is no such federation in this project"
                raise invalid("/federation_id", message) from None
            # Locked, so that it is not erased before the ledger is stored.
            locked = FederationRepository(session, call.project_id).lock(terms.federation_id)
            if locked is not None and locked.status == "erased":
                message = "was erased; register the data anew to use them again"
                raise invalid("/federation_id", message)
        least = shown_group_size(call.resources, session, call.project_id, terms.federation_id)
        if terms.minimum_group_size < least:
            raise invalid(
                "/minimum_group_size",
                f"is below {least}, the least that this service or the federation's disclosure "
                "policy allows; raise it",
            )
        made = _row(call.caller, terms)
        ledgers.store(made)
        hold_budget(call.resources, session, made, terms)
        if not idempotency.claim(session, call.caller, made.id):
            raise conflict("the same request is being answered; send it again for its answer")
        names = ("name", "federation_id", "terms_hash")
        details = {name: getattr(made, name) for name in names}
        note(session, call.caller, "ledger.opened", made.id, **details)
        return made.id


def shown_group_size(
    resources: Resources, session: Session, project_id: str, federation_id: str | None
) -> int:
    """The least rows of a declared group that is shown: what the service, and the policies of the
    federation and of its content's owner, allow at this moment."""
    federations = FederationRepository(session, project_id)
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
        terms_hash=hashlib.sha256(canonical_json(stated)).hexdigest(),
        federation_id=terms.federation_id,
        created_at=utc_now(),
        created_by=vars(caller.actor),
        rounds=0,
        last_round=0,
        entries=0,
        head=genesis(ledger_id),
        ledger_salt=new_salt("declared"),
        names=names,
        releases=np.zeros(len(names), dtype=np.int32),
        epsilon_max=0.0 if terms.counts_epsilon else None,
        leakage_max=0.0 if terms.mechanism == "laplace-l2" else None,
        declared_at=None,
        alarm_round=None,
        signed_entries=-1,
        signed_at=None,
    )


def summary(row: DeclaredLedger) -> LedgerSummary:
    """A ledger in a list."""
    terms = LedgerTerms.model_validate(row.terms)
    stated = {name: getattr(terms, name) for name in _OF_COST}
    return of_row(LedgerSummary, row, **stated, guarantee=_guarantee_of(terms))


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
