"""Read long tables: in pages for a request, or whole for an export.

A stored row gives one line or many. A position in the table is the key of the last row that was
read completely, and how many lines of the next row were read too; rows are only ever appended in
the order of their keys, so a position stays valid.
"""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy.orm import Session

from models.database import Database

Row = TypeVar("Row")
Block = TypeVar("Block", bound=Sized)
Key = tuple[Any, ...]
Line = dict[str, Any]
Position = tuple[Key | None, int]

BEGINNING: Position = (None, 0)

_FIRST_ROWS, _MAX_ROWS = 16, 512
# A block of an export has about this many lines, whatever a row has: that bounds its memory.
_LINES_A_BLOCK = 50_000
# A page that finds little, as for a client that seldom took part, ends here and continues by
# cursor.
_MAX_ROWS_A_PAGE = 20_000


class Table(Protocol[Row]):
    """A table of one experiment."""

    columns: Sequence[str]
    """The names of a line's values."""

    def rows(self, session: Session, *, after: Key | None, limit: int) -> list[Row]:
        """Stored rows after a key, in the order of their keys."""

    def key(self, row: Row) -> Key:
        """A row's key."""

    def lines(self, rows: Sequence[Row]) -> list[list[Line]]:
        """What callers see of each of some rows."""


@dataclass(frozen=True)
class LinePage(Generic[Row]):
    """Some lines, the stored rows that begin among them, and where the next page begins."""

    lines: list[Line]
    begun: list[Row]
    next: Position | None


def read_page(table: Table[Row], session: Session, *, start: Position, limit: int) -> LinePage[Row]:
    """At most `limit` lines from a position on."""
    after, skip = start
    lines: list[Line] = []
    begun: list[Row] = []
    size, read = _FIRST_ROWS, 0
    while read < _MAX_ROWS_A_PAGE:
        rows = table.rows(session, after=after, limit=size)
        for row, all_of_it in zip(rows, table.lines(rows), strict=True):
            fresh = all_of_it[skip:]
            room = limit - len(lines)
            if fresh and room and not skip:
                begun.append(row)
            if len(fresh) > room:
                return LinePage(lines + fresh[:room], begun, (after, skip + room))
            lines += fresh
            after, skip = table.key(row), 0
        if len(rows) < size:
            return LinePage(lines, begun, None)
        read, size = read + size, _MAX_ROWS
    return LinePage(lines, begun, (after, skip))


def read_all(
    table: Table[Row], database: Database, work: Callable[[Sequence[Row]], Block]
) -> Iterator[Block]:
    """What `work` makes of every row, in blocks; each is read by a short transaction of its own.

    The rows of a block are as many as have about `_LINES_A_BLOCK` lines.
    """
    after: Key | None = None
    size = _FIRST_ROWS
    while True:
        with database.read() as session:
            rows = table.rows(session, after=after, limit=size)
        if rows:
            block = work(rows)
            yield block
        if len(rows) < size:
            return
        lines_a_row = -(-len(block) // len(rows))
        after = table.key(rows[-1])
        size = min(_MAX_ROWS, max(1, _LINES_A_BLOCK // max(1, lines_a_row)))
