"""The database's records of an experiment, as evidence for a verification or a bundle."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from api.services.base.subject_names import names_of
from fedaudit.ledger.bundle import Evidence, Fault
from fedaudit.ledger.rows import UnreadableRow
from fedaudit.ledger.signatures import PublicKey
from models.database import Database
from models.repositories import (
    ErasureRepository,
    LaterAttacksRepository,
    LedgerCheckpointRepository,
    LedgerRepository,
    SigningKeyRepository,
    SignOffRepository,
)
from models.repositories.packed_rows import PackedRowRepository
from models.tables.experiments import Experiment
from models.tables.ledger import SigningKey
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
