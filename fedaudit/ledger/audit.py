"""Read a stored ledger from its first row to its last, and record inconsistencies."""

import hashlib
import struct
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import cast

import numpy as np

from fedaudit.arrays import Ints, Turns
from fedaudit.ledger.columns import EntryColumns, alike
from fedaudit.ledger.encoding import EntryEncoder, LedgerHash, genesis, link, placed_of, placements
from fedaudit.ledger.rows import (
    InputsReader,
    UnreadableRow,
    charges_report,
    names_of_subjects,
    place_of,
)
from fedaudit.ledger.statements import ErasedNames, subjects_hash
from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from fedaudit.stored import Key, LedgerRow

STANDS_FOR_ALL = "everyone"
"""The one subject of a ledger that charges all clients alike: no client's name."""
_NO_DIGEST = bytes(hashlib.sha256().digest_size)
_NOBODY = np.zeros(0, np.int64)
_NOT_AN_ENTRY = (ValueError, TypeError, ArithmeticError, AttributeError, IndexError, struct.error)


@dataclass
class Places:
    """Where an inconsistency was found: the first few places, and how many in all."""

    first: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, place: str) -> None:
        self.count += 1
        if len(self.first) < 3:
            self.first.append(place)

    def __str__(self) -> str:
        more = f" and {self.count - len(self.first)} more" if self.count > len(self.first) else ""
        return "; ".join(self.first) + more


class LedgerAudit:
    """Recomputes digests, links, counts and the ledger hash, of many rows at a time."""

    def __init__(
        self,
        experiment_id: str,
        names: Sequence[str],
        *,
        watch: Container[int],
        salt: bytes | None = None,
        erased: bool = False,
    ) -> None:
        """`names`: the subjects' names by index. `watch`: entry counts at which to keep the head.
        `salt`: of a ledger with keyed digests. `erased`: the names are made up, so no digest can be
        recomputed: the chain is followed by the stored digests, and `erased_hash` is what the
        signed statement must name. Raises ValueError where two names are equal."""
        self.experiment_id = experiment_id
        self._erased = LedgerHash() if erased else None
        self._encoder = EntryEncoder(names, salt=salt)
        self._reader = InputsReader()
        self._watch = watch
        self._hash = LedgerHash()
        self._before: Key | None = None
        self._names = names
        self._counts: dict[str, Ints] = {}
        self.entries = 0
        self.last_round = 0
        self.head = genesis(experiment_id)
        self.heads = {0: self.head}
        """The chain's head after this many entries."""
        self.unreadable = Places()
        self.altered = Places()
        self.unchained: str | None = None
        """The first break, on which all later ones depend."""
        self.miscounted = Places()
        self.disordered = Places()

    def name(self, names: Sequence[str]) -> None:
        """Other names for what comes next, those known first: a declared ledger's grow with its
        rounds. Raises ValueError where two are equal."""
        self._encoder, self._names = self._encoder.renamed(names), names

    def read(self, rows: Sequence[LedgerRow | UnreadableRow]) -> list[EntryColumns]:
        """Check the next rows; returns the entries that they form, in order. A long ledger is read
        in `batches`."""
        found: list[EntryColumns] = []
        for readable, some in groupby(rows, key=lambda row: not isinstance(row, UnreadableRow)):
            if readable:
                for inputs, same in alike(cast(Iterator[LedgerRow], some), self._reader):
                    found += self._read(same, inputs)
            else:
                for row in cast(Iterator[UnreadableRow], some):
                    self.entries += 1
                    self.unreadable.add(f"{row.place}: {row.reason}")
                    if self.unchained is None:
                        self.unchained = row.place
                    self.head = _NO_DIGEST
        return found

    def _read(
        self, rows: Sequence[LedgerRow], inputs: MechanismParameters | None
    ) -> list[EntryColumns]:
        """The same of rows that are alike; where they form no entries, of each by itself."""
        found = self._entries(rows, inputs)
        if found is None and len(rows) > 1:
            return [one for row in rows for one in self._read([row], inputs)]
        entries, digests = found or (None, [_NO_DIGEST])
        self._chain(rows, entries, digests)
        if entries is None or _declares_otherwise(rows[0]):
            return []
        self._count(entries)
        return [entries]

    def _entries(
        self, rows: Sequence[LedgerRow], inputs: MechanismParameters | None
    ) -> tuple[EntryColumns, Sequence[bytes]] | None:
        """The entries of rows and the digest of each; None where one forms none."""
        first = rows[0]
        # No run charges the held-out people otherwise than for a report.
        held_out = bool(names_of_subjects(first.subject_kind, ()))
        mixed = len(rows) > 1 and any(map(_declares_otherwise, rows))
        if inputs is None or mixed or (held_out and not charges_report(first.observer)):
            return None
        try:
            entries = EntryColumns.of_rows(rows, inputs)
            return entries, self._encoder.digests(entries)
        except _NOT_AN_ENTRY:
            return None

    def _chain(
        self, rows: Sequence[LedgerRow], entries: EntryColumns | None, digests: Sequence[bytes]
    ) -> None:
        """Follow the chain over the rows; `digests` were computed."""
        more: Container[int] = () if entries is None else _with_more_than_encoded(entries)
        # The clusters of each row as its link hashes them.
        if entries is None:
            placed = [placements(np.asarray(row.clusters)) for row in rows]
        else:
            placed = placed_of(entries)
        for number, (row, computed, clusters) in enumerate(zip(rows, digests, placed, strict=True)):
            self.entries += 1
            digest = computed if self._erased is None else self._stored_digest(row, computed)
            otherwise = _declares_otherwise(row)
            if otherwise or digest != row.digest or number in more:
                self.altered.add(place_of(row.key))
            declaration = None if otherwise else row.declaration
            self.head = link(self.head, digest, clusters, declaration=declaration)
            if self.head != row.link and self.unchained is None:
                self.unchained = place_of(row.key)
            if self.entries in self._watch:
                self.heads[self.entries] = self.head
            self._place(row, digest)

    @property
    def ledger_hash(self) -> str:
        """The ledger hash of the entries so far, in hexadecimal."""
        return self._hash.hexdigest()

    @property
    def erased_hash(self) -> str:
        """The ledger hash of the entries so far under made-up names; empty where they are real."""
        return "" if self._erased is None else self._erased.hexdigest()

    @property
    def consistent(self) -> bool:
        """Whether every row so far is readable, in its place, and consistent with its digest, link
        and counts."""
        faults = (self.unreadable, self.altered, self.miscounted, self.disordered)
        return self.unchained is None and not any(found.count for found in faults)

    def _stored_digest(self, row: LedgerRow, computed: bytes) -> bytes:
        """The digest of the row as it was with its real names; `computed` is that without them."""
        assert self._erased is not None
        try:
            self._erased.add((*row.key, computed))
        except _NOT_AN_ENTRY:
            self.altered.add(place_of(row.key))
        if computed == _NO_DIGEST or len(row.digest) != len(_NO_DIGEST):
            return _NO_DIGEST
        return row.digest

    def _place(self, row: LedgerRow, digest: bytes) -> None:
        key = row.key
        try:
            if self._before is not None and not self._before < key:
                self.disordered.add(place_of(row.key))
            self._hash.add((*key, digest))
        except _NOT_AN_ENTRY:
            self.disordered.add(place_of(row.key))
        else:
            self._before = key
            self.last_round = row.round

    def _count(self, entries: EntryColumns) -> None:
        """Running counts are kept against each observer."""
        subjects = len(names_of_subjects(entries.subject_kind, self._names))
        expected = np.empty(len(entries.subjects), np.int64)
        for observer, charged in entries.by_observer():
            counts = self._counts.get(observer, _NOBODY)
            if len(counts) < subjects:
                counts = np.concatenate([counts, np.zeros(subjects - len(counts), np.int64)])
                self._counts[observer] = counts
            turns = Turns(entries.subjects[charged])
            expected[charged] = turns.count(counts, entries.released[charged])
        for wrong in entries.with_any(expected != entries.releases):
            self.miscounted.add(place_of(entries.keys[wrong]))


def _declares_otherwise(row: LedgerRow) -> bool:
    """Whether a declaration is not a hash, so the row belongs to no round."""
    return row.declaration is not None and len(row.declaration) != len(_NO_DIGEST)


def _with_more_than_encoded(entries: EntryColumns) -> Container[int]:
    """The entries whose rows state what their encoding omits, and no digest covers."""
    inputs, every = entries.inputs, range(len(entries))
    if not inputs.counts_epsilon:
        stray = (inputs.delta, inputs.adjacency, inputs.accountant) != (None, None, None)
        return every if stray else ()
    if (inputs.radius, inputs.radius_floor) != (None, None):
        return every
    return frozenset(entries.with_any(~np.isnan(entries.radii)))


class ErasingLedger:
    """Reads a ledger a last time with its names, and as it will be without them."""

    def __init__(self, experiment_id: str, names: Sequence[str], salt: bytes | None = None) -> None:
        width = len(str(len(names)))
        self.made_up = [
            name if name == STANDS_FOR_ALL else f"erased-{place:0{width}d}"
            for place, name in enumerate(names, start=1)
        ]
        """Names that contain nothing but a number, in the same places."""
        self._names = names
        self._named = LedgerAudit(experiment_id, names, watch=(), salt=salt)
        self._erased = LedgerAudit(experiment_id, self.made_up, watch=(), erased=True)
        self._formed = 0
        """Rows that form entries."""

    def read(self, rows: Sequence[LedgerRow]) -> None:
        """Take the next rows in."""
        self._formed += sum(map(len, self._named.read(rows)))
        self._erased.read(rows)

    def statement(self, *, erased_at: str) -> ErasedNames:
        """What is to be signed, once every row was read."""
        return ErasedNames(
            experiment_id=self._named.experiment_id,
            entries=self._named.entries,
            chain_head=self._named.head.hex(),
            ledger_hash=self._named.ledger_hash,
            subjects_hash=subjects_hash(self._names),
            erased_hash=self._erased.erased_hash,
            agreed=self._formed == self._named.entries and self._named.consistent,
            erased_at=erased_at,
        )
