"""Counts rounded at random to multiples of a base, as statistical offices do.

A count x becomes base * floor((x + o) / base) with an offset o from 0 to base - 1, each as likely:
its mean is x, multiples stay, and a part never passes its whole. The offset follows from a secret
key and from *whose rows* are counted, so that the same rows get the same offset in every report,
round and attribute, and no number of reports averages it away. Positives and negatives of a group,
by truth, have an offset each: what is counted of them by any model is rounded by the same one, and
the sums over predictions agree.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.spec.metrics import COUNTS

Of = Literal["positives", "negatives", "right", "rows", "clients"]
"""What is counted of a group; each has an offset of its own."""
_DOMAIN = b"fedaudit-rounding-1\x00"
_TP, _FP, _TN, _FN = range(len(COUNTS))


@dataclass(frozen=True, kw_only=True)
class GroupRows:
    """Digests of the rows of a group, and of those with either true outcome."""

    rows: bytes
    positives: bytes
    negatives: bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class Rounder:
    """Rounds the counts of one run."""

    base: int
    key: bytes
    """Secret."""
    population: bytes
    """Identifies the data, and by what its rows are numbered."""
    groups: Mapping[str, Sequence[GroupRows]]
    """Per attribute, the rows of each group."""

    def counts(self, attribute: str, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of counts [..., groups, 4]: multiples of the base, in the same places."""
        positives = counts[..., _TP] + counts[..., _FN]
        negatives = counts[..., _FP] + counts[..., _TN]
        found = np.empty_like(counts)
        found[..., _TP] = self.numbers(attribute, counts[..., _TP], of="positives")
        found[..., _FP] = self.numbers(attribute, counts[..., _FP], of="negatives")
        found[..., _FN] = self.numbers(attribute, positives, of="positives") - found[..., _TP]
        found[..., _TN] = self.numbers(attribute, negatives, of="negatives") - found[..., _FP]
        return found

    def numbers(self, attribute: str, numbers: NDArray[np.int64], *, of: Of) -> NDArray[np.int64]:
        """Of one number for each group [..., groups]."""
        offsets = [self._offset(group, of) for group in self.groups[attribute]]
        found: NDArray[np.int64] = (numbers + np.array(offsets)) // self.base * self.base
        return found

    def _offset(self, group: GroupRows, of: Of) -> int:
        """From 0 to base - 1; uneven by 2^-64 times the base at most."""
        match of:
            case "positives":
                whose, what = group.positives, b"outcomes"
            case "negatives":
                whose, what = group.negatives, b"outcomes"
            case "right" | "rows" | "clients":
                whose, what = group.rows, of.encode()
            case _:
                assert_never(of)
        message = b"".join((_DOMAIN, _framed(self.population), _framed(whose), what))
        word = hmac.new(self.key, message, hashlib.sha256).digest()[:8]
        return int.from_bytes(word, "big") % self.base


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part
