"""What reports disclosed of data, as far as a worker has read it, and what it decides on."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from fedaudit.fairness.scored_groups import (
    DisclosedRows,
    DisclosureDecision,
    MemoryName,
    Numbered,
    RememberedSets,
    RowSet,
    SetsBeside,
)
from models.database import Database
from models.repositories import DisclosureRepository
from models.values import StoredSet

ROWS_BY_CELLS = "rows by their cells"
_NOTHING = (0, None)
_MOST_WORDS = 1 << 22
"""Of 64 rows, that are kept: beyond that all are read anew."""
_EVERY_ANCHORED = hashlib.sha256(ROWS_BY_CELLS.encode()).hexdigest()
"""Locked for all memories with anchors, since it is not known which of them another run adds to."""


@dataclass(frozen=True, eq=False)
class Memory:
    """The sets of rows that were disclosed under one numbering of the rows."""

    key: str
    """Key of the data: a fingerprint, or that of data with equal rows or columns."""
    numbered_by: str
    rows: Numbered
    anchors: Sequence[str] = ()
    """Keys of rows that also find other memories; none for those of one key alone."""

    @property
    def numbering(self) -> str:
        """As it is stored."""
        return hashlib.sha256(self.numbered_by.encode()).hexdigest()

    @property
    def found_among(self) -> str:
        """Names all memories that can be found beside this one."""
        return self.numbered_by if self.anchors else f"{self.numbered_by} {self.key}"


class Disclosed:
    """What was disclosed of data, as a worker has read it: each set once, since none is removed.
    And what was decided after `begin`, for one report after the other, until `keep`."""

    def __init__(self) -> None:
        self._sets: dict[str, RememberedSets] = defaultdict(RememberedSets)
        """By `Memory.found_among`; with those decided since."""
        self._seen: dict[MemoryName, tuple[int, datetime | None]] = {}
        """How many sets each memory had, and when the newest was stored, when it was read."""
        self._locks: set[str] = set()
        """Empty where all that it holds is stored."""
        self.begin()

    def begin(self) -> None:
        """What others add is read anew; so is everything where what was decided was not kept."""
        words = sum(line.shape[1] for one in self._sets.values() for line in one.lines)
        if self._locks or words > _MOST_WORDS:
            self._sets.clear()
            self._seen.clear()
        self._asked: set[MemoryName] = set()
        """Each memory is read once, as for the first report that asks for it."""
        self._anchors: set[str] = set()
        self._anchored: set[tuple[str, str]] = set()
        """Those anchors with the key of a memory that was stored for each."""
        self._locks = set()
        self._new_sets: list[StoredSet] = []
        self._new_anchored: set[tuple[str, str]] = set()

    def beside(self, database: Database, memory: Memory) -> tuple[Numbered, SetsBeside]:
        """What a memory, and those that are found beside it, hold, as `ScoredGroups` takes it."""
        anchors, sets = set(memory.anchors), self._sets[memory.found_among]
        if unknown := anchors - self._anchors:
            # Each is asked for once, so that `store` finds what was not there for the first.
            with database.read() as session:
                self._anchored |= DisclosureRepository(session).memories(unknown)
            self._anchors |= unknown
        every = self._anchored | self._new_anchored
        keys = {memory.key} | {key for anchor, key in every if anchor in anchors}
        names = {(key, memory.numbering) for key in keys}
        if unread := names - self._asked:
            with database.read() as session:
                self._read(session, unread, sets)
            self._asked |= unread
        return memory.rows, (sets, names)

    def _read(self, session: Session, names: set[MemoryName], sets: RememberedSets) -> None:
        disclosed = DisclosureRepository(session)
        held = disclosed.held({key for key, _ in names})
        for name in names:
            now, seen = held.get(name, _NOTHING), self._seen.get(name, _NOTHING)
            if now[0] > seen[0]:
                sets.add(name, _opened(disclosed.sets(*name, since=seen[1])))
            if now != seen and (now[0] <= seen[0] or len(sets.places[name]) != now[0]):
                # By a clock that is behind, or a database that was restored.
                sets.add(name, _opened(disclosed.sets(*name)))
            # Where it has sets that are stored no more, `store` fails, and all are read anew.
            self._seen[name] = now if len(sets.places[name]) == now[0] else (-1, None)

    def add(self, memories: Sequence[Memory], decision: DisclosureDecision) -> None:
        """Notes what a report is going to disclose."""
        for one, sets in zip(memories, decision.sets, strict=True):
            name = one.key, one.numbering
            self._locks |= {one.key, _EVERY_ANCHORED} if one.anchors else {one.key}
            self._new_anchored |= {(anchor, one.key) for anchor in one.anchors}
            self._new_sets += [
                StoredSet(*name, *each.key, each.rows.as_bytes(), each.favourable.as_bytes())
                for each in self._sets[one.found_among].add(name, sets)
            ]

    def store(self, session: Session) -> bool:
        """Remembers what was decided; False, and nothing is, where another report was quicker."""
        disclosed = DisclosureRepository(session)
        disclosed.lock(*self._locks)
        held = disclosed.held({key for key, _ in self._asked})
        if any(held.get(name, _NOTHING) != self._seen[name] for name in self._asked):
            return False
        if disclosed.memories(self._anchors) != self._anchored:
            return False
        disclosed.add(self._new_sets, anchored=self._new_anchored)
        return True

    def keep(self) -> None:
        """What was decided is stored: `begin` forgets none of it."""
        self._locks = set()


def _opened(stored: Sequence[StoredSet]) -> Iterator[DisclosedRows]:
    for one in stored:
        yield DisclosedRows(
            RowSet.from_bytes(one.bits, digest=one.digest),
            RowSet.from_bytes(one.favourable_bits, digest=one.favourable_digest),
        )
