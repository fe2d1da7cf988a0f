"""Ledgers whose clients' names were erased, and the signed statement that stands for the names.

The digest of an entry covers the names of its subjects, so without them it cannot be computed
anew. Before the service forgets them it does so a last time, and states, signed, what it found
together with a hash of the same entries under made-up names: under these they can be checked ever
after. The original digests stay in the chain, which still leads to the signed checkpoints. A salt
that they are keyed with is forgotten with the names, so that nobody can try names on them.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import rfc8785

from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.chain import LedgerHash
from fedaudit.ledger.checkpoints import subjects_hash
from fedaudit.ledger.ed25519 import SigningKey
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.envelope import Envelope
from fedaudit.ledger.rows import StoredRow

PAYLOAD_TYPE = "application/vnd.fedaudit.erased-names+json"
VERSION = 1
STANDS_FOR_ALL = "everyone"
"""Of a ledger that charges all alike: nobody's name."""

_TEXTS = ("experiment_id", "chain_head", "ledger_hash", "subjects_hash", "erased_hash", "erased_at")


@dataclass(frozen=True, kw_only=True)
class ErasedNames:
    """What a ledger was when its clients' names were erased. Hashes are in hexadecimal."""

    experiment_id: str
    entries: int
    chain_head: str
    ledger_hash: str
    """Both as recomputed with the names."""
    subjects_hash: str
    """Of the names that were there, as the checkpoints have it."""
    erased_hash: str
    """The ledger hash of the same entries under the made-up names."""
    agreed: bool
    """Whether every entry was then as its digest, its link and its counts said."""
    erased_at: str
    """By the service's clock, in UTC."""

    def sign(self, key: SigningKey) -> Envelope:
        """Canonical JSON (RFC 8785) in an envelope, signed by the service."""
        payload = rfc8785.dumps({"erased_names_version": VERSION, **asdict(self)})
        return Envelope.sign(PAYLOAD_TYPE, payload, key)

    @classmethod
    def of(cls, envelope: Envelope) -> "ErasedNames":
        """The content of an envelope; the signature is not checked here.

        Raises ValueError where it does not hold such a statement of this version.
        """
        if envelope.payload_type != PAYLOAD_TYPE:
            raise ValueError(f"has the payload type {envelope.payload_type[:80]!r}")
        try:
            value = json.loads(envelope.payload)
        except (ValueError, RecursionError):
            raise ValueError("has a payload that is no JSON") from None
        if not isinstance(value, dict) or value.pop("erased_names_version", None) != VERSION:
            raise ValueError(f"is no statement of version {VERSION}")
        if set(value) != set(cls.__dataclass_fields__):
            raise ValueError("lacks a field of a statement, or has another one")
        typed = type(value["entries"]) is int and isinstance(value["agreed"], bool)
        if not typed or not all(isinstance(value[name], str) for name in _TEXTS):
            raise ValueError("has a field of the wrong type")
        return cls(**value)


@dataclass
class ErasingLedger:
    """Reads a ledger a last time with its names, and as it will be without them."""

    experiment_id: str
    names: Sequence[str]
    salt: bytes | None = None

    def __post_init__(self) -> None:
        """Begins before the first entry."""
        self.made_up = made_up_names(self.names)
        self._audit = LedgerAudit(self.experiment_id, self.names, watch=(), salt=self.salt)
        self._encoder = EntryEncoder(self.made_up)
        self._hash = LedgerHash()
        self._hashed = 0

    def read(self, rows: Sequence[StoredRow]) -> None:
        """Take the next rows in."""
        for entries in self._audit.read(rows):
            digests = self._encoder.digests(entries)
            for key, digest in zip(entries.keys, digests, strict=True):
                self._hash.add((*key, digest))
                self._hashed += 1

    def statement(self, *, erased_at: str) -> ErasedNames:
        """What is to be signed, once every row was read."""
        return ErasedNames(
            experiment_id=self.experiment_id,
            entries=self._audit.entries,
            chain_head=self._audit.head.hex(),
            ledger_hash=self._audit.ledger_hash,
            subjects_hash=subjects_hash(self.names),
            erased_hash=self._hash.hexdigest(),
            agreed=self._hashed == self._audit.entries and self._audit.consistent,
            erased_at=erased_at,
        )


def made_up_names(names: Sequence[str]) -> list[str]:
    """As many names that say nothing but a number, in the same places."""
    width = len(str(len(names)))
    return [
        name if name == STANDS_FOR_ALL else f"erased-{place:0{width}d}"
        for place, name in enumerate(names, start=1)
    ]
