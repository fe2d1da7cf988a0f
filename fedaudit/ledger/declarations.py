"""What a declared round states beside its entries, as the chain holds it.

An entry says who was charged for what. Counts of groups, how many failed, what was reserved and to
whom it was refused, and who was drawn in secret stand in rows of their own; the links of the
round's entries hold a hash of these. It is keyed with 32 random bytes that leave the database in no
bundle: counts are small numbers, so that a plain hash would tell whoever tries them all.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from fedaudit.privacy.declared.drawn import Drawn

SECRET_BYTES = 32
_VERSION = 1
_WITH_RESERVATIONS = 2


class Declared(Protocol):
    """A declared round as it is stored."""

    round: Any
    content_hash: Any
    event: Any
    participants: Any
    failures: Any
    over_budget: Any
    reserved: Any
    reservations: Any
    groups: Any
    drawn: Any
    declared_at: Any


class Reserved(Protocol):
    """What was reserved for one round, as it is stored."""

    round: Any
    event: Any
    admitted: Any
    denied: Any
    replaced: Any
    reserved_at: Any


def declaration_of(one: Declared, secret: bytes) -> bytes:
    """The 32 bytes that the links of a round's entries hold. Raises ValueError for a secret of
    another length, since keys of other lengths may collide."""
    at: datetime = one.declared_at
    chained: dict[str, Any] = {"declaration_version": _VERSION}
    if one.reservations is not None:
        chained = {"declaration_version": _WITH_RESERVATIONS, "reservations": one.reservations}
    return _keyed(
        secret,
        {
            **chained,
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


def reservations_hash(reserved: Sequence[Reserved], secret: bytes) -> str:
    """What was reserved, for whom it was granted and to whom it was refused, in hexadecimal. Of
    rounds that nobody can reserve any more. Raises ValueError as above."""
    return _keyed(
        secret,
        {
            "reservations_version": _VERSION,
            "reservations": [
                {
                    "round": one.round,
                    "event": one.event,
                    "admitted": one.admitted,
                    "denied": one.denied,
                    "replaced": one.replaced,
                    "reserved_at": one.reserved_at.isoformat(),
                }
                for one in reserved
            ],
        },
    ).hex()


def changed_reservations(
    rounds: Sequence[Declared], reserved: Sequence[Reserved], secret: bytes
) -> Iterator[int]:
    """The rounds, of all in order, whose chained reservations are not those that are stored.
    Reservations behind the last round are in no chain yet. Raises ValueError as above."""
    before, place = 0, 0
    for one in rounds:
        mine = []
        while place < len(reserved) and reserved[place].round <= one.round:
            if reserved[place].round > before:
                mine.append(reserved[place])
            place += 1
        if one.reservations is not None and one.reservations != reservations_hash(mine, secret):
            yield one.round
        before = one.round


def _keyed(secret: bytes, value: Mapping[str, Any]) -> bytes:
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"the ledger's secret has {len(secret)} bytes; it has {SECRET_BYTES}")
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hmac.digest(secret, text.encode("ascii"), hashlib.sha256)
