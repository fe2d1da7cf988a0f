"""The hash chain over a ledger, and the one hash that says whether two ledgers are the same.

The chain binds the entries of one experiment, and the clusters stored beside them, in the order
in which they were written; it shows that none was altered, removed from the middle or put in
between. It cannot show that the newest entries were cut off: signed checkpoints do. The ledger hash
names no experiment and no clusters, so two simulated runs of one spec and seed share it.

Entries can be guessed: who took part in a round of 4 of 32 clients, with public figures, is one of
35,960. Where the noise is secret their digests are therefore keyed with a salt of the experiment,
and so is whatever is hashed from digests.
"""

import hashlib
import hmac
import os
import struct
from collections.abc import Iterable
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.spec.privacy import Noise

_GENESIS = b"fedaudit-ledger-genesis-1\x00"
_LINK = b"fedaudit-ledger-link-2\x00"
_LINK_OF_DECLARED = b"fedaudit-ledger-link-3\x00"
_LEDGER = b"fedaudit-ledger-hash-1\x00"
_SALT = b"fedaudit-ledger-salt-1\x00"
_DIGEST_BYTES = 32
SALT_BYTES = 32
CLUSTER_BYTES = 2

Row = tuple[int, int, str, str, bytes]
"""Round, release, subject kind, observer and digest of one entry."""


def new_salt(noise: Noise) -> bytes | None:
    """The salt of a new ledger, from the operating system. None where noise is simulated: who took
    part follows from the seed, and two runs of one spec have one ledger hash."""
    match noise:
        case "release":
            return os.urandom(SALT_BYTES)
        case "simulation":
            return None
        case _:
            assert_never(noise)


def salt_hash(salt: bytes) -> str:
    """What checkpoints state of a salt, in hexadecimal: it opens nothing."""
    return hashlib.sha256(_SALT + salt).hexdigest()


def digest_of(encoded: bytes, salt: bytes | None) -> bytes:
    """The digest of an entry's bytes: SHA-256, or HMAC-SHA-256 under the ledger's salt.

    Raises ValueError for a salt of another length, since keys of other lengths may collide.
    """
    if salt is None:
        return hashlib.sha256(encoded).digest()
    if len(salt) != SALT_BYTES:
        raise ValueError(f"the ledger's salt has {len(salt)} bytes; it has {SALT_BYTES}")
    return hmac.digest(salt, encoded, hashlib.sha256)


def genesis(experiment_id: str) -> bytes:
    """The link before the first entry of an experiment."""
    return hashlib.sha256(_GENESIS + experiment_id.encode("utf-8")).digest()


def link(
    previous: bytes,
    digest: bytes,
    clusters: NDArray[np.integer],
    *,
    declaration: bytes | None = None,
) -> bytes:
    """The link of an entry: the previous link, its digest and its clusters, hashed together.

    `clusters`: [subjects], in the order in which the row holds them. They are not part of
    the digest, since they cost nothing, but must not change in the row either.
    `declaration`: of a declared round, the keyed hash of what it declared beside its entries
    (`fedaudit.ledger.declared`); None where there is none, as in every run and in rounds that
    were declared before it was introduced. Raises ValueError where `previous`, `digest` or
    `declaration` is not 32 bytes.
    """
    return link_of_bytes(previous, digest, placed_bytes(clusters), declaration=declaration)


def placed_bytes(clusters: NDArray[np.integer]) -> bytes:
    """The clusters as links hash them, `CLUSTER_BYTES` each."""
    return clusters.astype("<i2").tobytes()


def link_of_bytes(
    previous: bytes, digest: bytes, placed: bytes, *, declaration: bytes | None = None
) -> bytes:
    """As `link`, of clusters as `placed_bytes` gives them, for many entries at once."""
    version = _LINK if declaration is None else _LINK_OF_DECLARED
    hashed = {"previous": previous, "digest": digest}
    if declaration is not None:
        hashed["declaration"] = declaration
    for name, value in hashed.items():
        if len(value) != _DIGEST_BYTES:
            raise ValueError(f"{name} has {len(value)} bytes; a SHA-256 digest has 32")
    return hashlib.sha256(version + b"".join(hashed.values()) + placed).digest()


class LedgerHash:
    """Computes the ledger hash from entries in ascending order of round, release, kind,
    observer."""

    def __init__(self) -> None:
        self._total = hashlib.sha256(_LEDGER)
        self._between: dict[tuple[str, str, int], bytes] = {}

    def add(self, row: Row) -> None:
        """Add the next entry. Raises struct.error for a negative round or release."""
        round_, release, subject_kind, observer, digest = row
        who = (subject_kind, observer, len(digest))
        if who not in self._between:
            self._between = {who: _text(subject_kind) + _text(observer) + _length(digest)}
        self._total.update(struct.pack("<QQ", round_, release) + self._between[who] + digest)

    def hexdigest(self) -> str:
        """The hash of the entries so far, in hexadecimal."""
        return self._total.hexdigest()


def ledger_hash(rows: Iterable[Row]) -> str:
    """SHA-256, in hexadecimal, over the entries sorted by round, release, kind and observer.

    Raises ValueError where two entries share all four.
    """
    total = LedgerHash()
    before: tuple[int, int, str, str] | None = None
    for row in sorted(rows):
        if row[:4] == before:
            raise ValueError(
                f"two entries share round, release, subject kind and observer {row[:4]}"
            )
        before = row[:4]
        total.add(row)
    return total.hexdigest()


def _text(value: str) -> bytes:
    encoded = value.encode("utf-8")
    return _length(encoded) + encoded


def _length(value: bytes) -> bytes:
    return struct.pack("<I", len(value))
