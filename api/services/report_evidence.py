"""The stored records of an experiment as evidence: verified anew, or bundled."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.schemas.experiment_tables import Check, Verification
from api.services.lookups import find_experiment, find_report, names_of
from api.shared.security import Caller
from fedaudit.ledger.bundle import BundleParts, bundle_chunks
from fedaudit.ledger.ed25519 import PublicKey
from fedaudit.ledger.envelope import Envelope
from fedaudit.ledger.evidence import Evidence, Fault
from fedaudit.ledger.rows import StoredRow, UnreadableRow
from fedaudit.ledger.sign_offs import ChainedSignOff, sign_off_of
from fedaudit.reports.assemble import report_hash
from fedaudit.reports.document.attacks.raised_alarms import raised_alarms
from fedaudit.reports.document.checks import Check as Found
from fedaudit.reports.document.checks import canonical_hash, check, unchecked, value_at
from fedaudit.reports.later.later_statement import statement_in, statement_of
from fedaudit.reports.verification.verification import ALTERED
from fedaudit.reports.verification.verification import verify as verify_evidence
from models.database import Database
from models.repositories import (
    ErasureRepository,
    LaterAttacksRepository,
    LedgerCheckpointRepository,
    LedgerRepository,
    ReportRepository,
    SigningKeyRepository,
    SignOffRepository,
)
from models.repositories.entries.client_rounds import (
    BLOCK_ROUNDS,
    ClientRoundsRepository,
    block_of,
    index_of,
    same_index,
)
from models.repositories.entries.packed_rows import PackedRowRepository
from models.repositories.experiments import ENDED
from models.tables.attacks.later_attacks import LaterAttacks
from models.tables.experiments import Experiment
from models.tables.sign_offs import SignOff
from models.tables.signing import SigningKey
from models.values import LedgerRow

_ROWS = 500
_UNDECODABLE = (ValueError, TypeError, OverflowError)
"""Errors that SQLite's columns raise for a value of another type than was stored."""


def evidence_of(
    database: Database, experiment: Experiment, report: dict[str, Any] | None
) -> Evidence:
    """Everything that is stored; the ledger is read in short transactions, on demand."""
    faults: list[Fault] = []
    with database.read() as session:
        try:
            names = names_of(session, experiment)
        except (*_UNDECODABLE, LookupError):
            names = ()
            faults.append(Fault("subjects", "cannot be read"))
        checkpoints = LedgerCheckpointRepository(session, experiment.project_id)
        sign_offs = SignOffRepository(session, experiment.project_id)
        later = LaterAttacksRepository(session, experiment.project_id)
        keys = SigningKeyRepository(session).list()
        return Evidence(
            experiment_id=experiment.id,
            spec=experiment.spec,
            names=distinct_names(names, faults),
            report=report,
            checkpoints=_envelopes(checkpoints, experiment.id, faults),
            sign_offs=_sign_offs(sign_offs, experiment.id, faults),
            later_attacks=_later_attacks(later, experiment.id, faults),
            salt=experiment.ledger_salt,
            erased=ErasureRepository(session, experiment.project_id).statement(experiment.id),
            keys=readable_keys([key.public_key for key in keys], faults),
            compromised=leaked_keys(keys),
            rows=readable_rows(database, RowSource.of(experiment)),
            faults=faults,
        )


@dataclass(frozen=True)
class RowSource:
    """Where the rows of one ledger are kept."""

    repository: type[PackedRowRepository]
    owner_id: str
    project_id: str

    @classmethod
    def of(cls, experiment: Experiment) -> "RowSource":
        """Of an experiment."""
        return cls(LedgerRepository, experiment.id, experiment.project_id)


def stored_rows(database: Database, source: RowSource) -> Iterator[LedgerRow]:
    """The ledger's rows in order, read in short transactions.

    Raises the error of a row that cannot be read.
    """
    after: tuple[Any, ...] | None = None
    while True:
        with database.read() as session:
            ledger = source.repository(session, source.project_id)
            rows = ledger.rows_after(source.owner_id, after=after, limit=_ROWS)
        yield from rows
        if len(rows) < _ROWS:
            return
        after = _key(rows[-1])


def readable_rows(database: Database, source: RowSource) -> Iterator[LedgerRow | UnreadableRow]:
    """The rows in order; a row that cannot be decoded is named, and reading continues."""
    after: tuple[Any, ...] | None = None
    while True:
        with database.read() as session:
            ledger = source.repository(session, source.project_id)
            try:
                rows: list[LedgerRow | UnreadableRow] = list(
                    ledger.rows_after(source.owner_id, after=after, limit=_ROWS)
                )
                keys = [_key(row) for row in rows if isinstance(row, LedgerRow)]
            except _UNDECODABLE:
                keys = ledger.keys_after(source.owner_id, after=after, limit=_ROWS)
                rows = [_one_row(ledger, source.owner_id, key) for key in keys]
        yield from rows
        if len(rows) < _ROWS:
            return
        after = keys[-1]


def _one_row(
    ledger: PackedRowRepository, owner_id: str, key: tuple[Any, ...]
) -> LedgerRow | UnreadableRow:
    place = f"round {key[0]}, release {key[1]}"
    try:
        return ledger.row(owner_id, key) or UnreadableRow(place, "it was just deleted")
    except _UNDECODABLE:
        return UnreadableRow(place, "its columns cannot be decoded")


def _key(row: LedgerRow) -> tuple[Any, ...]:
    return (row.round, row.release, row.subject_kind, row.observer)


def distinct_names(names: Any, faults: list[Fault]) -> list[str]:
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        faults.append(Fault("subjects", "is no list of distinct names"))
        return []
    return list(names)


def _envelopes(
    checkpoints: LedgerCheckpointRepository, experiment_id: str, faults: list[Fault]
) -> list[dict[str, Any]]:
    try:
        return list(checkpoints.envelopes(experiment_id))
    except _UNDECODABLE:
        faults.append(Fault("checkpoints", "cannot be read"))
        return []


def _sign_offs(
    sign_offs: SignOffRepository, experiment_id: str, faults: list[Fault]
) -> list[dict[str, Any]]:
    """Those that are signed."""
    try:
        rows = sign_offs.list(experiment_id)
    except _UNDECODABLE:
        faults.append(Fault("sign-offs", "cannot be read"))
        return []
    return [row.envelope for row in rows if row.envelope is not None]


def _later_attacks(
    later: LaterAttacksRepository, experiment_id: str, faults: list[Fault]
) -> list[dict[str, Any]]:
    """Of requests for which something was tried."""
    try:
        rows = later.list(experiment_id)
    except _UNDECODABLE:
        faults.append(Fault("later attacks", "cannot be read"))
        return []
    return [row.envelope for row in rows if row.envelope is not None]


def leaked_keys(keys: Sequence[SigningKey]) -> dict[str, str]:
    """By id, since when keys may be in other hands."""
    return {
        key.key_id: key.compromised_at.isoformat() for key in keys if key.compromised_at is not None
    }


def readable_keys(texts: list[str], faults: list[Fault]) -> list[PublicKey]:
    found = []
    for text in texts:
        try:
            found.append(PublicKey.from_pem(text.encode()))
        except ValueError:
            faults.append(Fault("signing keys", "include one that is no Ed25519 key"))
    return found


def bundle_of(database: Database, session: Session, experiment: Experiment) -> Iterator[bytes]:
    """The bytes of an ended experiment's bundle; the ledger is read while they are sent.

    Raises ProblemError where it has not ended.
    """
    if experiment.status not in ENDED:
        raise ProblemError(
            409, "conflict", f"the experiment has not ended: it is {experiment.status}"
        )
    report = ReportRepository(session, experiment.project_id).get(experiment.id)
    stored = evidence_of(database, experiment, None if report is None else report.document)
    parts = BundleParts(
        experiment_id=stored.experiment_id,
        spec=stored.spec,
        names=stored.names,
        report=stored.report,
        checkpoints=stored.checkpoints,
        keys=stored.keys,
        sign_offs=stored.sign_offs,
        later_attacks=stored.later_attacks,
        erased=stored.erased,
        salt=stored.salt,
        compromised=stored.compromised,
    )
    return bundle_chunks(parts, stored_rows(database, RowSource.of(experiment)))


Place = tuple[int, NDArray[np.int32]]
"""A row's round and subjects."""


class HistoryCheck:
    """Looks on while the rows of a ledger are read, a block at a time."""

    def __init__(self, database: Database, experiment_id: str, project_id: str) -> None:
        self._database = database
        self._owner = (experiment_id, project_id)
        with database.read() as session:
            history = ClientRoundsRepository(session, project_id)
            self._blocks = history.indexed_rounds(experiment_id) // BLOCK_ROUNDS
        self._next = 0
        self._wrong: list[int] = []

    def watched(
        self, rows: Iterable[StoredRow | UnreadableRow]
    ) -> Iterator[StoredRow | UnreadableRow]:
        """The rows as they are."""
        waiting: list[Place] = []
        for row in rows:
            if not isinstance(row, UnreadableRow):
                while self._next < min(block_of(row.round), self._blocks):
                    self._compare(waiting)
                    waiting = []
                if block_of(row.round) == self._next < self._blocks:
                    waiting.append((row.round, row.subjects))
            yield row
        while self._next < self._blocks:
            self._compare(waiting)
            waiting = []

    def checks(self) -> Iterator[Found]:
        """What was found, once the rows were read; nothing where no round is indexed."""
        if not self._blocks:
            return
        wrong = ", ".join(str(1 + block * BLOCK_ROUNDS) for block in self._wrong[:3])
        yield check(
            "ledger.history",
            not self._wrong,
            good="the index by which a client's history is read follows from the entries",
            bad="a client's history may be shown without some of its entries: the index does not "
            f"follow from them from round {wrong} on",
        )

    def _compare(self, rows: list[Place]) -> None:
        experiment_id, project_id = self._owner
        with self._database.read() as session:
            stored = ClientRoundsRepository(session, project_id).block(experiment_id, self._next)
        if not same_index(stored, index_of(rows)):
            self._wrong.append(self._next)
        self._next += 1


def verification_of(database: Database, caller: Caller, experiment_id: str) -> Verification:
    """The verification of an experiment of the caller's project.

    Raises ProblemError without such an experiment, or without a report of it.
    """
    with database.read() as session:
        experiment = find_experiment(session, caller, experiment_id)
        try:
            report = find_report(session, caller, experiment_id)
        except ValueError:
            # SQLite keeps JSON as text: a single changed byte can make it invalid.
            return verify(database, experiment, None, stored_hash="")
    return verify(database, experiment, report.document, stored_hash=report.report_hash)


def verify(
    database: Database, experiment: Experiment, document: Any, *, stored_hash: str
) -> Verification:
    """The verification of the stored rows, which are read in short transactions.

    No key is trusted here: a service that vouches for its own keys proves nothing. `stored_hash`:
    the hash stored beside the report.
    """
    report = document if isinstance(document, dict) else {}
    history = HistoryCheck(database, experiment.id, experiment.project_id)
    evidence = evidence_of(database, experiment, report)
    found = verify_evidence(
        replace(evidence, rows=history.watched(evidence.rows)),
        # Taken one by one once the rows were read.
        more=chain(
            history.checks(),
            _check_database_columns(experiment, report, stored_hash),
            _check_sign_offs(database, experiment),
            _check_later_attacks(database, experiment),
        ),
    )
    integrity = value_at(report, "integrity")
    reasons = value_at(integrity, "reasons")
    return Verification(
        experiment_id=experiment.id,
        valid=found.verdict != ALTERED,
        verdict=found.verdict,
        checks=[
            Check(name=one.name, outcome=one.outcome, detail=one.detail) for one in found.checks
        ],
        entries=found.entries,
        ledger_hash=found.ledger_hash,
        chain_head=found.chain_head,
        signature=_text(value_at(integrity, "signature")),
        key_id=_text(value_at(integrity, "key_id")),
        reasons=reasons if isinstance(reasons, dict) else {},
    )


def _check_database_columns(
    experiment: Experiment, report: dict[str, Any], stored_hash: str
) -> Iterator[Found]:
    """The checks that only the database's own columns allow."""
    yield check(
        "report.hash",
        _hash_of(report) == stored_hash,
        good="the report is the one that was stored",
        bad="the report was altered after it was stored",
    )
    yield check(
        "experiment.spec_hash",
        canonical_hash(experiment.spec) == experiment.spec_hash,
        good="the stored spec is the one that was submitted",
        bad="the stored spec was altered after it was submitted",
    )


def _check_sign_offs(database: Database, experiment: Experiment) -> Iterator[Found]:
    """What waits for its signature, and what the columns say beside the signed statements."""
    with database.read() as session:
        try:
            rows = SignOffRepository(session, experiment.project_id).list(experiment.id)
        except ValueError:
            return
    if not rows:
        return
    wrong, waiting = [], 0
    for row in rows:
        waiting += row.envelope is None
        if not _is_as_signed(row):
            wrong.append(str(row.number))
    yield check(
        "sign_offs.stored",
        not wrong,
        good="what is shown of sign-offs is what was signed",
        bad=f"altered beside what was signed: {', '.join(wrong[:3])}",
    )
    if waiting:
        yield unchecked("sign_offs.waiting", f"{waiting} waiting for the service's signature")


def _check_later_attacks(database: Database, experiment: Experiment) -> Iterator[Found]:
    """What the columns say beside the signed statements on attacks after the report."""
    with database.read() as session:
        try:
            rows = LaterAttacksRepository(session, experiment.project_id).list(experiment.id)
        except ValueError:
            return
    if not rows:
        return
    wrong = [str(row.number) for row in rows if not _is_as_found(row)]
    yield check(
        "later_attacks.stored",
        not wrong,
        good="what is shown of later attacks is what was signed",
        bad=f"altered beside what was signed: {', '.join(wrong[:3])}",
    )


def _is_as_found(row: LaterAttacks) -> bool:
    if row.envelope is None:
        return row.statement is None and row.alarms is None
    try:
        signed, _ = statement_in(Envelope.from_dict(row.envelope))
        stated = statement_of(row.statement)
    except ValueError:
        return False
    place = (signed.experiment_id, signed.number, signed.report_hash, signed.ledger_hash)
    stored = (row.experiment_id, row.number, row.report_hash, row.ledger_hash)
    alarms = len(raised_alarms(signed.fields()))
    return signed == stated and (place, alarms) == (stored, row.alarms)


def _is_as_signed(row: SignOff) -> bool:
    try:
        stated = sign_off_of(row.statement)
        if row.envelope is not None:
            signed = ChainedSignOff.of(Envelope.from_dict(row.envelope)).sign_off
            if signed != stated:
                return False
    except ValueError:
        return False
    place = (stated.experiment_id, stated.number, stated.report_hash, stated.decision)
    return place == (row.experiment_id, row.number, row.report_hash, row.decision)


def _hash_of(report: dict[str, Any]) -> str | None:
    try:
        return report_hash(report)
    except ValueError:
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
