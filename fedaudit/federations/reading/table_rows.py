"""Rows of a table: text or numbers on demand, and errors that name column and row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.federations.levels import MAX_CLASSES, Levels, in_order
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.spec.errors import InvalidInputError, error_at, listed
from fedaudit.spec.labels import find_class

MAX_NUMBER = 2.0**63
MAX_NAME_LENGTH = 200
_UNPRINTABLE = r"[\x00-\x1f\x7f]"


@dataclass(frozen=True, eq=False)
class TableRows:
    """Some columns of some rows."""

    source: SourceFile
    columns: Mapping[str, Any]
    """Arrow arrays, all of one length."""
    row_numbers: Ints
    """The numbers of these data rows in the file, counted from 1."""

    def __len__(self) -> int:
        return len(self.row_numbers)

    def where(self, mask: Bools) -> "TableRows":
        """The rows where the mask is true."""
        kept = pa.array(mask)
        columns = {name: column.filter(kept) for name, column in self.columns.items()}
        return replace(self, columns=columns, row_numbers=self.row_numbers[mask])

    def part(self, start: int, count: int) -> "TableRows":
        """Return at most `count` rows from the one at `start`."""
        columns = {name: column.slice(start, count) for name, column in self.columns.items()}
        return replace(self, columns=columns, row_numbers=self.row_numbers[start : start + count])

    def with_column(self, name: str, column: Any) -> "TableRows":
        """The same rows with one column added or replaced."""
        return replace(self, columns={**self.columns, name: column})

    def fault(
        self, name: str, position: int, where: str, problem: str, remedy: str
    ) -> InvalidInputError:
        """An error about one cell, to be raised. It does not show the cell's confidential
        content."""
        row = self.row_numbers[position]
        return error_at(where, f"row {row} of column {name!r} {problem}; {remedy}")

    def refuse(self, wrong: Bools, name: str, where: str, problem: str, remedy: str) -> None:
        """Raises the error about the first of the cells that are `wrong`, [rows], if any are."""
        if wrong.any():
            raise self.fault(name, int(np.argmax(wrong)), where, problem, remedy)

    def type_fault(self, name: str, where: str) -> InvalidInputError:
        """An error about a column that is neither text nor numbers, to be raised."""
        kind = self.columns[name].type
        return error_at(where, f"column {name!r} is of type {kind}; store it as text or numbers")

    def text(self, name: str, where: str) -> Any:
        """A column as trimmed text, empty cells as ''. Raises InvalidInputError at `where`."""
        return pc.utf8_trim_whitespace(self._as_text(name, where))

    def empty(self, name: str, where: str) -> Bools:
        """Which cells of a column are empty, [rows]. Raises InvalidInputError at `where`."""
        return as_numpy(pc.equal(self.text(name, where), ""))

    def _as_text(self, name: str, where: str) -> Any:
        column = self.columns[name]
        try:
            text = column if pa.types.is_string(column.type) else pc.cast(column, pa.string())
            return pc.fill_null(text, "") if text.null_count else text
        except (pa.ArrowException, UnicodeDecodeError):
            raise self.type_fault(name, where) from None

    def levels(self, name: str, where: str, *, numeric: bool = False) -> Levels:
        """A column as codes into its distinct values, as `in_order`; -1 where a cell is empty.

        Raises InvalidInputError at `where` for a value that cannot be a name.
        """
        values, codes = self.encoded(name, where)
        order = in_order([value for value in values if value], numeric=numeric)
        position = {value: place for place, value in enumerate(order)}
        recoded = np.array([position.get(value, -1) for value in values], dtype=np.int64)
        return Levels(tuple(order), recoded[codes] if len(recoded) else codes)

    def encoded(self, name: str, where: str) -> tuple[list[str], Ints]:
        """A column's distinct trimmed texts, in order of appearance, and each row's index.

        Raises InvalidInputError at `where` for a value that cannot be a name.
        """
        encoded = pc.dictionary_encode(self._as_text(name, where))
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        codes = as_numpy(encoded.indices).astype(np.int64)
        # Trimmed only here, because distinct values are few and rows are many.
        trimmed = pc.dictionary_encode(pc.utf8_trim_whitespace(encoded.dictionary))
        if len(trimmed.dictionary) < len(encoded.dictionary):
            codes = as_numpy(trimmed.indices).astype(np.int64)[codes]
        long = pc.greater(pc.utf8_length(trimmed.dictionary), MAX_NAME_LENGTH)
        unprintable = pc.match_substring_regex(trimmed.dictionary, _UNPRINTABLE)
        unusable = as_numpy(pc.or_(long, unprintable))
        if unusable.any():
            self.refuse(
                unusable[codes],
                name,
                where,
                f"has control characters or more than {MAX_NAME_LENGTH} characters",
                "shorten it or clean it",
            )
        return trimmed.dictionary.to_pylist(), codes

    def numbers(
        self,
        name: str,
        where: str,
        *,
        missing_allowed: bool = False,
        remedy: str = "fill the gap or leave the row out",
    ) -> Floats:
        """A column as finite numbers; with `missing_allowed` an empty cell is NaN, and otherwise
        an error with the `remedy`.

        Raises InvalidInputError at `where` naming the first cell that is not a finite number.
        """
        column = self.columns[name]
        plain = _plain_numbers(column)
        if plain is not None:
            return plain
        if is_text(column.type):
            column = self.text(name, where)
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        empty = as_numpy(pc.is_null(column, nan_is_null=False))
        if not missing_allowed:
            self.refuse(empty, name, where, "is empty", remedy)
        numbers = self._as_float(column, name, where)
        infinite = ~np.isfinite(numbers) & ~empty
        self.refuse(infinite, name, where, "is not finite", "correct it")
        self.refuse(
            np.abs(numbers) >= MAX_NUMBER,
            name,
            where,
            "is a number past 64 bits",
            "give it in a larger unit, or leave the column out if it is an identifier",
        )
        return numbers

    def _as_float(self, column: Any, name: str, where: str) -> Floats:
        if not is_comparable(column.type):
            raise error_at(
                where, f"column {name!r} is of type {column.type}; a column of numbers is needed"
            )
        try:
            converted = pc.cast(column, pa.float64(), safe=False)
        except pa.ArrowException:
            raise self.fault(
                name,
                _first_unparsable(column),
                where,
                "is not a number",
                "correct it, leave the column out, or declare a feature's `categories`",
            ) from None
        return as_numpy(pc.fill_null(converted, np.nan))


def as_numpy(column: Any) -> NDArray[Any]:
    """A column of Arrow as an array of numpy."""
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array


def is_text(kind: Any) -> bool:
    """Whether a type of Arrow is one of text."""
    of_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(one(kind) for one in of_text)


def is_comparable(kind: Any) -> bool:
    """Whether cells of a type of Arrow are texts or numbers."""
    types = pa.types
    of_numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return is_text(kind) or any(one(kind) for one in of_numbers)


def _plain_numbers(column: Any) -> Floats | None:
    """The column if every cell is a number within bounds; None where a cell needs a closer look."""
    if column.null_count or not is_comparable(column.type):
        return None
    try:
        numbers = as_numpy(pc.cast(column, pa.float64(), safe=False))
    except pa.ArrowException:
        return None
    within = np.abs(numbers) < MAX_NUMBER  # False for NaN, too
    return numbers if within.all() else None


def _first_unparsable(column: Any) -> int:
    """The first cell that Arrow cannot read as a number; Arrow has its own grammar, so it is
    asked."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            pc.cast(column.slice(low, middle - low), pa.float64())
            low = middle
        except pa.ArrowException:
            high = middle
    return low


_IN_MEMORY = 16 * 2**20
"""Bytes of columns that are kept in memory."""
_FILE = "rows.arrow"


def gathered_rows(parts: Iterable[TableRows], folder: Path) -> TableRows:
    """All rows of a table's parts, of which there is at least one, with the same columns.

    More than 16 MiB are in a mapped file of the folder, which has no name any more: their columns
    take no memory that the system could not take back. Raises OSError where the disk is full.
    """
    path = folder / _FILE
    numbers: list[Ints] = []
    waiting: list[Any] = []
    size, source, writer = 0, None, None
    for part in parts:
        source = part.source
        numbers.append(part.row_numbers)
        waiting.append(pa.table(dict(part.columns)))
        size += waiting[-1].nbytes
        if size > _IN_MEMORY:
            writer = writer or pa.ipc.new_file(str(path), waiting[0].schema)
            for one in waiting:
                writer.write_table(one)
            waiting = []
    if source is None:
        raise ValueError("a table has at least one part")
    if writer is None:
        table = pa.concat_tables(waiting)
    else:
        writer.close()
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        path.unlink()
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return TableRows(source, columns, np.concatenate(numbers))


def class_levels(rows: TableRows, target: str, *, positive: str | None) -> Levels:
    """The target's distinct values as classes: sorted by number if all are numbers, else as text.

    With `positive` there must be two classes, and it becomes the second. Raises InvalidInputError.
    """
    where = "/federation/target"
    levels = rows.levels(target, where, numeric=True)
    rows.refuse(levels.codes < 0, target, where, "is empty", "fill the gap or leave the row out")
    count = len(levels.values)
    if count < 2:
        raise error_at(
            where,
            f"{target!r} has one value only, and two classes are needed at least; name another "
            "column",
        )
    if count > MAX_CLASSES:
        raise error_at(
            where,
            f"{target!r} has {count} distinct values, and {MAX_CLASSES} classes are allowed; train "
            "a number with `rmse` or `mse`, or make classes of it by a threshold first",
        )
    if positive is None:
        return levels
    where = "/federation/positive"
    if count != 2:
        raise error_at(
            where, f"the target has {count} classes, and a positive class is for two; leave it out"
        )
    chosen = find_class(levels.values, positive)
    if chosen is None:
        raise error_at(
            where, f"the target has no class {positive!r}; it has {listed(levels.values)}"
        )
    if chosen == 1:
        return levels
    return Levels(levels.values[::-1], 1 - levels.codes)
