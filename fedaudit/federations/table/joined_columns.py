"""Columns of 0 and 1 that together say to which group of one attribute a row belongs."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedaudit.federations.errors import pointer
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.table.columns import Columns
from fedaudit.federations.table.features import with_gaps
from fedaudit.spec.table import OneHot, Table

_SET = frozenset({"1", "1.0", "true", "yes"})
_UNSET = frozenset({"0", "0.0", "false", "no"})


def prepared_rows(rows: TableRows, columns: Columns, source: Table) -> TableRows:
    """The rows with gaps made empty, and with the joined attributes that are looked at.

    Raises InvalidInputError where a row belongs to two groups, or a cell is neither 0 nor 1.
    """
    return with_joined(with_gaps(rows, columns.fields, source.missing_values), columns)


def with_joined(rows: TableRows, columns: Columns) -> TableRows:
    """The rows with a column of group names for each joined attribute. Raises InvalidInputError."""
    for name, joined in columns.joined.items():
        rows = rows.with_column(name, pa.array(_groups(rows, name, joined), pa.string()))
    return rows


def join_pointer(name: str, column: str) -> str:
    """The field of the spec that joins a column."""
    return pointer("federation", "join", name, "columns", column)


def _groups(rows: TableRows, name: str, joined: OneHot) -> list[str]:
    """The group of each row; empty where its cells are."""
    groups = [*joined.columns.values(), joined.none or ""]
    place = np.full(len(rows), len(groups) - 1, dtype=np.int64)
    taken = np.zeros(len(rows), dtype=np.bool_)
    filled = np.zeros(len(rows), dtype=np.bool_)
    for position, column in enumerate(joined.columns):
        values = _cells(rows, name, column)
        belongs = values > 0
        if (twice := belongs & taken).any():
            raise rows.fault(
                column,
                int(np.argmax(twice)),
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
    where = join_pointer(name, column)
    values, codes = rows.encoded(column, where)
    meanings = np.array([_meaning(value) for value in values], dtype=np.int8)[codes]
    if (meanings == _NEITHER).any():
        raise rows.fault(
            column,
            int(np.argmax(meanings == _NEITHER)),
            where,
            "is neither 0 nor 1",
            "join columns of 0 and 1 alone, or name the column under `sensitive` itself",
        )
    return meanings


_NEITHER = -2
_MEANINGS: Mapping[str, int] = {"": -1, **dict.fromkeys(_SET, 1), **dict.fromkeys(_UNSET, 0)}


def _meaning(text: str) -> int:
    return _MEANINGS.get(text.casefold(), _NEITHER)
