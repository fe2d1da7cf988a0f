"""The rows of a table that an experiment uses, why others are left out, and every fault of them.

Loading and profiling stop at the first fault that they meet. Then the rows are read once more, each
column by itself, and what else does not fit is raised with it, so that no fault is met only after
another is repaired.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.source_kind import LoadRequest
from fedaudit.federations.table.columns import BUDGETS, Columns, FeatureColumn, find_columns
from fedaudit.federations.table.features import (
    check_features,
    check_table_scales,
    refuse_gaps,
    with_gaps,
)
from fedaudit.spec.errors import FieldError, InvalidInputError, error_at, listed, pointer
from fedaudit.spec.table import OneHot, Table, drops_rows

_TARGET = "/federation/target"


def _needed(source: Table, columns: Columns) -> Iterator[tuple[str, str, str, bool]]:
    """The columns that a row needs: name, field of the spec, what the cell says, and whether rows
    without it are left out."""
    yield columns.target, _TARGET, "target", drops_rows(source.missing_target)
    if (key := columns.client_key) is not None:
        yield key.name, key.where, "client", drops_rows(source.missing_client)


def _refuse_gap(rows: TableRows, name: str, where: str, what: str) -> None:
    remedy = f"fill the gap, or leave such rows out by `missing_{what}: drop-row`"
    refuse_gaps(rows, name, where, remedy=remedy)


_NEITHER = -2
_MEANINGS: Mapping[str, int] = {
    "": -1,
    **dict.fromkeys(("1", "1.0", "true", "yes"), 1),
    **dict.fromkeys(("0", "0.0", "false", "no"), 0),
}


def with_joined(rows: TableRows, columns: Columns) -> TableRows:
    """The rows with a column of group names for each joined attribute that is looked at.

    Raises InvalidInputError where a row belongs to two groups, or a cell is neither 0 nor 1.
    """
    for name, joined in columns.joined.items():
        rows = rows.with_column(name, pa.array(_groups(rows, name, joined), pa.string()))
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


def complete_rows(
    rows: TableRows, features: Sequence[FeatureColumn]
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Where no feature is empty whose rule omits such rows, [rows], and how many cells are empty
    of each feature that has a rule for it."""
    kept, found = np.ones(len(rows), dtype=np.bool_), {}
    for column in features:
        if not (column.feature.drops_rows or column.feature.fills_gaps):
            continue  # an empty cell is an error, raised where the column is read
        empty = rows.empty(column.name, column.where)
        if count := int(np.count_nonzero(empty)):
            found[column.name] = count
        if column.feature.drops_rows:
            kept &= ~empty
    return kept, found


class KeptRows:
    """Leaves out rows part by part: those without a client or target, and those with a gap in a
    feature whose rule is `drop-row`."""

    def __init__(self, source: Table, columns: Columns) -> None:
        self._source = source
        self._columns = columns
        self._needed = list(_needed(source, columns))
        self._without: Counter[str] = Counter()
        self._dropping = [column for column in columns.features if column.feature.drops_rows]
        self._clients: set[str] = set()
        self.rows = 0
        """Rows with a client and a target."""
        self.left_out = 0
        """Rows left out of these."""
        self.missing: Counter[str] = Counter()
        """Empty cells of each feature whose gaps leave rows out."""

    def parts(self, table: TableFile, progress: Callable[[int], None]) -> Iterator[TableRows]:
        """The rows that are kept, some at a time; `progress` is given how many were seen.

        Raises InvalidInputError where a cell that is needed is empty, or no row is left.
        """
        fields, missing = self._columns.fields, self._source.missing_values
        for part in table.batches(list(fields)):
            joined = with_joined(with_gaps(part, fields, missing), self._columns)
            rows = self._present(joined)
            self.rows += len(rows)
            yield self._complete(rows)
            progress(self.rows - self.left_out)
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
    def notes(self) -> tuple[str, ...]:
        """How many rows were left out, and for want of what; a row counts once."""
        found = [f"rows without a {what}, left out: {rows}" for what, rows in self._without.items()]
        if self.left_out:
            names = listed(self._names)
            found.append(f"rows with an empty cell in {names}, left out: {self.left_out}")
        return tuple(found)

    def clients_seen(self, kept: int) -> int:
        """How many clients there were before rows were dropped, where so many are left."""
        return max(kept, len(self._clients))

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self._dropping if column.name in self.missing]

    def _present(self, rows: TableRows) -> TableRows:
        """The rows with a client and a target."""
        kept = np.ones(len(rows), dtype=np.bool_)
        for name, where, what, drops in self._needed:
            if not drops:
                _refuse_gap(rows, name, where, what)
                continue
            empty = rows.empty(name, where) & kept
            if count := int(np.count_nonzero(empty)):
                self._without[what] += count
            kept &= ~empty
        return rows if kept.all() else rows.where(kept)

    def _complete(self, rows: TableRows) -> TableRows:
        """The rows without a gap in a feature that drops them."""
        key = self._columns.client_key
        if not self._dropping or not len(rows):
            return rows
        if key is not None:
            self._clients.update(rows.encoded(key.name, key.where)[0])
        kept, empty = complete_rows(rows, self._dropping)
        self.missing.update(empty)
        self.left_out += int(np.count_nonzero(~kept))
        return rows if kept.all() else rows.where(kept)


MAX_FAULTS = 25


@contextmanager
def every_fault(
    source: Table, file: SourceFile, asked: LoadRequest, *, numbers: bool
) -> Iterator[None]:
    """Work on a table whose fault is raised with all others that its rows show, MAX_FAULTS at most.

    `numbers`: whether the target is known to be numbers; that it is classes says `asked`.
    """
    try:
        yield
    except InvalidInputError as error:
        found = _Search(source, asked, numbers=numbers)
        with suppress(InvalidInputError):  # the file itself cannot be read, as `error` says
            found.read(file)
        faults = list(dict.fromkeys([*error.errors, *found.faults]))
        raise InvalidInputError(faults[:MAX_FAULTS]) from None


class _Search:
    """One pass over the rows; a column is left alone once it has a fault."""

    def __init__(self, source: Table, asked: LoadRequest, *, numbers: bool) -> None:
        self.faults: list[FieldError] = []
        self._source = source
        self._asked = asked
        self._numbers = numbers
        self._done: set[tuple[str, str]] = set()

    def read(self, file: SourceFile) -> None:
        """Raises InvalidInputError where columns are named wrongly, or the file is no table."""
        table = TableFile(file, header=self._source.header)
        asked = self._asked
        named = asked.fairness.sensitive
        columns = find_columns(self._source, table.names, named, budgets=asked.budgets)
        check = partial(check_table_scales, self._source, columns, classes=asked.classification)
        self._try(("scale", ""), check)
        for rows in table.batches(list(columns.fields)):
            self._check(rows, columns)
            if len(self.faults) >= MAX_FAULTS:
                return

    def _check(self, rows: TableRows, columns: Columns) -> None:
        for name, where in columns.fields.items():
            self._try(("text", name), partial(rows.text, name, where))
            if ("text", name) in self._done:
                return  # such a column cannot be compared with the texts that mean a gap
        rows = with_gaps(rows, columns.fields, self._source.missing_values)
        self._try(("join", ""), partial(with_joined, rows, columns))
        kept, _ = complete_rows(rows, columns.features)
        for name, where, what, drops in _needed(self._source, columns):
            if not drops:
                self._try(("required", name), partial(_refuse_gap, rows, name, where, what))
            kept &= ~rows.empty(name, where)
        rows = rows.where(kept)
        if not len(rows):
            return
        for column in columns.features:
            check = partial(check_features, rows, (column,), scales=self._source.scale)
            self._try(("feature", column.name), check)
        for place, name in enumerate(columns.sensitive):
            if name in columns.joined:
                continue
            if name in self._asked.fairness.edges:
                where = pointer("fairness", "edges", name)
                numbers = partial(rows.numbers, name, where, missing_allowed=True)
                self._try(("group", name), numbers)
            else:
                where = pointer("fairness", "sensitive", place)
                self._try(("group", name), partial(rows.encoded, name, where))
        if self._numbers:
            self._try(("target", ""), partial(rows.numbers, columns.target, _TARGET))
        if self._asked.budgets is not None:
            self._try(("budgets", ""), partial(rows.numbers, self._asked.budgets, BUDGETS))

    def _try(self, what: tuple[str, str], check: Callable[[], object]) -> None:
        """Run a check that has not failed yet, and keep its faults."""
        if what in self._done:
            return
        try:
            check()
        except InvalidInputError as error:
            self._done.add(what)
            self.faults += error.errors
