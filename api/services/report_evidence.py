"""The stored records of an experiment as evidence: verified anew, or bundled."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from api.http.problems import conflict
from api.schemas.base import of_row
from api.schemas.experiment_tables import Verification
from api.services.lookups import find_experiment, find_stored_report, names_of
from api.shared.security import Call
from fedaudit.ledger.bundle import Evidence, Fault, bundle_chunks, distinct_names
from fedaudit.ledger.rows import UnreadableRow
from fedaudit.ledger.statements import Envelope, PublicKey
from fedaudit.ledger.statements import SignOff as Statement
from fedaudit.reports.checks import Check, value_at
from fedaudit.reports.report import LaterStatement
from fedaudit.reports.sections.attacks import raised_alarms
from fedaudit.reports.verification.verification import ALTERED
from fedaudit.reports.verification.verification import Verification as Verified
from fedaudit.reports.verification.verification import verify as verify_evidence
from fedaudit.spec.canonical import canonical_hash
from fedaudit.stored import LedgerRow
from models.database import Database
from models.repositories import (
    ErasureRepository,
    LaterAttacksRepository,
    LedgerCheckpointRepository,
    LedgerRepository,
    ReportRepository,
    RunLogRepository,
    SigningKeyRepository,
    SignOffRepository,
)
from models.repositories.ledger import stored_rows
from models.tables.experiments import Experiment, LaterAttacks, PredictionAudit, SignOff
from models.tables.ledger import DeclaredLedger, RunLogEntry, SigningKey
from models.values import ENDED

_ROWS = 500
_UNDECODABLE = (ValueError, TypeError, OverflowError)
"""Errors that SQLite's columns raise for a value of another type than was stored."""

Read = TypeVar("Read")
Place = tuple[int, NDArray[np.int32]]
"""A row's round and subjects."""


def evidence_of(
    database: Database, owner: Experiment | DeclaredLedger, report: dict[str, Any] | None
) -> Evidence:
    """Everything that is stored of an experiment, or of a training elsewhere; the ledger is read in
    short transactions, on demand."""
    faults: list[Fault] = []
    id_, project_id = owner.id, owner.project_id
    spec = owner.spec if isinstance(owner, Experiment) else owner.terms

    def read(what: str, find: Callable[[], Iterable[Read]]) -> list[Read]:
        try:
            return list(find())
        except (*_UNDECODABLE, LookupError):
            faults.append(Fault(what, "cannot be read"))
            return []

    with database.read() as session:
        names = read("subjects", lambda: names_of(session, owner))
        checkpoints = LedgerCheckpointRepository(session, project_id)
        sign_offs = read("sign-offs", lambda: SignOffRepository(session, project_id).list(id_))
        later = read("later attacks", lambda: LaterAttacksRepository(session, project_id).list(id_))
        stored = read("claims", lambda: ReportRepository(session, project_id).claims(id_))
        log: Sequence[RunLogEntry] = ()  # trainings elsewhere are in none
        if isinstance(owner, Experiment):
            federation_id = owner.federation_id
            log = read("log of runs", lambda: RunLogRepository(session).list(federation_id))
        keys = SigningKeyRepository(session).list()
        return Evidence(
            experiment_id=id_,
            spec=spec,
            names=distinct_names(names, faults, part="subjects"),
            report=report,
            checkpoints=read("checkpoints", lambda: checkpoints.envelopes(id_)),
            sign_offs=[row.envelope for row in sign_offs if row.envelope is not None],
            later_attacks=[row.envelope for row in later if row.envelope is not None],
            claims=stored if report is not None else (),
            log=_log(log) if any(row.experiment_id == id_ for row in log) else None,
            salt=owner.ledger_salt,
            erased=ErasureRepository(session, project_id).statement(id_),
            keys=readable_keys([key.public_key for key in keys], faults),
            compromised=leaked_keys(keys),
            rows=readable_rows(database, id_, project_id),
            faults=faults,
        )


def _log(rows: Sequence[RunLogEntry]) -> dict[str, Any]:
    entries = [{name: getattr(row, name) for name in ("run", "kind", "digest")} for row in rows]
    return {"entries": entries, "checkpoint": rows[-1].checkpoint}


def readable_rows(
    database: Database, owner_id: str, project_id: str
) -> Iterator[LedgerRow | UnreadableRow]:
    """The rows in order; a row that cannot be decoded is named, and reading continues."""
    after: tuple[Any, ...] | None = None
    while True:
        with database.read() as session:
            ledger = LedgerRepository(session, project_id)
            rows: Sequence[LedgerRow | UnreadableRow]
            keys: Sequence[tuple[Any, ...]]
            try:
                decoded = ledger.rows_after(owner_id, after=after, limit=_ROWS)
                rows, keys = decoded, [row.key for row in decoded]
            except _UNDECODABLE:
                keys = ledger.keys_after(owner_id, after=after, limit=_ROWS)
                rows = [_one_row(ledger, owner_id, key) for key in keys]
        yield from rows
        if len(rows) < _ROWS:
            return
        after = keys[-1]


def _one_row(
    ledger: LedgerRepository, owner_id: str, key: tuple[Any, ...]
) -> LedgerRow | UnreadableRow:
    place = f"round {key[0]}, release {key[1]}"
    try:
        return ledger.row(owner_id, key) or UnreadableRow(place, "it was just deleted")
    except _UNDECODABLE:
        return UnreadableRow(place, "its columns cannot be decoded")


def leaked_keys(keys: Sequence[SigningKey]) -> dict[str, str]:
    """The time from which others may have each leaked key, by its id."""
    return {
        key.key_id: key.compromised_at.isoformat() for key in keys if key.compromised_at is not None
    }


def readable_keys(texts: list[str], faults: list[Fault]) -> list[PublicKey]:
    """The keys that can be read, and a fault for each other one."""
    found = []
    for text in texts:
        try:
            found.append(PublicKey.from_pem(text.encode()))
        except ValueError:
            faults.append(Fault("signing keys", "include one that is no public key of these kinds"))
    return found


def bundle_of(database: Database, session: Session, experiment: Experiment) -> Iterator[bytes]:
    """The bytes of an ended experiment's bundle; the ledger is read while they are sent. Raises
    ProblemError where it has not ended."""
    if experiment.status not in ENDED:
        raise conflict(f"the experiment has not ended: it is {experiment.status}")
    report = ReportRepository(session, experiment.project_id).get(experiment.id)
    stored = evidence_of(database, experiment, None if report is None else report.document)
    return bundle_chunks(stored, stored_rows(database, experiment.id, experiment.project_id))


def verification_of(call: Call, experiment_id: str) -> Verification:
    """The verification of an experiment of the caller's project; rows are read in short
    transactions. No key is trusted here: a service that vouches for its own keys proves nothing.
    Raises ProblemError without such an experiment, or without a report of it."""
    document: Any = None
    stored_hash, database = "", call.resources.database
    with call.reading() as session:
        experiment = find_experiment(session, call.caller, experiment_id)
        try:
            stored = find_stored_report(session, call.caller, experiment_id)
            document, stored_hash = stored.document, stored.report_hash
        except ValueError:
            # SQLite keeps JSON as text: a single changed byte can make it invalid.
            pass
    report = document if isinstance(document, dict) else {}
    evidence = evidence_of(database, experiment, report)
    found = verify_evidence(
        evidence,
        # Evaluated once the rows were read.
        more=_check_columns(database, experiment, report, stored_hash),
    )
    return of_row(Verification, found, **found_in(report, found))


def found_in(report: object, found: Verified) -> dict[str, Any]:
    """What was found in a report of any kind, and what it states of its signature, where that can
    be read."""
    integrity = value_at(report, "integrity")
    signature, key_id = value_at(integrity, "signature"), value_at(integrity, "key_id")
    reasons = value_at(integrity, "reasons")
    return {
        "valid": found.verdict != ALTERED,
        "verdict": found.verdict,
        "checks": found.checks,
        "signature": signature if isinstance(signature, str) else None,
        "key_id": key_id if isinstance(key_id, str) else None,
        "reasons": reasons if isinstance(reasons, dict) else {},
    }


def stored_report_check(report: Mapping[str, Any], stored_hash: str | None) -> Check:
    """Whether the report is the one that has this hash."""
    return Check.of(
        "report.hash",
        stored_hash is not None and canonical_hash(report) == stored_hash,
        good="the report is the one that was stored",
        bad="the report was altered after it was stored",
    )


def stored_spec_check(what: str, row: Experiment | PredictionAudit) -> Check:
    """Whether the spec of an experiment or audit is the one that has its hash."""
    return Check.of(
        f"{what}.spec_hash",
        canonical_hash(row.spec) == row.spec_hash,
        good="the stored spec is the one that was submitted",
        bad="the stored spec was altered after it was submitted",
    )


def _check_columns(
    database: Database, experiment: Experiment, report: dict[str, Any], stored_hash: str
) -> Iterator[Check]:
    """The checks that only the database's own columns allow: of report, spec, and what is shown of
    signed statements."""
    yield stored_report_check(report, stored_hash)
    yield stored_spec_check("experiment", experiment)
    with database.read() as session:
        sign_offs: Sequence[SignOff] = ()
        later: Sequence[LaterAttacks] = ()
        with suppress(ValueError):
            sign_offs = SignOffRepository(session, experiment.project_id).list(experiment.id)
        with suppress(ValueError):
            later = LaterAttacksRepository(session, experiment.project_id).list(experiment.id)
    if sign_offs:
        wrong = [str(row.number) for row in sign_offs if not _is_as_signed(row)]
        yield _stored_check("sign_offs.stored", "sign-offs", wrong)
    if waiting := sum(row.envelope is None for row in sign_offs):
        yield Check.unchecked("sign_offs.waiting", f"{waiting} waiting for the service's signature")
    if later:
        wrong = [str(row.number) for row in later if not _is_as_found(row)]
        yield _stored_check("later_attacks.stored", "later attacks", wrong)


def _stored_check(name: str, what: str, wrong: list[str]) -> Check:
    return Check.of(
        name,
        not wrong,
        good=f"what is shown of {what} is what was signed",
        bad=f"altered beside what was signed: {', '.join(wrong[:3])}",
    )


def _is_as_found(row: LaterAttacks) -> bool:
    if row.envelope is None:
        return row.statement is None and row.alarms is None
    try:
        signed = LaterStatement.of(Envelope.from_dict(row.envelope))
        stated = LaterStatement.of_fields(row.statement)
    except ValueError:
        return False
    place = (signed.experiment_id, signed.number, signed.report_hash, signed.ledger_hash)
    stored = (row.experiment_id, row.number, row.report_hash, row.ledger_hash)
    alarms = len(raised_alarms(signed.fields()))
    return signed == stated and (place, alarms) == (stored, row.alarms)


def _is_as_signed(row: SignOff) -> bool:
    try:
        stated = Statement.of_fields(row.statement)
        if row.envelope is not None and Statement.of(Envelope.from_dict(row.envelope)) != stated:
            return False
    except ValueError:
        return False
    place = (stated.experiment_id, stated.number, stated.report_hash, stated.decision)
    return place == (row.experiment_id, row.number, row.report_hash, row.decision)
