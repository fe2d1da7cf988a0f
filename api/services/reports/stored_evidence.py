"""The database's records of an experiment, as evidence for a verification or a bundle."""

from collections.abc import Iterator
from typing import Any

from fedaudit.ledger.ed25519 import PublicKey
from fedaudit.ledger.evidence import Evidence, Fault
from fedaudit.ledger.rows import UnreadableRow
from models.database import Database
from models.repositories import (
    LedgerCheckpointRepository,
    LedgerRepository,
    SigningKeyRepository,
    SubjectSetRepository,
)
from models.tables.experiments import Experiment
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
            names = SubjectSetRepository(session).names(experiment.subject_set_id)
        except (*_UNDECODABLE, LookupError):
            names = ()
            faults.append(Fault("subjects", "cannot be read"))
        checkpoints = LedgerCheckpointRepository(session, experiment.project_id)
        keys = [key.public_key for key in SigningKeyRepository(session).list()]
        return Evidence(
            experiment_id=experiment.id,
            spec=experiment.spec,
            names=_distinct(names, faults),
            report=report,
            checkpoints=_envelopes(checkpoints, experiment.id, faults),
            keys=_keys(keys, faults),
            rows=_readable_rows(database, experiment),
            faults=faults,
        )


def stored_rows(database: Database, experiment: Experiment) -> Iterator[LedgerRow]:
    """The ledger's rows in order, read in short transactions.

    Raises the error of a row that cannot be read.
    """
    after: tuple[Any, ...] | None = None
    while True:
        with database.read() as session:
            ledger = LedgerRepository(session, experiment.project_id)
            rows = ledger.rows_after(experiment.id, after=after, limit=_ROWS)
        yield from rows
        if len(rows) < _ROWS:
            return
        after = _key(rows[-1])


def _readable_rows(
    database: Database, experiment: Experiment
) -> Iterator[LedgerRow | UnreadableRow]:
    """The rows in order; a row that cannot be decoded is named, and reading continues."""
    after: tuple[Any, ...] | None = None
    while True:
        with database.read() as session:
            ledger = LedgerRepository(session, experiment.project_id)
            try:
                rows: list[LedgerRow | UnreadableRow] = list(
                    ledger.rows_after(experiment.id, after=after, limit=_ROWS)
                )
                keys = [_key(row) for row in rows if isinstance(row, LedgerRow)]
            except _UNDECODABLE:
                keys = ledger.keys_after(experiment.id, after=after, limit=_ROWS)
                rows = [_one_row(ledger, experiment.id, key) for key in keys]
        yield from rows
        if len(rows) < _ROWS:
            return
        after = keys[-1]


def _one_row(
    ledger: LedgerRepository, experiment_id: str, key: tuple[Any, ...]
) -> LedgerRow | UnreadableRow:
    place = f"round {key[0]}, release {key[1]}"
    try:
        return ledger.row(experiment_id, key) or UnreadableRow(place, "it was just deleted")
    except _UNDECODABLE:
        return UnreadableRow(place, "its columns cannot be decoded")


def _key(row: LedgerRow) -> tuple[Any, ...]:
    return (row.round, row.release, row.subject_kind, row.observer)


def _distinct(names: Any, faults: list[Fault]) -> list[str]:
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


def _keys(texts: list[str], faults: list[Fault]) -> list[PublicKey]:
    found = []
    for text in texts:
        try:
            found.append(PublicKey.from_pem(text.encode()))
        except ValueError:
            faults.append(Fault("signing keys", "include one that is no Ed25519 key"))
    return found
