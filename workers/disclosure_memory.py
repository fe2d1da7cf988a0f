"""What a report may disclose beside earlier ones: decided once, before its first round."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import structlog
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from fedaudit.fairness.scored_groups import (
    DisclosedRows,
    DisclosureDecision,
    Numbered,
    RememberedSets,
    RowSet,
    ScoredGroups,
    SetsBeside,
)
from fedaudit.runs.held_out_groups import (
    is_remembered,
    rows_by_cells,
    rows_of_clients,
    rows_of_file,
    scored_groups,
)
from fedaudit.spec.errors import InvalidInputError, error_at
from fedaudit.spec.federation import Femnist, Images
from models.database import Database
from models.repositories import DisclosureRepository, ExperimentRepository
from models.values import StoredSet
from workers.claim import FencedWriter
from workers.flush import RunningExperiment

log = structlog.get_logger()

ROWS_OF_FILE = "rows of the file"
_ROWS_OF_CLIENTS = "rows of clients"
_ROWS_BY_CELLS = "rows by their cells"
_ANCHORS = 16
"""Rows by which memories are found: sets that differ in a share s of rows share none with
probability s to this power."""
_EVERY_ANCHORED = hashlib.sha256(_ROWS_BY_CELLS.encode()).hexdigest()
"""Locked for all memories with anchors, since it is not known which of them another run adds to."""

_COUNTED_BEFORE = (
    "an earlier report counted nearly the same rows, so its accuracy and loss less "
    "those of this one would be the figures of the rows left out; leave out what that report left "
    "out, or, where people are held out, hold out others by another `seed`"
)


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
        """Return the form that is stored."""
        return hashlib.sha256(self.numbered_by.encode()).hexdigest()


class Disclosed:
    """What was disclosed of data, as it was read when it was first asked for; and what was decided
    since, for one report after the other, until `store`."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str], RememberedSets] = {}
        """Sets by the key and the numbering of a memory, including those decided since."""
        self._stored: dict[tuple[str, str], int] = {}
        """How many of them were stored: never fewer later."""
        self._anchors: set[str] = set()
        self._anchored: set[tuple[str, str]] = set()
        """Those anchors with the key of a memory that was stored for each."""
        self._locks: set[str] = set()
        self._new_sets: list[StoredSet] = []
        self._new_anchored: set[tuple[str, str]] = set()

    def beside(self, session: Session, memory: Memory) -> tuple[Numbered, SetsBeside]:
        """What a memory, and those that are found beside it, hold, as `ScoredGroups` takes it."""
        disclosed, keys, anchors = DisclosureRepository(session), {memory.key}, set(memory.anchors)
        if anchors:
            # Each is asked for once, so that `store` finds what was not there for the first.
            self._anchored |= disclosed.memories(anchors - self._anchors)
            self._anchors |= anchors
            every = self._anchored | self._new_anchored
            keys = {key for anchor, key in every if anchor in anchors}
        names = [(key, memory.numbering) for key in sorted(keys)]
        for name in names:
            if name not in self._stored:
                read = [
                    DisclosedRows(
                        RowSet.from_bytes(one.bits, digest=one.digest),
                        RowSet.from_bytes(one.favourable_bits, digest=one.favourable_digest),
                    )
                    for one in disclosed.sets(*name)
                ]
                self._stored[name] = len(read)
                self._of(name).add(read)
        return memory.rows, SetsBeside(*map(self._of, names))

    def add(self, memories: Sequence[Memory], decision: DisclosureDecision) -> None:
        """Notes what a report is going to disclose."""
        for one, sets in zip(memories, decision.sets, strict=True):
            name = one.key, one.numbering
            self._of(name).add(sets)
            self._locks |= {one.key, _EVERY_ANCHORED} if one.anchors else {one.key}
            self._new_anchored |= {(anchor, one.key) for anchor in one.anchors}
            self._new_sets += [
                StoredSet(*name, *each.key, each.rows.as_bytes(), each.favourable.as_bytes())
                for each in sets
            ]

    def store(self, session: Session) -> bool:
        """Remembers what was decided; False, and nothing is, where another report was quicker."""
        disclosed = DisclosureRepository(session)
        disclosed.lock(*self._locks)
        counts = disclosed.counts({key for key, _ in self._stored})
        if any(counts.get(name, 0) != count for name, count in self._stored.items()):
            return False
        if disclosed.memories(self._anchors) != self._anchored:
            return False
        disclosed.add(self._new_sets, anchored=self._new_anchored)
        return True

    def _of(self, name: tuple[str, str]) -> RememberedSets:
        return self._sets.setdefault(name, RememberedSets())


def decide(
    database: Database, disclosed: Disclosed, groups: ScoredGroups, memories: Sequence[Memory]
) -> DisclosureDecision:
    """What a report discloses beside those before it, which `disclosed` now takes in.

    Raises InvalidInputError at /fairness/exclude where rows are left out, and earlier reports are
    near: totals are published in any case, and less those of the other report would be theirs.
    """
    with database.read() as session:
        earlier = [disclosed.beside(session, one) for one in memories]
    decision = groups.decide_beside(earlier)
    if groups.spec.fairness.exclude and (decision.withheld or groups.totals_near(earlier)):
        raise error_at("/fairness/exclude", _COUNTED_BEFORE)
    disclosed.add(memories, decision)
    return decision


def settle_disclosures(
    writer: FencedWriter,
    experiments: Sequence[RunningExperiment],
    *,
    secret: bytes,
    progressed: Callable[[], None],
) -> dict[str, InvalidInputError]:
    """Decides which attributes each run withholds, one run after the other, and remembers in one
    transaction what they disclose; returns by id which cannot be reported. A resumed run keeps its
    decision. Slow work is done before the transaction, and again if another run on the same data
    was quicker. `secret`: for keys of rows."""
    for one in experiments:
        one.run.withheld = frozenset(one.row.withheld_attributes or ())
    undecided = [one for one in experiments if one.row.withheld_attributes is None]
    new = [one for one in undecided if is_remembered(one.run.cell)]
    while True:
        refused, disclosed = dict[str, InvalidInputError](), Disclosed()
        for one in new:
            progressed()
            groups, memories = scored_groups(one.run.cell), _memories(one, secret)
            try:
                decision = decide(writer.database, disclosed, groups, memories)
            except InvalidInputError as error:
                refused[one.id] = error
            else:
                one.run.withheld = decision.withheld
                one.run.disclosures = decision.disclosures  # to decide them takes long
        settled = [one for one in new if one.id not in refused]
        if not settled or writer.write(partial(_store, writer, settled, disclosed)):
            break
    for one in settled:
        if one.run.withheld:
            named = {"experiment_id": one.id, "attributes": sorted(one.run.withheld)}
            log.info("attributes withheld beside earlier reports", **named)
    return refused


def _store(
    writer: FencedWriter,
    settled: Sequence[RunningExperiment],
    disclosed: Disclosed,
    session: Session,
) -> bool:
    """False where another report was quicker."""
    experiments = ExperimentRepository(session, settled[0].project_id)
    row = experiments.get(settled[0].id) if writer.again else None
    if row is not None and row.withheld_attributes is not None:
        return True  # by a write whose confirmation was lost
    if not disclosed.store(session):
        return False
    for withheld in {one.run.withheld for one in settled}:
        alike = [one.id for one in settled if one.run.withheld == withheld]
        experiments.withhold(alike, sorted(withheld))
    return True


def _memories(experiment: RunningExperiment, secret: bytes) -> list[Memory]:
    """That of the file, that of its rows in any file, and what was remembered of images before
    their rows were numbered by the file."""
    cell = experiment.run.cell
    fingerprint, by_cells = cell.federation.fingerprint, rows_by_cells(cell, secret=secret)
    anchors = sorted({anchor for one in by_cells for anchor in _anchors(one.population.row_keys)})
    found = [Memory(fingerprint, ROWS_OF_FILE, rows_of_file(cell))]
    if anchors:
        found.append(Memory(anchors[0], _ROWS_BY_CELLS, by_cells, anchors))
    if isinstance(cell.spec.federation, Images | Femnist):
        found.append(Memory(fingerprint, _ROWS_OF_CLIENTS, rows_of_clients(cell)))
    return found


def _anchors(keys: NDArray[np.uint64] | None) -> list[str]:
    smallest = [] if keys is None else np.unique(keys)[:_ANCHORS].tolist()
    return [f"{key:016x}" for key in smallest]
