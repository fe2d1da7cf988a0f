"""Rows by what they hold, so that they are known again in another file.

A table less a row is another file, whose rows have other numbers; audits of the two would give the
row away as two audits of one file with other groups do. So a service numbers rows by a hash of what
they hold, twice: by every column, whichever of them an audit names as truth and prediction, and by
every column but these two, which a new model changes in every row. There are few numbers, so that
sets of them are compared quickly, and two rows may share one: two sets then seem nearer than they
are, never farther.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.spec.audits import AuditSpec

NUMBERS = 1 << 20
MIN_DISTINCT = 0.9
"""Share of rows that differ from all others in what identifies them; below it rows of two files
would be taken for each other."""
_BETWEEN_CELLS = "\x1f"
_HASH_BYTES = 8


@dataclass(frozen=True, eq=False)
class RowContents:
    """The rows of a file by what they hold in some columns. Confidential."""

    columns: str
    """SHA-256 of the names of the columns that identify rows: only files with the same ones are
    compared."""
    numbers: NDArray[np.int64]
    """[rows of the file]: below NUMBERS; those that are alike are counted through."""


def row_contents(
    audit: AuditSpec, table: TableFile, progress: Callable[[], None]
) -> tuple[RowContents, ...]:
    """The rows' numbers by every column, and by every column but truth and prediction; without
    those by which too few rows differ."""
    every = sorted(table.names)
    choices = (every, [name for name in every if name not in (audit.truth, audit.predicted_by)])
    hashes: list[list[NDArray[np.uint64]]] = [[] for _ in choices]
    for rows in table.batches(every):
        for names, found in zip(choices, hashes, strict=True):
            found.append(_hashes(rows, names))
            progress()
    numbered = (_numbered(*one) for one in zip(choices, hashes, strict=True))
    return tuple(one for one in numbered if one is not None)


def _numbered(names: list[str], hashes: list[NDArray[np.uint64]]) -> RowContents | None:
    every = np.concatenate(hashes)
    distinct, places, counts = np.unique(every, return_inverse=True, return_counts=True)
    if len(distinct) < MIN_DISTINCT * len(every):
        return None
    # The second of two rows that are alike is another row.
    order = np.argsort(places, kind="stable")
    first = np.repeat(np.cumsum(counts) - counts, counts)
    occurrence = np.empty(len(every), dtype=np.uint64)
    occurrence[order] = (np.arange(len(every)) - first).astype(np.uint64)
    mixed = every + occurrence * np.uint64(0x9E3779B97F4A7C15)
    columns = hashlib.sha256(_BETWEEN_CELLS.join(names).encode()).hexdigest()
    return RowContents(columns, (mixed % np.uint64(NUMBERS)).astype(np.int64))


def _hashes(rows: TableRows, names: list[str]) -> NDArray[np.uint64]:
    cells = [rows.text(name, "/path") for name in names if _is_comparable(rows.columns[name].type)]
    joined = pc.binary_join_element_wise(*cells, _BETWEEN_CELLS) if cells else [""] * len(rows)
    texts = joined if isinstance(joined, list) else joined.to_pylist()
    found = (
        int.from_bytes(hashlib.blake2b(one.encode(), digest_size=_HASH_BYTES).digest(), "big")
        for one in texts
    )
    return np.fromiter(found, np.uint64, count=len(rows))


def _is_comparable(kind: pa.DataType) -> bool:
    is_ = pa.types
    text = is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind)
    number = is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind)
    return bool(text or number or is_.is_boolean(kind))
