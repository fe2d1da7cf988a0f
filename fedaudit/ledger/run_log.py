"""The log of the runs on one federation: a tiled log (C2SP tlog-tiles) of hashes alone.

A run is entered with its spec and gates before its first round, and with each ledger checkpoint
that is signed of it. The tree's head is signed after every entry (C2SP tlog-checkpoint, signed
note): a reader who kept an earlier head sees whether the log goes on from it.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import product
from typing import Self

from fedaudit.ledger.statements import Keyring, PublicKey, SigningKey
from fedaudit.spec.canonical import canonical_json

BEGUN = "begun"
_TILE = 256
_ED25519 = b"\x01"


@dataclass(frozen=True)
class LogEntry:
    """One entry of the log."""

    run: int
    """The how many-th run in the log, from 1."""
    kind: str
    """BEGUN, or the status in a signed checkpoint."""
    digest: str
    """SHA-256 of what was begun, or of the checkpoint's payload, in hexadecimal."""

    def encoded(self) -> bytes:
        """Canonical JSON, as in the log."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode("ascii")


def begun_digest(experiment_id: str, *, spec_hash: str | None, gates: str | None) -> str:
    """Digest that commits a run before its first round; an id has 74 random bits, so no spec can be
    guessed from it. `gates`: the hash of the spec's gates."""
    begun = {"experiment_id": experiment_id, "spec_hash": spec_hash, "gates": gates}
    return hashlib.sha256(canonical_json(begun)).hexdigest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True)
class LogTree:
    """A Merkle tree (RFC 6962) by its size and the roots of its complete subtrees."""

    size: int = 0
    subtrees: tuple[bytes, ...] = ()
    """From the largest, on the left, to the smallest one."""

    @classmethod
    def of(cls, entries: Iterable[bytes]) -> Self:
        """The tree with these entries."""
        return reduce(cls.with_entry, entries, cls())

    @classmethod
    def restored(cls, size: int, subtrees: bytes) -> Self:
        """A tree that was stored."""
        width = hashlib.sha256().digest_size
        starts = range(0, len(subtrees), width)
        return cls(size, tuple(subtrees[start : start + width] for start in starts))

    def with_entry(self, entry: bytes) -> Self:
        """The tree with one more entry."""
        return self.with_leaf(hashlib.sha256(b"\x00" + entry).digest())

    def with_leaf(self, leaf: bytes) -> Self:
        """The tree with one more leaf."""
        subtrees, size = list(self.subtrees), self.size
        while size & 1:
            leaf, size = _node(subtrees.pop(), leaf), size >> 1
        return type(self)(self.size + 1, (*subtrees, leaf))

    @property
    def root(self) -> bytes:
        """The tree's head."""
        if not self.subtrees:
            return hashlib.sha256().digest()
        *others, root = self.subtrees
        for left in reversed(others):
            root = _node(left, root)
        return root


@dataclass(frozen=True)
class LogHead:
    """How large a log was, and its root: what is signed, and cosigned by witnesses."""

    origin: str
    size: int
    root: bytes

    def signed(self, key: SigningKey) -> str:
        """A signed note of it."""
        stamp = _key_hash(self.origin, key.public) + key.sign(self._body().encode())
        return f"{self._body()}\n\u2014 {self.origin} {b64encode(stamp).decode()}\n"

    def _body(self) -> str:
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n"

    @classmethod
    def read(cls, note: object, keyring: Keyring) -> tuple[Self, PublicKey]:
        """The head in a note, and the known key that signed it; other signatures are ignored.
        Raises ValueError where there is no head, or no known key signed it."""
        try:
            body, _, signatures = str(note).partition("\n\n")
            origin, size, root = body.split("\n")
            head = cls(origin, int(size), b64decode(root, validate=True))
            stamps = [line.split(" ") for line in signatures.splitlines()]
            mine = [b64decode(stamp) for _, name, stamp in stamps if name == origin]
        except ValueError:
            raise ValueError("is no signed note") from None
        for stamp, key in product(mine, keyring.known()):
            # Only the one way to write a head counts: what is signed is what is compared.
            signs = stamp[:4] == _key_hash(origin, key) and head._body() == f"{body}\n"
            if signs and key.verifies(stamp[4:], head._body().encode()):
                return head, key
        raise ValueError("was signed by no known key, or was altered")


def _key_hash(name: str, key: PublicKey) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + key.raw).digest()[:4]


def tiles(entries: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
    """The files of a static log, by their paths, but for its `checkpoint`."""
    for start in range(0, len(entries), _TILE):
        some = entries[start : start + _TILE]
        content = b"".join(len(one).to_bytes(2, "big") + one for one in some)
        yield _path("entries", start // _TILE, len(some)), content
    level, hashes = 0, [LogTree.of([one]).root for one in entries]
    while hashes:
        whole = []
        for start in range(0, len(hashes), _TILE):
            some = hashes[start : start + _TILE]
            yield _path(str(level), start // _TILE, len(some)), b"".join(some)
            if len(some) == _TILE:
                whole.append(reduce(LogTree.with_leaf, some, LogTree()).root)
        level, hashes = level + 1, whole


def _path(level: str, number: int, width: int) -> str:
    groups = [f"{number % 1000:03}"]
    while number := number // 1000:
        groups.insert(0, f"x{number % 1000:03}")
    partial = "" if width == _TILE else f".p/{width}"
    return f"tile/{level}/{'/'.join(groups)}{partial}"
