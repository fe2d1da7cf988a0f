"""The rows of a table that an experiment uses, and why others are left out."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from fedaudit.federations.errors import error_at, listed
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.table.columns import Columns
from fedaudit.federations.table.joined_columns import prepared_rows
from fedaudit.federations.table.required_cells import RequiredCells
from fedaudit.spec.table import Table


class Batches(Protocol):
    """A table that is read some rows at a time."""

    def batches(self, names: Sequence[str]) -> Iterator[TableRows]:
        """The rows of some of the columns."""


class KeptRows:
    """Leaves out rows part by part: those without a client or target, and those with a gap in a
    feature whose rule is `drop-row`."""

    def __init__(self, source: Table, columns: Columns) -> None:
        self._source = source
        self._columns = columns
        self._required = RequiredCells(source, columns)
        self._dropping = [column for column in columns.features if column.feature.drops_rows]
        self._blamed: set[str] = set()
        self._clients: set[str] = set()
        self.rows = 0
        """With a client and a target."""
        self.left_out = 0
        """Of these."""

    def parts(self, table: Batches, progress: Callable[[int], None]) -> Iterator[TableRows]:
        """The rows that are kept, some at a time; `progress` is given how many were seen.

        Raises InvalidInputError where a cell that is needed is empty, or no row is left.
        """
        for part in table.batches(list(self._columns.fields)):
            rows = self._required.kept(prepared_rows(part, self._columns, self._source))
            self.rows += len(rows)
            yield self._complete(rows)
            progress(self.rows - self.left_out)
        self._required.check_rows_left(self.rows)
        if self.left_out and self.left_out == self.rows:
            raise error_at(
                "/federation/features",
                f"every row has an empty cell in one of {listed(self._names)}, whose rule is "
                "`drop-row`; leave a column out, or fill its gaps with `constant`",
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """How many rows were left out, and for want of what."""
        if not self.left_out:
            return self._required.notes
        note = f"rows with an empty cell in {listed(self._names)}, left out: {self.left_out}"
        return (*self._required.notes, note)

    def clients_seen(self, kept: int) -> int:
        """How many clients there were before rows were dropped, where so many are left."""
        return max(kept, len(self._clients))

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self._dropping if column.name in self._blamed]

    def _complete(self, rows: TableRows) -> TableRows:
        """The rows without a gap in a feature that drops them."""
        key = self._columns.client_key
        if not self._dropping or not len(rows):
            return rows
        if key is not None:
            self._clients.update(rows.encoded(key.name, key.where)[0])
        kept = np.ones(len(rows), dtype=np.bool_)
        for column in self._dropping:
            empty = rows.empty(column.name, column.where)
            if empty.any():
                self._blamed.add(column.name)
                kept &= ~empty
        self.left_out += int(np.count_nonzero(~kept))
        return rows if kept.all() else rows.where(kept)
