"""A number for every record, from the record itself: what is drawn for a record goes by it.

A key is a hash (BLAKE2b) of the client's name, of what training sees of the record, and of how many
records of that client before it are the same. So one record more or less changes no other record's
key, but for records that are the same as itself: of these, one key more or less is in use, and
which of them has which makes no difference. Keys do not depend on the experiment's seed.

Two different records may share a key of 64 bits; they then share what is drawn, and neither
depends on whether the other is there.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import ClientRows, Federation

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
    contents: Iterable[bytes | memoryview], codes: NDArray[np.int64], names: Sequence[str]
) -> RecordKeys:
    """The keys of records with these contents: uint64 [records].

    `codes` [records]: the place of each record's client in `names`.
    """
    salts = [blake2b(name.encode(), digest_size=_DIGEST).digest() for name in names]
    digests = b"".join(
        blake2b(content, digest_size=_DIGEST, salt=salts[code]).digest()
        for content, code in zip(contents, codes.tolist(), strict=True)
    )
    words = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
    keys = words[:, 0].astype(np.uint64)
    turn = _turns(words)
    for place in np.flatnonzero(turn):
        again = blake2b(int(turn[place]).to_bytes(8, "little"), key=words[place].tobytes())
        keys[place] = np.frombuffer(again.digest()[:8], dtype="<u8")[0]
    return keys


def _turns(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many records before each have the same words [records, 2]."""
    order = np.lexsort((words[:, 1], words[:, 0]))  # stable, so equal ones stay in their order
    ordered = words[order]
    fresh = np.ones(len(words), dtype=np.bool_)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(1)
    place = np.arange(len(words))
    turn = np.empty(len(words), dtype=np.int64)
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


def _as_bytes(
    numbers: NDArray[np.uint8] | NDArray[np.float32] | NDArray[np.float64],
) -> NDArray[np.uint8]:
    """Numbers [rows, columns] as bytes [rows, ...]."""
    return np.ascontiguousarray(numbers).view(np.uint8)
