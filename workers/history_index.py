"""Index long ledgers by client, behind the newest rounds: history is then read where it is."""

import numpy as np
import structlog
from numpy.typing import NDArray

from models.database import Database
from models.repositories import LedgerRepository
from models.repositories.ledger import BLOCK_ROUNDS, ClientRoundsRepository, index_of

_ROWS = 500
_UNREADABLE = (TypeError, ValueError, OverflowError)
_LOG = structlog.get_logger()


class HistoryIndexer:
    """Makes the blocks that are complete, of ledgers old and new.

    Rows are only ever added behind those of the rounds that are done, so a block stays as it is.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._unreadable: set[str] = set()
        """Experiments with a row that cannot be read: verification says so, and their histories
        are looked through row by row."""

    def index_waiting(self, limit: int) -> int:
        """Make up to so many blocks; returns how many were made. Raises SQLAlchemyError."""
        made = 0
        while made < limit:
            with self._database.read() as session:
                waiting = ClientRoundsRepository(session).waiting(
                    limit - made, leaving_out=self._unreadable
                )
            if not waiting:
                break
            for experiment_id, project_id, indexed in waiting:
                made += self._index(experiment_id, project_id, indexed)
        return made

    def _index(self, experiment_id: str, project_id: str, indexed: int) -> bool:
        # Read before the transaction that writes, which holds up every other writer on SQLite.
        try:
            index = index_of(self._rows(experiment_id, indexed + 1, indexed + BLOCK_ROUNDS))
        except _UNREADABLE as error:
            self._unreadable.add(experiment_id)
            _LOG.warning(
                "a ledger is not indexed", experiment_id=experiment_id, error=type(error).__name__
            )
            return False
        with self._database.write() as session:
            history = ClientRoundsRepository(session)
            return history.add(experiment_id, project_id, indexed // BLOCK_ROUNDS, index)

    def _rows(
        self, experiment_id: str, first: int, last: int
    ) -> list[tuple[int, NDArray[np.int32]]]:
        """Round and subjects of each row of these rounds."""
        found: list[tuple[int, NDArray[np.int32]]] = []
        after = None
        while True:
            with self._database.read() as session:
                ledger = LedgerRepository(session)
                rows = ledger.rows_after(experiment_id, first, last, after=after, limit=_ROWS)
            found += [(row.round, row.subjects) for row in rows]
            if len(rows) < _ROWS:
                return found
            newest = rows[-1]
            after = (newest.round, newest.release, newest.subject_kind, newest.observer)
