"""The rows of a table that an experiment uses, and why others are left out."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.table.columns import Columns
from fedaudit.federations.table.features import GAP, with_gaps
from fedaudit.spec.errors import Faults, error_at, listed, pointer
from fedaudit.spec.table import OneHot, Table, drops_rows

_TARGET = "/federation/target"


_NEITHER = -2
_MEANINGS: Mapping[str, int] = {
    "": -1,
    **dict.fromkeys(("1", "1.0", "true", "yes"), 1),
    **dict.fromkeys(("0", "0.0", "false", "no"), 0),
}


def with_joined(rows: TableRows, columns: Columns, faults: Faults) -> TableRows:
    """The rows with a column of group names for each joined attribute that is looked at.

    A fault is that a row belongs to two groups, or a cell is neither 0 nor 1.
    """
    for name, joined in columns.joined.items():
        groups = [name] * len(rows)  # any, where they are refused
        with faults.noting(f"join {name}"):
            groups = _groups(rows, name, joined)
        rows = rows.with_column(name, pa.array(groups, pa.string()))
    return rows


def _groups(rows: TableRows, name: str, joined: OneHot) -> list[str]:
    """The group of each row; empty where its cells are."""
    groups = [*joined.columns.values(), joined.none or ""]
    place = np.full(len(rows), len(groups) - 1, dtype=np.int64)
    taken = np.zeros(len(rows), dtype=np.bool_)
    filled = np.zeros(len(rows), dtype=np.bool_)
    for position, column in enumerate(joined.columns):
        values = _cells(rows, name, column)
        belongs = values > 0
        rows.refuse(
            belongs & taken,
            column,
            pointer("federation", "join", name),
            "puts the row into a second group",
            "set one of the joined columns in each row, or leave this one out of `columns`",
        )
        place[belongs] = position
        taken |= belongs
        filled |= values >= 0
    found = np.array(groups, dtype=object)[place]
    found[~filled] = ""
    texts: list[str] = found.tolist()
    return texts


def _cells(rows: TableRows, name: str, column: str) -> NDArray[np.int8]:
    """1 where a cell is set, 0 where it is not, -1 where it is empty: [rows]."""
    where = pointer("federation", "join", name, "columns", column)
    values, codes = rows.encoded(column, where)
    known = [_MEANINGS.get(value.casefold(), _NEITHER) for value in values]
    meanings = np.array(known, dtype=np.int8)[codes]
    rows.refuse(
        meanings == _NEITHER,
        column,
        where,
        "is neither 0 nor 1",
        "join columns of 0 and 1 alone, or name the column under `sensitive` itself",
    )
    return meanings


class KeptRows:
    """Leaves out rows part by part: those without a client or target, and those with a gap in a
    feature whose rule is `drop-row`. Notes the faults of cells that are needed."""

    def __init__(self, source: Table, columns: Columns, faults: Faults) -> None:
        self._source = source
        self._faults = faults
        self._columns = columns
        # Name, field of the spec, what the cell says, and whether rows without it are left out.
        self._needed = [(columns.target, _TARGET, "target", drops_rows(source.missing_target))]
        if (key := columns.client_key) is not None:
            self._needed.append((key.name, key.where, "client", drops_rows(source.missing_client)))
        self._without: Counter[str] = Counter()
        self._dropping = [one for one in columns.features if drops_rows(one.feature.missing)]
        self.clients: set[str] = set()
        """Those before rows are left out for gaps, where any may be."""
        self.rows = 0
        """Rows with a client and a target."""
        self.left_out = 0
        """Rows left out of these."""
        self.missing: Counter[str] = Counter()
        """Empty cells of each feature whose gaps leave rows out."""

    def parts(self, table: TableFile, progress: Callable[[int], None]) -> Iterator[TableRows]:
        """The rows that are kept, some at a time; `progress` is given how many were seen.

        Raises InvalidInputError where no row is left.
        """
        fields, missing = self._columns.fields, self._source.missing_values
        for part in table.batches(list(fields)):
            marked = with_gaps(part, fields, missing)
            rows = self._present(with_joined(marked, self._columns, self._faults))
            self.rows += len(rows)
            yield self._complete(rows)
            progress(self.rows - self.left_out)
        if not self.rows:
            self._faults.end()
        if not self.rows and self._without.total():
            raise error_at(
                _TARGET,
                "every row lacks its client or its target; name other columns, or correct "
                "`missing_values`",
            )
        if self.left_out and self.left_out == self.rows:
            raise error_at(
                "/federation/features",
                f"every row has an empty cell in one of {listed(self._names)}, whose rule is "
                "`drop-row`; leave a column out, or fill its gaps with `constant`",
            )

    @property
    def dropped(self) -> int:
        """How many rows were left out."""
        return self.left_out + self._without.total()

    @property
    def notes(self) -> tuple[str, ...]:
        """How many rows were left out, and for want of what; a row counts once."""
        found = [f"rows without a {what}, left out: {rows}" for what, rows in self._without.items()]
        if self.left_out:
            names = listed(self._names)
            found.append(f"rows with an empty cell in {names}, left out: {self.left_out}")
        return tuple(found)

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self._dropping if column.name in self.missing]

    def _present(self, rows: TableRows) -> TableRows:
        """The rows with a client and a target."""
        kept = np.ones(len(rows), dtype=np.bool_)
        for name, where, what, drops in self._needed:
            empty = rows.empty(name, where)
            if drops and (count := int(np.count_nonzero(empty & kept))):
                self._without[what] += count
            elif not drops:
                remedy = f"fill the gap, or leave such rows out by `missing_{what}: drop-row`"
                with self._faults.noting(what):
                    rows.refuse(empty, name, where, GAP, remedy)
            kept &= ~empty
        return rows if kept.all() else rows.where(kept)

    def _complete(self, rows: TableRows) -> TableRows:
        """The rows without a gap in a feature that drops them."""
        key = self._columns.client_key
        if not self._dropping or not len(rows):
            return rows
        if key is not None:
            with self._faults.noting("names of clients"):
                self.clients.update(rows.encoded(key.name, key.where)[0])
        kept = np.ones(len(rows), dtype=np.bool_)
        for column in self._dropping:
            empty = rows.empty(column.name, column.where)
            self.missing += Counter({column.name: int(np.count_nonzero(empty))})
            kept &= ~empty
        self.left_out += int(np.count_nonzero(~kept))
        return rows if kept.all() else rows.where(kept)
