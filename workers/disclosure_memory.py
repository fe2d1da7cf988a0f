"""What a report may disclose beside earlier ones: decided once, before its first round."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import structlog
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from fedaudit.fairness.scored_groups import DisclosureDecision, ScoredGroups
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
from models.repositories import ExperimentRepository
from workers.claim import FencedWriter
from workers.disclosed import ROWS_BY_CELLS, Disclosed, Memory
from workers.flush import RunningExperiment

log = structlog.get_logger()

ROWS_OF_FILE = "rows of the file"
_ROWS_OF_CLIENTS = "rows of clients"
_ANCHORS = 16
"""Rows by which memories are found: sets that differ in a share s of rows share none with
probability s to this power."""
_COUNTED_BEFORE = (
    "an earlier report counted nearly the same rows, so its accuracy and loss less "
    "those of this one would be the figures of the rows left out; leave out what that report left "
    "out, or, where people are held out, hold out others by another `seed`"
)


def decide(
    database: Database, disclosed: Disclosed, groups: ScoredGroups, memories: Sequence[Memory]
) -> DisclosureDecision:
    """What a report discloses beside those before it, which `disclosed` now takes in.

    Raises InvalidInputError at /fairness/exclude where rows are left out, and earlier reports are
    near: totals are published in any case, and less those of the other report would be theirs.
    """
    earlier = [disclosed.beside(database, one) for one in memories]
    decision = groups.decide_beside(earlier)
    if groups.spec.fairness.exclude and (decision.withheld or groups.totals_near(earlier)):
        raise error_at("/fairness/exclude", _COUNTED_BEFORE)
    disclosed.add(memories, decision)
    return decision


def settle_disclosures(
    writer: FencedWriter,
    experiments: Sequence[RunningExperiment],
    disclosed: Disclosed,
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
        refused = dict[str, InvalidInputError]()
        disclosed.begin()
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
        if not settled:
            break
        if writer.write(partial(_store, writer, settled, disclosed)):
            disclosed.keep()
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
        found.append(Memory(anchors[0], ROWS_BY_CELLS, by_cells, anchors))
    if isinstance(cell.spec.federation, Images | Femnist):
        found.append(Memory(fingerprint, _ROWS_OF_CLIENTS, rows_of_clients(cell)))
    return found


def _anchors(keys: NDArray[np.uint64] | None) -> list[str]:
    smallest = [] if keys is None else np.unique(keys)[:_ANCHORS].tolist()
    return [f"{key:016x}" for key in smallest]
