"""The hash chain over a ledger, and the one hash that says whether two ledgers are the same.

The chain binds the entries of one experiment in the order in which they were written; it shows
that none was altered, removed from the middle or put in between. It cannot show that the newest
entries were cut off: keep the chain's head elsewhere for that. The ledger hash names no
experiment and no order, so two runs of one spec and seed share it.
"""

import hashlib
import struct
from collections.abc import Iterable

_GENESIS = b"fedaudit-ledger-genesis-1\x00"
_LINK = b"fedaudit-ledger-link-1\x00"
_LEDGER = b"fedaudit-ledger-hash-1\x00"
_DIGEST_BYTES = 32

Row = tuple[int, int, str, str, bytes]
"""Round, release, subject kind, observer and digest of one entry."""


def genesis(experiment_id: str) -> bytes:
    """The link before the first entry of an experiment."""
    return hashlib.sha256(_GENESIS + experiment_id.encode("utf-8")).digest()


def link(previous: bytes, digest: bytes) -> bytes:
    """The link of an entry: the previous link and the entry's digest, hashed together.

    Raises ValueError where either is not 32 bytes.
    """
    for name, value in (("previous", previous), ("digest", digest)):
        if len(value) != _DIGEST_BYTES:
            raise ValueError(f"{name} has {len(value)} bytes; a SHA-256 digest has 32")
    return hashlib.sha256(_LINK + previous + digest).digest()


def first_broken_link(experiment_id: str, links: Iterable[tuple[bytes, bytes]]) -> int | None:
    """The position of the first (digest, link) that does not follow from those before it."""
    previous = genesis(experiment_id)
    for position, (digest, stored) in enumerate(links):
        previous = link(previous, digest)
        if previous != stored:
            return position
    return None


def ledger_hash(rows: Iterable[Row]) -> str:
    """SHA-256, in hexadecimal, over the entries sorted by round, release, kind and observer.

    Raises ValueError where two entries share all four.
    """
    ordered = sorted(rows)
    total = hashlib.sha256(_LEDGER)
    before: tuple[int, int, str, str] | None = None
    for round_, release, subject_kind, observer, digest in ordered:
        key = (round_, release, subject_kind, observer)
        if key == before:
            raise ValueError(f"two entries share round, release, subject kind and observer {key}")
        before = key
        total.update(struct.pack("<QQ", round_, release))
        for text in (subject_kind.encode("utf-8"), observer.encode("utf-8"), digest):
            total.update(struct.pack("<I", len(text)))
            total.update(text)
    return total.hexdigest()
