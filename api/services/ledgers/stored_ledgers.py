"""Ledgers of trainings that run elsewhere: opened, shown with their rounds, reported, verified."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Literal

import numpy as np
from sqlalchemy.orm import Session

from api.http.problems import ProblemError, invalid, not_found
from api.schemas.experiment_tables import (
    LedgerBody,
    LedgerEpsilon,
    LedgerSummary,
    PostedRound,
    Verification,
)
from api.services.disclosure import floor_of
from api.services.dispatch import IdempotentRequest
from api.services.ledgers.federation_charges import hold_budget
from api.services.ledgers.round_posting import ledger_before, read_event
from api.services.lookups import find_federation, found_by
from api.services.report_evidence import evidence_of, stored_report_check, verification_body
from api.shared.ledger_states import AlteredEntriesError
from api.shared.resources import Resources
from api.shared.security import Call, Caller
from fedaudit.ledger.audit import Places
from fedaudit.ledger.bundle import Evidence, bundle_chunks
from fedaudit.ledger.declared import changed_beside, declaration_of
from fedaudit.ledger.encoding import genesis, ledger_hash
from fedaudit.privacy.declared.figures import UNBOUNDED, Drawn, contradictions, ledger_figures
from fedaudit.privacy.declared.histories import charge_of
from fedaudit.reports.checks import Check as Found
from fedaudit.reports.checks import check, unchecked, value_at
from fedaudit.reports.declared.declared_report import declared_report
from fedaudit.reports.declared.ledger_material import DeclaredMaterial, gaps_of
from fedaudit.reports.report import report_hash
from fedaudit.reports.verification.verification import verify
from fedaudit.spec.canonical import canonical_json
from fedaudit.spec.declared_ledgers import EVERYONE, LedgerTerms
from fedaudit.spec.disclosure import least_group_size
from models.clock import utc_now
from models.identifiers import new_id
from models.repositories import (
    AuditLogRepository,
    DeclaredLedgerRepository,
    DeclaredPartRepository,
    ErasureRepository,
    FederationRepository,
    LedgerRepository,
)
from models.repositories.declared_ledgers import OPEN, REFUSED, RELEASED
from models.repositories.ledger import stored_rows
from models.tables.ledger import DeclaredLedger, DeclaredReservation, DeclaredRoundRow

_OF_ROW = ("id", "name", "federation_id", "created_at", "declared_at", "alarm_round")
_OF_COST = ("mechanism", "unit", "observer", "delta", "adjacency")


def open_ledger(call: Call, terms: LedgerTerms, idempotency: IdempotentRequest) -> DeclaredLedger:
    """A new ledger without rounds, or the one that the same request made before.

    Raises InvalidInputError or ProblemError where the terms name a federation that the caller's
    project does not have.
    """
    with call.writing() as session:
        ledgers = DeclaredLedgerRepository(session, call.project_id)
        known = idempotency.earlier(session, call.caller)
        if known is not None:
            found = ledgers.get(known)
            if found is not None:
                return found
        _check_federation(session, call.caller, terms)
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
            raise ProblemError(
                409, "conflict", "the same request is being answered; send it again for its answer"
            )
        AuditLogRepository(session, call.project_id).enter(
            "ledger.opened",
            made.id,
            by=call.caller.actor,
            name=made.name,
            federation_id=made.federation_id,
            terms_hash=made.terms_hash,
        )
        return made


def find_ledger(session: Session, caller: Caller, ledger_id: str) -> DeclaredLedger:
    """Raises ProblemError where the caller's project has no such ledger."""
    get = DeclaredLedgerRepository(session, caller.project_id).get
    return found_by(get, ledger_id, "ledger")


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
        alarm_round=None,
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


def shown_ledger(call: Call, ledger_id: str) -> LedgerBody:
    """One ledger. Raises ProblemError where the caller's project has none of this id."""
    with call.reading() as session:
        row = find_ledger(session, call.caller, ledger_id)
        state = call.resources.ledgers.get(session, call.project_id, ledger_id)
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
            "gaps": gaps,
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
            "alarm_round": (row.canaries or {}).get("alarm_round"),
        }
    )


Became = Literal["held", "unanswered", "given-back", "refused"]
"""What became of a reservation without a round; `unanswered`: the round may have run."""


@dataclass(frozen=True)
class LedgerRounds:
    """Some of a ledger's rounds, and its reservations, newest first."""

    rounds: Sequence[tuple[DeclaredRoundRow, int]]
    """Each with the number of clients that its reservation refused."""
    older: int | None
    """Below which round the next ones are; None where these are the last."""
    reservations: Sequence[tuple[DeclaredReservation, Became]]
    """Those without a round."""
    reserved: bool
    """Whether any round was."""
    more_reservations: int
    """How many older ones are left out."""
    contradictions: Sequence[str]
    """Where what was declared contradicts itself."""


def ledger_rounds(call: Call, ledger_id: str, *, below: int | None, limit: int) -> LedgerRounds:
    """The newest rounds with numbers `below` one. Raises ProblemError without such a ledger."""
    with call.reading() as session:
        row = find_ledger(session, call.caller, ledger_id)
        state = call.resources.ledgers.get(session, call.project_id, ledger_id)
        parts = DeclaredPartRepository(session, call.project_id)
        rows = parts.newest_rounds(row.id, below=below, limit=limit + 1)
        reservations = parts.reservations(row.id)
    refused = {one.round: one.refused for one in reservations}
    now = utc_now()
    unanswered = [
        (one, _became(one, now=now, last_round=row.last_round))
        for one in reversed(reservations)
        if one.state in (OPEN, RELEASED, REFUSED)
    ]
    return LedgerRounds(
        rounds=[(one, refused.get(one.round, 0)) for one in rows[:limit]],
        older=rows[limit - 1].round if len(rows) > limit else None,
        reservations=unanswered[:limit],
        reserved=bool(reservations),
        more_reservations=max(0, len(unanswered) - limit),
        contradictions=()
        if state is None
        else contradictions(state.terms, state.histories, state.drawn),
    )


def _became(one: DeclaredReservation, *, now: datetime, last_round: int) -> Became:
    if one.state == REFUSED:
        return "refused"
    if one.state == RELEASED:
        return "given-back"
    return "unanswered" if one.expires_at <= now or one.round < last_round else "held"


@dataclass(frozen=True)
class LedgerReport:
    """A report and what it covers."""

    document: dict[str, Any]
    report_hash: str
    entries: int
    ledger: DeclaredLedger


def report_of(call: Call, ledger_id: str) -> LedgerReport:
    """The signed report where it covers all rounds, or one made now, without a signature.

    One that shows smaller groups than are allowed by now is not shown again. Raises ProblemError
    where the caller's project has no such ledger.
    """
    found = _newest(call, ledger_id)
    if found.entries == found.ledger.entries and _may_be_shown(call.resources, found):
        return found
    return _made_now(call, ledger_id)


def ledger_bundle(call: Call, ledger_id: str) -> Iterator[bytes]:
    """The bytes of a ledger's bundle: what the newest signed report covers, or else all of it.

    Without that report, if it shows smaller groups than are allowed by now. Raises ProblemError
    where the caller's project has no such ledger.
    """
    found = _newest(call, ledger_id)
    evidence, row = _evidence(call.resources, found), found.ledger
    if not _may_be_shown(call.resources, found):
        evidence = replace(evidence, report=None)
    rows = stored_rows(call.resources.database, row.id, row.project_id)
    return bundle_chunks(evidence, islice(rows, found.entries))


def verify_ledger(call: Call, ledger_id: str) -> Verification:
    """The stored ledger, checked anew. Raises ProblemError as above."""
    try:
        found = _newest(call, ledger_id)
    except AlteredEntriesError:
        with call.reading() as session:
            row = find_ledger(session, call.caller, ledger_id)
        found = LedgerReport({}, "", row.entries, row)
    more = [
        stored_report_check(found.document, found.report_hash),
        _declarations(call.resources, found.ledger),
    ]
    waiting = found.ledger.entries - found.entries
    if waiting:
        more.append(unchecked("ledger.waiting", f"{waiting} entries wait for their signature"))
    return verification_body(verify(_evidence(call.resources, found), more=more), found.document)


def _declarations(resources: Resources, ledger: DeclaredLedger) -> Found:
    """Whether each stored round up to the ledger's last is what the declaration of its entries
    says, what was reserved is what the round behind it says, and who was drawn is what the newest
    round says. Other checks cover that entries are as they were chained."""
    with resources.database.read() as session:
        if ErasureRepository(session, ledger.project_id).statement(ledger.id) is not None:
            why = "counts of groups and who took part were erased with the clients' names"
            return unchecked("ledger.declarations", why)
        chained = LedgerRepository(session, ledger.project_id).declarations(ledger.id)
        parts = DeclaredPartRepository(session, ledger.project_id)
        declared = parts.rounds(ledger.id, upto=ledger.last_round)
        reserved = parts.reservations(ledger.id)
    secret, wrong = ledger.secret or bytes(32), Places()
    for one in declared:
        stated = chained.get(one.round)
        if stated is not None and stated != declaration_of(one, secret):
            wrong.add(f"round {one.round}")
    missing = chained.keys() - {one.round for one in declared}
    for number in sorted(one for one in missing if one <= ledger.last_round):
        wrong.add(f"round {number}, which is missing")
    drawn = Drawn(ledger.drawn_names, ledger.drawn_counts)
    for changed in changed_beside(declared, reserved, drawn, secret):
        wrong.add(changed)
    return check(
        "ledger.declarations",
        not wrong.count,
        good="counts of groups, and what else rounds declared, are what the chain holds",
        bad=f"not what was declared: {wrong}",
    )


def _newest(call: Call, ledger_id: str) -> LedgerReport:
    """The newest signed report, or one made now where there is none."""
    with call.reading() as session:
        row = find_ledger(session, call.caller, ledger_id)
        document, hashed = row.report, row.report_hash
    if document is None or hashed is None:
        return _made_now(call, ledger_id)
    return LedgerReport(document, hashed, row.signed_entries, row)


def _may_be_shown(resources: Resources, report: LedgerReport) -> bool:
    """Not where a floor or a policy has become stricter than what the report was made by."""
    row = report.ledger
    by = value_at(report.document, "ledger", "minimum_group_size")
    applied = by if isinstance(by, int) else int(row.terms["minimum_group_size"])
    with resources.database.read() as session:
        least = shown_group_size(resources, session, row.project_id, row.federation_id)
    return applied >= least


_MADE: OrderedDict[tuple[Any, ...], tuple[dict[str, Any], str]] = OrderedDict()
"""The newest reports that were made for readers, by all that they depend on: a page asks for one
again and again, and it may take seconds."""
_MOST_MADE = 16


def _made_now(call: Call, ledger_id: str) -> LedgerReport:
    """Of a ledger as it is; its lock keeps rounds out while what they overwrite is read, and most
    entries are read before."""
    ledger_before(call, ledger_id)
    with call.writing() as session:
        row = DeclaredLedgerRepository(session, call.project_id).lock(ledger_id)
        if row is None:
            raise not_found("ledger")
        state = call.resources.ledgers.locked(session, row)
        reservations = DeclaredPartRepository(session, row.project_id).reservations(row.id)
        least = shown_group_size(call.resources, session, row.project_id, row.federation_id)
    now = utc_now()
    reserved = tuple((one.round, one.state, one.expires_at <= now) for one in reservations)
    of = (row.id, state.head, row.last_round, least, reserved)
    if (made := _MADE.get(of)) is not None:
        return LedgerReport(*made, row.entries, row)
    with call.reading() as session:
        entries = LedgerRepository(session, row.project_id)
        rounds = DeclaredPartRepository(session, row.project_id).rounds(row.id, upto=row.last_round)
        material = DeclaredMaterial(
            ledger_id=row.id,
            terms=state.terms,
            histories=state.histories,
            drawn=state.drawn,
            rounds=rounds,
            reservations=reservations,
            first_declaration=entries.first_declaration(row.id),
            least_group_size=least,
            made_at=now,
            ledger_hash=ledger_hash(entries.digests(row.id, upto=row.last_round)),
            chain_head=state.head.hex(),
            entries=state.entries,
        )
    # Outside of any transaction: figures may take seconds.
    document = declared_report(material)
    made = document, report_hash(document)
    _MADE[of] = made
    while len(_MADE) > _MOST_MADE:
        _MADE.popitem(last=False)
    return LedgerReport(*made, row.entries, row)


def _evidence(resources: Resources, found: LedgerReport) -> Evidence:
    stored = evidence_of(resources.database, found.ledger, found.document)
    return replace(stored, rows=islice(stored.rows, found.entries))
