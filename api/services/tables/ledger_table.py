"""The packed ledger as lines, one per subject: the figures of the view `privacy_ledger`."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from api.schemas.experiment_tables import LedgerFilters, LedgerLine
from api.services.tables.table_pages import Key, Line
from fedaudit.ledger.columns import LedgerColumns, columns_of_rows, ledger_columns
from models.repositories import LedgerRepository
from models.repositories.packed_rows import PackedRowRepository
from models.values import LedgerRow

_NO_DELTA = (
    "the cost is no epsilon with a delta: of metric privacy it is counted as leakage, and without "
    "noise nothing bounds it"
)

_NO_SALT = (
    "the digests are not keyed: the noise is simulated or declared, the run was admitted before "
    "there were salts, or the salt was erased with the clients' names"
)


class LedgerTable:
    """The ledger of one experiment or declared ledger, or the part that the filters select."""

    columns: Sequence[str] = tuple(LedgerLine.model_fields)

    def __init__(
        self,
        project_id: str,
        owner_id: str,
        names: Sequence[str],
        filters: LedgerFilters,
        *,
        rows: type[PackedRowRepository] = LedgerRepository,
        salt: bytes | None = None,
    ) -> None:
        """`names`: the subjects' keys by index; `rows`: where they are kept, by `owner_id`. `salt`:
        that their digests are keyed with."""
        self.salt = salt
        self._project_id = project_id
        self._owner_id = owner_id
        self._repository = rows
        self._names = names
        self._filters = filters
        self._client = None if filters.client is None else _index(names, filters.client)

    def rows(self, session: Session, *, after: Key | None, limit: int) -> list[LedgerRow]:
        """Packed rows after a key (round, release, subject kind, observer)."""
        if self._client == -1:
            return []
        stored = self._repository(session, self._project_id)
        within = (self._owner_id, self._filters.round_from, self._filters.round_to)
        if self._client is not None and isinstance(stored, LedgerRepository):
            owner_id, *rounds = within
            return stored.history(owner_id, self._client, *rounds, after=after, limit=limit)
        return stored.rows_after(*within, after=after, limit=limit)

    def key(self, row: LedgerRow) -> Key:
        """The row's key."""
        return (row.round, row.release, row.subject_kind, row.observer)

    @property
    def lines_a_row(self) -> int | None:
        """Of one client one, or one for each layer."""
        return None if self._client is None else 1

    def lines(self, rows: Sequence[LedgerRow]) -> LedgerColumns:
        """A line for each subject, column by column."""
        return ledger_columns(columns_of_rows(rows), self._names, subject=self._client)


def page_reasons(lines: Sequence[Line], *, salt: bytes | None) -> dict[str, str]:
    """Why there is no salt, and why the fields that give an epsilon its meaning are null in the
    lines of a page; empty if they are not.

    Stated once a page: within an experiment it is the same for every line.
    """
    null = (name for name in ("delta", "adjacency") if any(line[name] is None for line in lines))
    unsalted = {} if salt is not None else {"salt": _NO_SALT}
    return unsalted | dict.fromkeys(null, _NO_DELTA)


def _index(names: Sequence[str], client: str) -> int:
    """The subject's index, -1 where there is no such subject."""
    try:
        return names.index(client)
    except ValueError:
        return -1
