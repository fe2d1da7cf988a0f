"""The keys of a table's rows, from the text of their cells."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedaudit.federations.levels import Levels
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.record_keys import RecordKeys, keys_of_contents

_CHUNK = 1 << 14
"""Rows whose cells are joined at once."""
# No cell has this character: a name or a number that holds it is refused.
_BETWEEN_CELLS = "\x1f"


def table_record_keys(rows: TableRows, columns: Mapping[str, str], clients: Levels) -> RecordKeys:
    """The keys of these rows, by clients and the trimmed text of these columns: uint64 [rows].

    `columns`: names, and the field of the spec that names each. Their order, and the scales and
    categories that a spec declares, are not in a key; categories may depend on other rows.
    """
    return keys_of_contents(_joined_cells(rows, columns), clients.codes, clients.values)


def _joined_cells(rows: TableRows, columns: Mapping[str, str]) -> Iterator[memoryview]:
    """Each row's cells as one text in UTF-8; a chunk of rows is in memory."""
    names = sorted(columns)
    for start in range(0, len(rows), _CHUNK):
        part = rows.part(start, _CHUNK)
        texts = [_one_array(part.text(name, columns[name])) for name in names]
        joined = pc.binary_join_element_wise(*texts, _BETWEEN_CELLS)
        _, offsets, text = joined.buffers()
        ends = np.frombuffer(offsets, dtype=np.int32, count=len(joined) + 1).tolist()
        view = memoryview(text) if text is not None else memoryview(b"")
        for first, last in pairwise(ends):
            yield view[first:last]


def _one_array(text: Any) -> Any:
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
