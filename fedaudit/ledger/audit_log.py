"""The audit log as whoever verifies it reads it: links recomputed, heads signed and checked.

The chain shows that no entry was altered, removed from the middle, put in between or moved after
its link was written. It cannot show that the newest entries were cut off, nor that the whole log
was written anew: a signed head that was kept elsewhere does.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import rfc8785

from fedaudit.ledger.ed25519 import SigningKey
from fedaudit.ledger.envelope import Envelope

HEAD_TYPE = "application/vnd.fedaudit.audit-log-head+json"
VERSION = 1

_GENESIS = b"fedaudit-audit-log-genesis-1\x00"
_LINK = b"fedaudit-audit-log-link-1\x00"
_CONTENT = (
    "number",
    "at",
    "action",
    "subject",
    "origin",
    "key_id",
    "key_name",
    "person",
    "details",
)


@dataclass
class AuditChain:
    """Where a project's log stands after the entries that were read so far."""

    project_id: str
    entries: int = 0
    link: str = ""
    """In hexadecimal."""

    def __post_init__(self) -> None:
        """Begins before the first entry, unless another place is given."""
        if not self.link:
            start = hashlib.sha256(_GENESIS + self.project_id.encode("utf-8", "replace"))
            self.link = start.hexdigest()

    def read(self, entry: Mapping[str, Any]) -> None:
        """The next entry, as `GET /v1/audit-log` shows it.

        Raises ValueError where it does not follow, or is not what was linked.
        """
        try:
            content = {name: entry[name] for name in _CONTENT}
            number, stated = content["number"], entry["link"]
            canonical = rfc8785.dumps(content)
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"entry {self.entries + 1} has another form") from None
        if number != self.entries + 1:
            raise ValueError(f"entry {self.entries + 1} is missing")
        link = hashlib.sha256(_LINK + bytes.fromhex(self.link) + canonical).hexdigest()
        if link != stated:
            raise ValueError(f"entry {number} was altered, or one before it")
        self.entries, self.link = number, link


@dataclass(frozen=True, kw_only=True)
class SignedHead:
    """How many entries a project's log had at least, and the link of the last of them."""

    project_id: str
    entries: int
    link: str
    signed_at: str
    """By the signer's clock, in UTC."""

    def sign(self, key: SigningKey) -> Envelope:
        """Canonical JSON (RFC 8785) in an envelope, signed by the service."""
        return Envelope.sign(
            HEAD_TYPE, rfc8785.dumps({"audit_head_version": VERSION, **asdict(self)}), key
        )

    @classmethod
    def of(cls, envelope: Envelope) -> "SignedHead":
        """The content of an envelope; the signature is not checked here.

        Raises ValueError where it does not hold a head of this version.
        """
        if envelope.payload_type != HEAD_TYPE:
            raise ValueError(f"has the payload type {envelope.payload_type[:80]!r}")
        try:
            value = json.loads(envelope.payload)
        except (ValueError, RecursionError):
            raise ValueError("has a payload that is no JSON") from None
        names = set(cls.__dataclass_fields__)
        if not isinstance(value, dict) or set(value) != {"audit_head_version", *names}:
            raise ValueError("lacks a field of a head, or has another one")
        texts = all(isinstance(value[name], str) for name in names - {"entries"})
        whole = type(value["entries"]) is int and value["entries"] >= 1
        if value.pop("audit_head_version") != VERSION or not texts or not whole:
            raise ValueError(f"is no head of version {VERSION}")
        return cls(**value)
