"""The chain of a project's audit log, and the signed head that says how many entries it had."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from fedaudit.ledger.statements import Envelope, Number, PublicKey, Statement
from fedaudit.spec.canonical import canonical_json

_AUDIT_GENESIS = b"fedaudit-audit-log-genesis-1\x00"
_AUDIT_LINK = b"fedaudit-audit-log-link-1\x00"
_AUDIT_CONTENT = (
    *("number", "at", "action", "subject", "origin"),
    *("key_id", "key_name", "person", "details"),
)


@dataclass
class AuditChain:
    """The state of a project's audit log after the entries read so far.

    The chain shows that no entry was altered, removed from the middle, inserted or moved after its
    link was written. It cannot show that the newest entries were cut off, or that the whole log was
    rewritten: only a signed head that was kept elsewhere shows that.
    """

    project_id: str
    entries: int = 0
    link: str = ""
    """Hexadecimal; by default the link before the first entry."""

    def __post_init__(self) -> None:
        if not self.link:
            start = hashlib.sha256(_AUDIT_GENESIS + self.project_id.encode("utf-8", "replace"))
            self.link = start.hexdigest()

    def read(self, entry: Mapping[str, Any]) -> None:
        """Read the next entry, in the form of `GET /v1/audit-log`. Raises ValueError where it does
        not follow, or is not what was linked."""
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
    def read(cls, value: Any, *, keys: Iterable[PublicKey] | None) -> Self:
        """The head in an envelope; without keys its signature is not checked. Raises ValueError for
        any other content, and for a signature by none of the keys."""
        envelope = Envelope.from_dict(value)
        if keys is not None and not any(
            one.key_id == envelope.key_id and one.verifies(envelope.signature, envelope.message)
            for one in keys
        ):
            raise ValueError("is not signed by a known key")
        return cls.of(envelope)

    @classmethod
    def _version_field(cls) -> str:
        return "audit_head_version"


def chain_faults(
    chain: AuditChain, entries: Iterable[Mapping[str, Any]], heads: Mapping[str, SignedHead]
) -> list[str]:
    """Read all entries of a log; list the entries that do not follow, and the named heads that do
    not fit."""
    wanted, faults, links = {head.entries for head in heads.values()}, [], {0: chain.link}
    try:
        for entry in entries:
            chain.read(entry)
            if chain.entries in wanted:
                links[chain.entries] = chain.link
    except ValueError as error:
        faults.append(str(error))
    for what, head in heads.items():
        if head.project_id != chain.project_id:
            faults.append(f"{what} is another project's")
        elif head.entries not in links:
            faults.append(f"{what} covers {head.entries} entries, and {chain.entries} hold")
        elif links[head.entries] != head.link:
            faults.append(f"entry {head.entries} is not the one that {what} covers")
    return faults
