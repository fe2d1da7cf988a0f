"""Numbers made from the content of records: their keys, and hashes by which near-copies are found.

What is drawn for a record goes by its key: a hash (BLAKE2b) of the client's name and of what
training sees of the record. So one record more or less, or another order, changes no other record's
key. Keys do not depend on the experiment's seed.

Records of a client that training sees alike share a key, and so what is drawn: a number among them
would make it depend on which others are there, and they may differ in what fairness figures see.
Two different records may share a key of 64 bits, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Floats, Floats32, Ints
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.reading.source_files import SourceFile

if TYPE_CHECKING:  # a plan of records needs keys alone, and an API loads no pyarrow
    from fedaudit.federations.reading.table_rows import TableRows
    from fedaudit.federations.source_kind import LoadRequest

RecordKeys = NDArray[np.uint64]

_DIGEST = 16
_CHUNK = 1 << 14
"""Records whose content is laid out at once."""


def record_keys(federation: Federation) -> RecordKeys:
    """The keys of all records, uint64 [rows].

    Those with which the federation was loaded, or else from features, target and budget.
    """
    if federation.record_keys is not None:
        return federation.record_keys
    return keys_of_contents(_contents(federation), federation.client_of, federation.client_names)


def keys_of_contents(
    contents: Iterable[bytes | memoryview], codes: Ints, names: Sequence[str]
) -> RecordKeys:
    """The keys of records with these contents: uint64 [records].

    `codes` [records]: the place of each record's client in `names`.
    """
    salts = [blake2b(name.encode(), digest_size=_DIGEST).digest() for name in names]
    digests = b"".join(
        blake2b(content, digest_size=_DIGEST, salt=salts[code]).digest()
        for content, code in zip(contents, codes.tolist(), strict=True)
    )
    keys: RecordKeys = np.frombuffer(digests, dtype="<u8")[::2].astype(np.uint64)
    return keys


def turns(keys: RecordKeys, order: Ints) -> RecordKeys:
    """How many rows with the same key come before each, in an order that has these together."""
    ordered, place = keys[order], np.arange(len(keys))
    fresh = np.append(True, ordered[1:] != ordered[:-1])
    turn = np.empty(len(keys), dtype=np.uint64)
    turn[order] = place - np.maximum.accumulate(np.where(fresh, place, 0))
    return turn


def _contents(federation: Federation) -> Iterator[memoryview]:
    """Features, target and budget of the rows, a chunk at a time."""
    kept = federation.features
    features = kept.values if isinstance(kept, ClientRows) else kept
    for start in range(0, federation.rows, _CHUNK):
        part = slice(start, start + _CHUNK)
        numbers = federation.raw_target[part][:, None]
        if federation.record_budgets is not None:
            numbers = np.hstack([numbers, federation.record_budgets[part][:, None]])
        parts = [_as_bytes(features[part]), _as_bytes(numbers)]
        laid = np.ascontiguousarray(np.hstack(parts))
        view, width = laid.data.cast("B"), laid.shape[1]
        for first in range(0, view.nbytes, width):
            yield view[first : first + width]


def _as_bytes(numbers: NDArray[np.uint8] | Floats32 | Floats) -> NDArray[np.uint8]:
    """Numbers [rows, columns] as bytes [rows, ...]."""
    return np.ascontiguousarray(numbers).view(np.uint8)


_ROWS_JOINED = 1 << 14
"""Rows whose cells are joined at once."""
# No cell has this character: a name or a number that holds it is refused.
BETWEEN_CELLS = "\x1f"


def joined_cells(rows: "TableRows", columns: Mapping[str, str]) -> Iterator[memoryview]:
    """Each row's trimmed cells as one text in UTF-8; a chunk of rows is in memory.

    `columns`: names, and the field of the spec that names each. Their order, and the scales and
    categories that a spec declares, decide nothing; categories may depend on other rows.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = sorted(columns)
    for start in range(0, len(rows), _ROWS_JOINED):
        part = rows.part(start, _ROWS_JOINED)
        texts = [part.text(name, columns[name]) for name in names]
        texts = [one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one for one in texts]
        joined = pc.binary_join_element_wise(*texts, BETWEEN_CELLS)
        _, offsets, text = joined.buffers()
        ends = np.frombuffer(offsets, dtype=np.int32, count=len(joined) + 1).tolist()
        view = memoryview(text) if text is not None else memoryview(b"")
        for first, last in pairwise(ends):
            yield view[first:last]


_HASH_BYTES = 8


def smallest_row_hashes(file: SourceFile, asked: "LoadRequest", *, header: bool, keep: int) -> Ints:
    """The `keep` smallest distinct hashes of the rows, ascending, from 0 to 2^63 - 1.

    A row is its cells as trimmed text, in the order of the columns' names, whatever their order in
    the file; columns of other types than texts and numbers are left out. Raises InvalidInputError
    where the file is no table.
    """
    from fedaudit.federations.reading.table_files import TableFile

    table = TableFile(file, header=header)
    names = sorted(table.names)
    smallest = np.empty(0, np.int64)
    for rows in table.batches(names):
        found = (row_hashes(rows, names, "/federation/path") >> np.uint64(1)).astype(np.int64)
        smallest = np.union1d(smallest, found)[:keep]
        asked.progress()
    return smallest


def row_hashes(rows: "TableRows", names: Sequence[str], where: str) -> NDArray[np.uint64]:
    """The hash of each row's cells in these columns: uint64 [rows], or none where no column can be
    compared. `where`: the field of the spec that a fault is of."""
    from fedaudit.federations.reading.table_rows import is_comparable

    comparable = {name: where for name in names if is_comparable(rows.columns[name].type)}
    cells = joined_cells(rows, comparable) if comparable else ()
    digests = (blake2b(row, digest_size=_HASH_BYTES).digest() for row in cells)
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)
