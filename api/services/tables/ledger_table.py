"""The packed ledger as lines, one per subject: the figures of the view `privacy_ledger`."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from api.schemas.experiment_tables import LedgerFilters, LedgerLine
from api.services.tables.table_pages import Key, Line
from fedaudit.ledger.ledger_lines import ledger_lines
from fedaudit.ledger.rows import entry_of
from models.repositories import LedgerRepository
from models.values import LedgerRow

_NO_DELTA = (
    "the cost is no epsilon with a delta: of metric privacy it is counted as leakage, and without "
    "noise nothing bounds it"
)


class LedgerTable:
    """The ledger of one experiment, or the part that the filters select."""

    columns: Sequence[str] = tuple(LedgerLine.model_fields)

    def __init__(
        self,
        project_id: str,
        experiment_id: str,
        names: Sequence[str],
        filters: LedgerFilters,
    ) -> None:
        """`names`: the subjects' keys by index."""
        self._project_id = project_id
        self._experiment_id = experiment_id
        self._names = names
        self._filters = filters
        self._client = None if filters.client is None else _index(names, filters.client)

    def rows(self, session: Session, *, after: Key | None, limit: int) -> list[LedgerRow]:
        """Packed rows after a key (round, release, subject kind, observer)."""
        if self._client == -1:
            return []
        return LedgerRepository(session, self._project_id).rows_after(
            self._experiment_id,
            self._filters.round_from,
            self._filters.round_to,
            after=after,
            limit=limit,
        )

    def key(self, row: LedgerRow) -> Key:
        """The row's key."""
        return (row.round, row.release, row.subject_kind, row.observer)

    def lines(self, row: LedgerRow) -> list[Line]:
        """A line for each subject."""
        return ledger_lines(entry_of(row), self._names, subject=self._client)


def page_reasons(lines: Sequence[Line]) -> dict[str, str]:
    """Why the fields that give an epsilon its meaning are null in the lines of a page; empty if
    they are not.

    Stated once a page: within an experiment it is the same for every line.
    """
    null = (name for name in ("delta", "adjacency") if any(line[name] is None for line in lines))
    return dict.fromkeys(null, _NO_DELTA)


def _index(names: Sequence[str], client: str) -> int:
    """The subject's index, -1 where there is no such subject."""
    try:
        return names.index(client)
    except ValueError:
        return -1
