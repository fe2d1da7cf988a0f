"""One hash of all that the figures of a declared ledger are made from, for signed checkpoints.

Whoever signs again begins at a checkpoint: what the database holds, less what the entries since
then charged, must be what was signed there. So a tally, a count or a round that was changed after
it was signed is never signed again, and nobody charges a whole ledger anew every ten seconds.
"""

import hashlib
import hmac
import json
import struct
from collections.abc import Iterable

from fedaudit.ledger.chain import LedgerHash, Row
from fedaudit.ledger.declarations import Declared, declaration_of
from fedaudit.privacy.declared.histories import Counts, Tally

_STATE = b"fedaudit-declared-state-1\x00"


class RoundsSoFar:
    """Takes a ledger's rounds and its entries' digests, in their order."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._declarations = hashlib.sha256()
        self._ledger = LedgerHash()

    def add_round(self, one: Declared) -> bytes:
        """The next round; returns its declaration."""
        found = declaration_of(one, self._secret)
        self._declarations.update(found)
        return found

    def add_entry(self, row: Row) -> None:
        """The key and the digest of the next entry."""
        self._ledger.add(row)

    @property
    def ledger_hash(self) -> str:
        """Of the entries so far."""
        return self._ledger.hexdigest()

    def state_hash(self, tallies: Iterable[Tally]) -> str:
        """Of the rounds so far, their entries and these tallies, in hexadecimal."""
        hashed = hashlib.sha256()
        for one in tallies:
            charged = json.dumps(one.charge.as_dict(), sort_keys=True).encode("ascii")
            counts = significant(one).astype("<i8").tobytes()
            hashed.update(struct.pack("<QQQ", len(charged), one.rounds, len(counts)))
            hashed.update(charged + counts)
        parts = (self._declarations.digest(), bytes.fromhex(self.ledger_hash), hashed.digest())
        return hmac.digest(self._secret, _STATE + b"".join(parts), hashlib.sha256).hex()


def significant(tally: Tally) -> Counts:
    """The counts that mean something: up to the last subject that was charged, and of what everyone
    pays for the first alone."""
    counts = tally.counts[:1] if tally.charge.everyone else tally.counts
    charged = counts.nonzero()[0]
    return counts[: charged[-1] + 1] if len(charged) else counts[:0]
