"""Read a stored ledger from its first row to its last, and record inconsistencies."""

import hashlib
import struct
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.chain import LedgerHash, genesis, link
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.entries import LedgerEntry
from fedaudit.ledger.report_entries import names_of_subjects
from fedaudit.ledger.rows import EntryReader, StoredRow, UnreadableRow, place_of

_NO_DIGEST = bytes(hashlib.sha256().digest_size)
_NOT_AN_ENTRY = (ValueError, TypeError, ArithmeticError, AttributeError, IndexError, struct.error)


@dataclass
class Places:
    """Where an inconsistency was found: the first few places, and how many in all."""

    first: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, place: str) -> None:
        """Note a place."""
        self.count += 1
        if len(self.first) < 3:
            self.first.append(place)

    def __str__(self) -> str:
        more = f" and {self.count - len(self.first)} more" if self.count > len(self.first) else ""
        return "; ".join(self.first) + more


class LedgerAudit:
    """Recomputes digests, links, counts and the ledger hash, row by row."""

    def __init__(
        self,
        experiment_id: str,
        names: Sequence[str],
        *,
        watch: Container[int],
        erased: bool = False,
    ) -> None:
        """`names`: the subjects' by index. `watch`: entry counts at which to keep the head.

        `erased`: the names are made up, so that no digest can be computed anew: the chain is
        followed by the stored ones, and `erased_hash` is what the signed statement must name.
        Raises ValueError where two names are equal.
        """
        self.experiment_id = experiment_id
        self._erased = LedgerHash() if erased else None
        self._encoder = EntryEncoder(names)
        self._reader = EntryReader()
        self._watch = watch
        self._hash = LedgerHash()
        self._before: tuple[int, int, str, str] | None = None
        self._names = names
        self._counts: dict[str, NDArray[np.int64]] = {}
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

    def read(self, row: StoredRow | UnreadableRow) -> LedgerEntry | None:
        """Check the next row; returns its entry if the row forms one."""
        self.entries += 1
        if isinstance(row, UnreadableRow):
            self._lose(row)
            return None
        place = place_of(row)
        try:
            entry = self._reader.entry(row)
            digest = self._encoder.digest(entry)
        except _NOT_AN_ENTRY:
            entry, digest = None, _NO_DIGEST
        if self._erased is not None:
            digest = self._stored_digest(row, digest, place)
        declaration = row.declaration
        if declaration is not None and len(declaration) != len(_NO_DIGEST):
            entry, declaration = None, None
            self.altered.add(place)
        elif digest != row.digest or (entry is not None and _has_more_than_encoded(entry)):
            self.altered.add(place)
        self.head = link(self.head, digest, np.asarray(row.clusters), declaration=declaration)
        if self.head != row.link and self.unchained is None:
            self.unchained = place
        if self.entries in self._watch:
            self.heads[self.entries] = self.head
        self._place(row, digest, place)
        if entry is not None:
            self._count(entry, place)
        return entry

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
        """Whether every row so far is readable, in its place, and as its digest, link and counts
        say."""
        faults = (self.unreadable, self.altered, self.miscounted, self.disordered)
        return self.unchained is None and not any(found.count for found in faults)

    def _stored_digest(self, row: StoredRow, computed: bytes, place: str) -> bytes:
        """The digest of the row as it was with its real names; `computed` is that without them."""
        assert self._erased is not None
        try:
            key = (row.round, row.release, row.subject_kind, row.observer)
            self._erased.add((*key, computed))
        except _NOT_AN_ENTRY:
            self.altered.add(place)
        if computed == _NO_DIGEST or len(row.digest) != len(_NO_DIGEST):
            return _NO_DIGEST
        return row.digest

    def _lose(self, row: UnreadableRow) -> None:
        self.unreadable.add(f"{row.place}: {row.reason}")
        if self.unchained is None:
            self.unchained = row.place
        self.head = _NO_DIGEST

    def _place(self, row: StoredRow, digest: bytes, place: str) -> None:
        key = (row.round, row.release, row.subject_kind, row.observer)
        try:
            if self._before is not None and not self._before < key:
                self.disordered.add(place)
            self._hash.add((*key, digest))
        except _NOT_AN_ENTRY:
            self.disordered.add(place)
        else:
            self._before = key
            self.last_round = row.round

    def _count(self, entry: LedgerEntry, place: str) -> None:
        """Running counts are kept against each observer."""
        if entry.observer not in self._counts:
            subjects = len(names_of_subjects(entry.subject_kind, self._names))
            self._counts[entry.observer] = np.zeros(subjects, dtype=np.int64)
        counts = self._counts[entry.observer]
        counts[entry.subjects[entry.released]] += 1
        if (counts[entry.subjects] != entry.releases).any():
            self.miscounted.add(place)


def _has_more_than_encoded(entry: LedgerEntry) -> bool:
    """Whether a row states what the encoding of its entry omits, and no digest covers."""
    inputs = entry.inputs
    if inputs.counts_epsilon:
        stray = (inputs.radius, inputs.radius_floor)
        return stray != (None, None) or not np.isnan(entry.radii).all()
    return (inputs.delta, inputs.adjacency, inputs.accountant) != (None, None, None)
