"""What a declared round states beside its entries, as the chain holds it.

An entry says who was charged for what. Counts of groups, how many failed, what was reserved and who
was drawn in secret stand in rows of their own; the links of the round's entries hold a hash of
these. It is keyed with 32 random bytes that leave the database in no bundle: counts are small
numbers, so that a plain hash would tell whoever tries them all.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from fedaudit.privacy.declared.drawn import Drawn

SECRET_BYTES = 32
_VERSION = 1


class Declared(Protocol):
    """A declared round as it is stored."""

    round: Any
    content_hash: Any
    event: Any
    participants: Any
    failures: Any
    over_budget: Any
    reserved: Any
    groups: Any
    drawn: Any
    declared_at: Any


def declaration_of(one: Declared, secret: bytes) -> bytes:
    """The 32 bytes that the links of a round's entries hold. Raises ValueError for a secret of
    another length, since keys of other lengths may collide."""
    at: datetime = one.declared_at
    return _keyed(
        secret,
        {
            "declaration_version": _VERSION,
            "round": one.round,
            "content_hash": one.content_hash,
            "event": one.event,
            "participants": one.participants,
            "failures": one.failures,
            "over_budget": one.over_budget,
            "reserved": one.reserved,
            "groups": one.groups or None,
            "drawn": one.drawn,
            "declared_at": at.isoformat(),
        },
    )


def drawn_hash(drawn: Drawn, secret: bytes) -> str:
    """Who was drawn in secret, and in how many rounds, in hexadecimal. Raises ValueError as
    above."""
    counted = [[name, int(count)] for name, count in zip(drawn.names, drawn.counts, strict=True)]
    return _keyed(secret, {"drawn_version": _VERSION, "drawn": counted}).hex()


def _keyed(secret: bytes, value: Mapping[str, Any]) -> bytes:
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"the ledger's secret has {len(secret)} bytes; it has {SECRET_BYTES}")
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hmac.digest(secret, text.encode("ascii"), hashlib.sha256)
