"""Whether the index that clients' histories are read by is what follows from the ledger's rows."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.rows import StoredRow, UnreadableRow
from fedaudit.reports.document.checks import Check, check
from models.database import Database
from models.repositories.ledger import (
    BLOCK_ROUNDS,
    ClientRoundsRepository,
    block_of,
    index_of,
    same_index,
)

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

    def checks(self) -> Iterator[Check]:
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
