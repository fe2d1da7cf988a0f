"""The chain of a project's audit log, and the signed head that says how many entries it had."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedaudit.ledger.statements import Number, Statement
from fedaudit.spec.canonical import canonical_json

_AUDIT_GENESIS = b"fedaudit-audit-log-genesis-1\x00"
_AUDIT_LINK = b"fedaudit-audit-log-link-1\x00"
_AUDIT_CONTENT = (
    *("number", "at", "action", "subject", "origin"),
    *("key_id", "key_name", "person", "details"),
)


@dataclass
class AuditChain:
    """The state of a project's audit log after the entries that were read so far.

    The chain shows that no entry was altered, removed from the middle, put in between or moved
    after its link was written. It cannot show that the newest entries were cut off, nor that the
    whole log was written anew: a signed head that was kept elsewhere does.
    """

    project_id: str
    entries: int = 0
    link: str = ""
    """In hexadecimal; by default that before the first entry."""

    def __post_init__(self) -> None:
        if not self.link:
            start = hashlib.sha256(_AUDIT_GENESIS + self.project_id.encode("utf-8", "replace"))
            self.link = start.hexdigest()

    def read(self, entry: Mapping[str, Any]) -> None:
        """The next entry, as `GET /v1/audit-log` shows it.

        Raises ValueError where it does not follow, or is not what was linked.
        """
        try:
            content = {name: entry[name] for name in _AUDIT_CONTENT}
            number, stated = content["number"], entry["link"]
            canonical = canonical_json(content)
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"entry {self.entries + 1} has another form") from None
        if number != self.entries + 1:
            raise ValueError(f"entry {self.entries + 1} is missing")
        link = hashlib.sha256(_AUDIT_LINK + bytes.fromhex(self.link) + canonical).hexdigest()
        if link != stated:
            raise ValueError(f"entry {number} was altered, or one before it")
        self.entries, self.link = number, link


@dataclass(frozen=True, kw_only=True)
class SignedHead(Statement):
    """How many entries a project's audit log had at least, and the link of the last of them."""

    NAME = "audit-log-head"

    project_id: str
    entries: Number
    link: str
    signed_at: str
    """By the signer's clock, in UTC."""

    @classmethod
    def _version_field(cls) -> str:
        return "audit_head_version"
