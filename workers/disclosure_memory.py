"""What a report may disclose beside earlier ones: decided once, before a run's first round."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
from fedaudit.spec.errors import error_at
from fedaudit.spec.federation import Femnist, Images
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
    "an earlier report on these data counted nearly the same rows, so its accuracy and loss less "
    "those of this one would be the figures of the rows left out; leave out what that report left "
    "out, or hold out other people by another `seed`"
)

Opened = dict[tuple[str, str], RememberedSets]
"""By the key and the numbering of a memory: its sets as they were read last."""


@dataclass(frozen=True, eq=False)
class Held:
    """What a memory, and those that are found beside it, held."""

    rows: Numbered
    sets: SetsBeside
    counts: Mapping[str, int]
    """How many sets there were, by the keys of these memories."""


@dataclass(frozen=True, eq=False)
class Memory:
    """The sets of rows that were disclosed under one numbering of the rows."""

    key: str
    """Of the data: a fingerprint, or what stands for data with equal rows or columns."""
    numbering: str
    rows: Numbered
    anchors: Sequence[str] = ()
    """Keys of rows that also find other memories; none for those of one key alone."""
    opened: Opened = field(default_factory=dict)
    """What was read before, to which this adds."""

    @property
    def locks(self) -> set[str]:
        """The keys to be locked before it is added to."""
        return {self.key, _EVERY_ANCHORED} if self.anchors else {self.key}

    def earlier(self, session: Session) -> Held:
        """What was disclosed before."""
        disclosed, counts = DisclosureRepository(session), self.count(session)
        remembered = []
        for key, count in counts.items():
            remembered.append(self._sets(key))
            if len(remembered[-1].sets) != count:
                remembered[-1].add(
                    DisclosedRows(
                        RowSet.from_bytes(one.bits, digest=one.digest),
                        RowSet.from_bytes(one.favourable_bits, digest=one.favourable_digest),
                    )
                    for one in disclosed.sets(key, numbering=self._numbering)
                    if (one.digest, one.favourable_digest) not in remembered[-1].sets
                )
        return Held(self.rows, SetsBeside(*remembered), counts)

    def count(self, session: Session) -> dict[str, int]:
        """How many sets were disclosed before, by the key of a memory; never fewer later."""
        disclosed = DisclosureRepository(session)
        keys = disclosed.memories(self.anchors) if self.anchors else [self.key]
        return disclosed.counts(keys, numbering=self._numbering)

    def opened_with(self, sets: Sequence[DisclosedRows]) -> None:
        """Notes what was added to it."""
        self._sets(self.key).add(sets)

    def add(self, session: Session, sets: Sequence[DisclosedRows]) -> None:
        """Remembers what is disclosed. Lock `locks` before."""
        stored = [
            StoredSet(*one.key, one.rows.as_bytes(), one.favourable.as_bytes()) for one in sets
        ]
        DisclosureRepository(session).add(
            self.key, numbering=self._numbering, sets=stored, anchors=self.anchors
        )

    def _sets(self, key: str) -> RememberedSets:
        return self.opened.setdefault((key, self._numbering), RememberedSets())

    @property
    def _numbering(self) -> str:
        return hashlib.sha256(self.numbering.encode()).hexdigest()


def remember(
    session: Session,
    groups: ScoredGroups,
    memories: Sequence[Memory],
    known: Sequence[Held],
    decision: DisclosureDecision,
) -> DisclosureDecision:
    """Adds what is disclosed; decided anew where another report was quicker than `known`.

    Raises InvalidInputError at /fairness/exclude where rows are left out, and earlier reports are
    near: totals are published in any case, and less those of the other report would be theirs.
    """
    DisclosureRepository(session).lock(key for memory in memories for key in memory.locks)
    if [memory.count(session) for memory in memories] != [one.counts for one in known]:
        known = [memory.earlier(session) for memory in memories]
        decision = groups.decide_beside(pairs(known))
    if groups.spec.fairness.exclude and (decision.withheld or groups.totals_near(pairs(known))):
        raise error_at("/fairness/exclude", _COUNTED_BEFORE)
    for memory, sets in zip(memories, decision.sets, strict=True):
        memory.add(session, sets)
    return decision


def pairs(known: Sequence[Held]) -> list[tuple[Numbered, SetsBeside]]:
    """What was held before, as `ScoredGroups` takes it."""
    return [(one.rows, one.sets) for one in known]


def settle_disclosures(
    writer: FencedWriter,
    experiment: RunningExperiment,
    *,
    decided: Sequence[str] | None,
    secret: bytes,
    opened: Opened,
) -> frozenset[str]:
    """The attributes that the run withholds; remembers what it discloses. A resumed run keeps its
    decision, `decided`. Slow work is done before the transaction, and repeated within it only if
    another run on the same data was quicker. `secret`: for keys of rows. `opened`: of the unit's
    earlier experiments."""
    cell = experiment.run.cell
    if not is_remembered(cell):
        return frozenset()
    if decided is not None:
        return frozenset(decided)
    groups, memories = scored_groups(cell), _memories(experiment, secret, opened)
    with writer.database.read() as session:
        known = [memory.earlier(session) for memory in memories]
    decision = groups.decide_beside(pairs(known))

    def settle(session: Session) -> DisclosureDecision | frozenset[str]:
        experiments = ExperimentRepository(session, experiment.project_id)
        row = experiments.get(experiment.id) if writer.again else None
        if row is not None and row.withheld_attributes is not None:
            return frozenset(row.withheld_attributes)  # by a write whose confirmation was lost
        settled = remember(session, groups, memories, known, decision)
        experiments.withhold(experiment.id, sorted(settled.withheld))
        return settled

    settled = writer.write(settle)
    if not isinstance(settled, DisclosureDecision):
        return settled
    for memory, sets in zip(memories, settled.sets, strict=True):
        memory.opened_with(sets)
    if settled.withheld:
        log.info(
            "attributes withheld beside earlier reports",
            experiment_id=experiment.id,
            attributes=sorted(settled.withheld),
        )
    experiment.run.disclosures = settled.disclosures  # to decide them takes long
    return settled.withheld


def _memories(experiment: RunningExperiment, secret: bytes, opened: Opened) -> list[Memory]:
    """That of the file, that of its rows in any file, and what was remembered of images before
    their rows were numbered by the file."""
    cell = experiment.run.cell
    fingerprint, by_cells = cell.federation.fingerprint, rows_by_cells(cell, secret=secret)
    anchors = sorted({anchor for one in by_cells for anchor in _anchors(one.population.row_keys)})
    found = [Memory(fingerprint, ROWS_OF_FILE, rows_of_file(cell), opened=opened)]
    if anchors:
        found.append(Memory(anchors[0], _ROWS_BY_CELLS, by_cells, anchors, opened))
    if isinstance(cell.spec.federation, Images | Femnist):
        found.append(Memory(fingerprint, _ROWS_OF_CLIENTS, rows_of_clients(cell), opened=opened))
    return found


def _anchors(keys: NDArray[np.uint64] | None) -> list[str]:
    smallest = [] if keys is None else np.unique(keys)[:_ANCHORS].tolist()
    return [f"{key:016x}" for key in smallest]
