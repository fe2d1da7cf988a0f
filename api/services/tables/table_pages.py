"""Read long tables: in pages for a request, or whole for an export.

A stored row gives one line or many. A position in the table is the key of the last row that was
read completely, and how many lines of the next row were read too; rows are only ever appended in
the order of their keys, so a position stays valid.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise
from math import ceil
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy.orm import Session

from models.database import Database

Row = TypeVar("Row")
Block = TypeVar("Block", bound=Sized)
Key = tuple[Any, ...]
Line = dict[str, Any]
Position = tuple[Key | None, int]

BEGINNING: Position = (None, 0)

_FIRST_ROWS, _MAX_ROWS = 16, 1024
# A block of an export has about this many lines, whatever a row has: that bounds its memory.
_LINES_A_BLOCK = 50_000
# A page that finds little, as for a client that seldom took part, ends here and continues by
# cursor.
_MAX_ROWS_A_PAGE = 20_000


class Lines(Protocol):
    """What callers see of some stored rows."""

    @property
    def counts(self) -> Iterable[int]:
        """How many lines each of the rows has."""

    def lines(self, begin: int, end: int) -> Iterable[Line]:
        """The lines from one number to before another."""


@dataclass(frozen=True)
class LinesByRow:
    """Lines that were made row by row."""

    rows: Sequence[Sequence[Line]]

    @property
    def counts(self) -> Iterable[int]:
        """How many lines each row has."""
        return map(len, self.rows)

    def lines(self, begin: int, end: int) -> Iterable[Line]:
        """The lines from one number to before another."""
        return islice(chain.from_iterable(self.rows), begin, end)


class Table(Protocol[Row]):
    """A table of one experiment."""

    columns: Sequence[str]
    """The names of a line's values."""

    @property
    def lines_a_row(self) -> int | None:
        """How many lines a stored row has; None where that is seen in the first rows."""

    def rows(self, session: Session, *, after: Key | None, limit: int) -> list[Row]:
        """Stored rows after a key, in the order of their keys."""

    def key(self, row: Row) -> Key:
        """A row's key."""

    def lines(self, rows: Sequence[Row]) -> Lines:
        """What callers see of some rows."""


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
    known, read = table.lines_a_row, 0
    size = _FIRST_ROWS if known is None else _rows_for(limit + skip, known)
    while read < _MAX_ROWS_A_PAGE:
        rows = table.rows(session, after=after, limit=size)
        found = table.lines(rows)
        # Where the lines of each row begin, and behind the last where they end.
        begins = list(accumulate(map(int, found.counts), initial=0))
        end = min(skip + limit - len(lines), begins[-1])
        lines += found.lines(skip, end)
        begun += [
            row
            for row, (first, stop) in zip(rows, pairwise(begins), strict=True)
            if skip <= first < min(stop, end)
        ]
        if end < begins[-1]:
            place = bisect_right(begins, end) - 1
            before = table.key(rows[place - 1]) if place else after
            return LinePage(lines, begun, (before, end - begins[place]))
        if len(rows) < size:
            return LinePage(lines, begun, None)
        after, skip, read = table.key(rows[-1]), 0, read + size
        size = _rows_for(limit - len(lines), begins[-1] / len(rows))
    return LinePage(lines, begun, (after, skip))


def _rows_for(lines: int, lines_a_row: float) -> int:
    """So many rows that probably one line more is among theirs, which shows that there are more."""
    needed = (lines + 1) / max(lines_a_row, 1 / _MAX_ROWS)
    return min(_MAX_ROWS, max(_FIRST_ROWS, ceil(needed)))


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
