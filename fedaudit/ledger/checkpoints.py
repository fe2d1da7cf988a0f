"""Checkpoints: signed statements of how many entries a ledger had, and where its chain stood.

A hash chain does not show that its newest entries were deleted; a checkpoint that counts them does.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import rfc8785

from fedaudit.ledger.ed25519 import SigningKey
from fedaudit.ledger.envelope import Envelope

PAYLOAD_TYPE = "application/vnd.fedaudit.checkpoint+json"
VERSION = 1
STATUSES = ("running", "succeeded", "failed", "cancelled")
WORKER = "worker"
"""The witness is a worker, which had the ledger in memory when it was signed: from its first entry
on, or from a state that a worker had signed before."""
DATABASE = "database"
"""The witness of some entries is the database alone: anyone able to change it could decide what was
signed."""
TRAINER = "trainer"
"""The witness is a trainer elsewhere, which was told the head behind each of its rounds."""
_WITNESSES = (WORKER, DATABASE, TRAINER)
_OPTIONAL = {"witness", "state_hash", "salt_hash"}


@dataclass(frozen=True)
class Checkpoint:
    """Where the ledger of one experiment stood. Hashes are in hexadecimal."""

    experiment_id: str
    status: str
    """One of STATUSES."""
    entries: int
    """How many ledger entries there were."""
    last_round: int
    """The round of the newest entry; 0 without any."""
    chain_head: str
    """The link of the newest entry, or the experiment's genesis."""
    spec_hash: str
    subjects_hash: str
    """See `subjects_hash`."""
    witness: str | None = WORKER
    """Which witness it was signed from; None in older checkpoints."""
    state_hash: str | None = None
    """Of a declared ledger, what its figures were made from (`fedaudit.ledger.declared_state`);
    None in older checkpoints and of runs."""
    salt_hash: str | None = None
    """Of the salt that the entries' digests are keyed with; None where they are not."""

    def sign(self, key: SigningKey) -> Envelope:
        """The checkpoint in an envelope: canonical JSON (RFC 8785), signed."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        payload = rfc8785.dumps({"checkpoint_version": VERSION, **fields})
        return Envelope.sign(PAYLOAD_TYPE, payload, key)

    @classmethod
    def of(cls, envelope: Envelope) -> "Checkpoint":
        """The content of an envelope; the signature is not checked here.

        Raises ValueError where it does not hold a checkpoint of this version.
        """
        if envelope.payload_type != PAYLOAD_TYPE:
            raise ValueError(f"has the payload type {envelope.payload_type[:80]!r}")
        try:
            value = json.loads(envelope.payload)
        except (ValueError, RecursionError):
            raise ValueError("has a payload that is no JSON") from None
        if not isinstance(value, dict) or value.pop("checkpoint_version", None) != VERSION:
            raise ValueError(f"is no checkpoint of version {VERSION}")
        older = _OPTIONAL - set(value)
        if set(value) | older != set(cls.__dataclass_fields__) or not _well_typed(value):
            raise ValueError("lacks a field, or has one of the wrong type")
        return cls(**{"witness": None, **value})


def subjects_hash(names: Sequence[str]) -> str:
    """SHA-256, in hexadecimal, of the subjects' names by index, as canonical JSON (RFC 8785).

    Raises ValueError for a name that has no UTF-8.
    """
    # For a list of texts this is the canonical form, and a hundred times faster.
    text = json.dumps(list(names), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def growing_hashes(names: Sequence[str]) -> Iterator[str]:
    """`subjects_hash` of the first name, of the first two, and so on.

    Raises ValueError for a name that has no UTF-8.
    """
    total, between = hashlib.sha256(b"["), b""
    for name in names:
        total.update(between + json.dumps(name, ensure_ascii=False).encode("utf-8"))
        between = b","
        closed = total.copy()
        closed.update(b"]")
        yield closed.hexdigest()


def _well_typed(value: dict[str, Any]) -> bool:
    counts = ("entries", "last_round")
    known = value["status"] in STATUSES and value.get("witness", WORKER) in _WITNESSES
    return known and all(
        (type(one) is int and one >= 0) if name in counts else isinstance(one, str)
        for name, one in value.items()
    )
