"""Checking a stored report against the stored ledger, everything computed anew."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from api.schemas.records import Check, Verification
from api.services.ledger_entries import entry_of
from fedaudit.ledger.chain import genesis, ledger_hash, link
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.entries import RELEASED
from fedaudit.reports.assemble import report_hash
from fedaudit.spec.canonical import spec_hash
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec
from models.database import Database
from models.records import LedgerRow
from models.repositories import LedgerRepository
from models.tables.experiments import Experiment
from models.tables.reports import Report

_ROWS = 500


class _Ledger:
    """What the stored rows add up to."""

    def __init__(self, experiment_id: str, names: Sequence[str]) -> None:
        self._encoder = EntryEncoder(names)
        self.head = genesis(experiment_id)
        self.keys: list[tuple[int, int, str, str, bytes]] = []
        self.releases = np.zeros(len(names), dtype=np.int64)
        self.altered: str | None = None
        self.unchained: str | None = None
        self.miscounted: str | None = None

    def read(self, row: LedgerRow) -> None:
        place = f"round {row.round}, release {row.release}"
        try:
            digest = self._encoder.digest(entry_of(row))
        except ValueError:
            # Not even an entry: columns of different lengths, or subjects that do not exist.
            digest = bytes(len(row.digest))
        else:
            self._count(row, place)
        if digest != row.digest:
            self.altered = self.altered or place
        self.head = link(self.head, digest)
        if self.head != row.link:
            self.unchained = self.unchained or place
        self.keys.append((row.round, row.release, row.subject_kind, row.observer, digest))

    def _count(self, row: LedgerRow, place: str) -> None:
        self.releases[row.subjects[row.outcomes == RELEASED]] += 1
        if (self.releases[row.subjects] != row.releases).any():
            self.miscounted = self.miscounted or place


def verify(
    database: Database, experiment: Experiment, report: Report, names: Sequence[str]
) -> Verification:
    """Recompute digests, links and hashes from the rows, and compare them with the report.

    `names`: the subjects' keys by index. The rows are read in short transactions.
    """
    ledger = _Ledger(experiment.id, names)
    for row in _rows(database, experiment):
        ledger.read(row)
    hashed = ledger_hash(ledger.keys)
    checks = [*_of_the_ledger(ledger), *_of_the_report(experiment, report, ledger, hashed)]
    integrity = report.document.get("integrity", {})
    return Verification(
        experiment_id=experiment.id,
        valid=all(check.outcome == "pass" for check in checks),
        checks=checks,
        entries=len(ledger.keys),
        ledger_hash=hashed,
        chain_head=ledger.head.hex(),
        signature=integrity.get("signature"),
        key_id=integrity.get("key_id"),
        reasons=integrity.get("reasons", {}),
    )


def _rows(database: Database, experiment: Experiment) -> Iterator[LedgerRow]:
    after: tuple[Any, ...] | None = None
    while True:
        with database.read() as session:
            ledger = LedgerRepository(session, experiment.project_id)
            rows = ledger.rows_after(experiment.id, after=after, limit=_ROWS)
        yield from rows
        if len(rows) < _ROWS:
            return
        last = rows[-1]
        after = (last.round, last.release, last.subject_kind, last.observer)


def _of_the_ledger(ledger: _Ledger) -> Iterator[Check]:
    yield _check(
        "ledger.digests",
        ledger.altered is None,
        "every entry has the digest that was stored with it",
        f"the first altered entry is that of {ledger.altered}",
    )
    yield _check(
        "ledger.chain",
        ledger.unchained is None,
        "every entry follows from those before it",
        f"the chain breaks at {ledger.unchained}",
    )
    yield _check(
        "ledger.releases",
        ledger.miscounted is None,
        "every subject's running count is the number of its releases",
        f"the first wrong count is that of {ledger.miscounted}",
    )


def _of_the_report(
    experiment: Experiment, report: Report, ledger: _Ledger, hashed: str
) -> Iterator[Check]:
    document = report.document
    yield _check(
        "report.hash",
        report_hash(document) == report.report_hash,
        "the report is the one that was stored",
        "the report was altered after it was stored",
    )
    yield _check(
        "report.ledger_hash",
        _at(document, "integrity", "ledger_hash") == hashed,
        "the report's ledger hash is that of the stored entries",
        "the report speaks of another ledger than the stored one",
    )
    yield _check(
        "report.chain_head",
        _at(document, "integrity", "chain_head") == ledger.head.hex(),
        "the report's chain head is the newest link",
        "entries were altered, added or cut off after the report",
    )
    yield _check(
        "report.participations_max",
        _at(document, "privacy", "participations_max") == int(ledger.releases.max(initial=0)),
        "the report's largest number of releases is that of the entries",
        "the report gives another largest number of releases than the entries do",
    )
    yield _check(
        "report.spec_hash",
        _at(document, "provenance", "spec_hash") == experiment.spec_hash == _spec_hash(experiment),
        "the report's spec hash is that of the stored spec",
        "the report speaks of another spec than the stored one",
    )


def _at(document: Mapping[str, Any], section: str, field: str) -> Any:
    return document.get(section, {}).get(field)


def _spec_hash(experiment: Experiment) -> str | None:
    try:
        return spec_hash(parse_spec(experiment.spec))
    except InvalidInputError:
        return None


def _check(name: str, passed: bool, good: str, bad: str) -> Check:
    outcome: Literal["pass", "fail"] = "pass" if passed else "fail"
    return Check(name=name, outcome=outcome, detail=good if passed else bad)
