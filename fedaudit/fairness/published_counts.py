"""The counts that published rates are made from: exact, rounded at random, or with noise.

Rounding is at random to multiples of a base, as statistical offices do. A count x becomes base *
floor((x + o) / base) with an offset o from 0 to base - 1, each as likely: its mean is x, multiples
stay, and a part never passes its whole. The offset follows from a secret key and from *whose rows*
are counted, so that the same rows get the same offset in every report, round and attribute, and no
number of reports averages it away. Positives and negatives of a group, by truth, have an offset
each: what is counted of them by any model is rounded by the same one, and the sums over predictions
agree.

Whatever is published of held-out people goes by one of these three. Exact counts give themselves
back from exact rates; rounded ones do so to within the base; what is computed from counts with
noise is covered by the noise's epsilon, whatever it is, and nothing else of these people is
published beside it.
"""

import hashlib
import hmac
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.population import Population
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


def rounder_of(
    people: Population, favourable: NDArray[np.bool_], *, base: int, key: bytes, data: bytes
) -> Rounder:
    """The rounder of the people who are scored; `key` is secret.

    `favourable` [rows]: whether the true outcome is; `data`: within what the rows' numbers mean the
    same; rows may share a number. Offsets follow from the rows that are scored and from their true
    outcomes alone, so that a split or a rule that is written otherwise and means the same people
    rounds them alike. Raises ValueError where rows have no numbers.
    """
    if people.row_ids is None:
        raise ValueError("rows without numbers cannot be told apart")
    ids = people.row_ids
    groups = {}
    for name, codes in people.codes.items():
        members = [codes == group for group in range(people.groups[name])]
        groups[name] = [
            GroupRows(
                rows=_digest(ids[own]),
                positives=_digest(ids[own & favourable]),
                negatives=_digest(ids[own & ~favourable]),
            )
            for own in members
        ]
    return Rounder(base=base, key=key, population=data, groups=groups)


def _digest(ids: NDArray[np.int64]) -> bytes:
    return hashlib.sha256(np.sort(ids).astype("<i8").tobytes()).digest()


_LADDER = (1, 2, 5, 10)
_SAME = 1e-9
"""Of a step: a figure that lies on one stays there, whatever its last bits."""


def step_of(rows: int, *, base: int) -> float:
    """The width of steps for shares of so many rows: what `base` rows make, or a little more.

    One, two or five times a power of ten; 1 for fewer rows than the base.
    """
    if rows <= base:
        return 1.0
    least = base / rows
    power = 10.0 ** math.floor(math.log10(least))
    return min(1.0, next(power * one for one in _LADDER if power * one >= least * (1 - _SAME)))


def nearest(value: float, step: float) -> float:
    """The nearest whole number of steps."""
    return without_dust(round(value / step) * step)


def outward(low: float, high: float, step: float) -> tuple[float, float]:
    """The interval widened to whole numbers of steps."""
    return (
        without_dust(math.floor(low / step + _SAME) * step),
        without_dust(math.ceil(high / step - _SAME) * step),
    )


def digit_step(value: float) -> float:
    """The step of two significant digits."""
    if value == 0 or not math.isfinite(value):
        return 1.0
    return float(10.0 ** (math.floor(math.log10(abs(value))) - 1))


def without_dust(value: float) -> float:
    """A step, or a difference of decimals, without what binary makes of it: it says nothing, and
    looks exact."""
    return float(f"{value:.12g}")


Counts = NDArray[np.int64]
"""[groups, 4], as in `fedaudit.fairness.metrics`."""


@dataclass(frozen=True)
class ExactCounts:
    """Counts are used as they are."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisedCounts:
    """Counts of all attributes with noise, pooled over clients."""

    counts: Mapping[str, Counts]
    """Per attribute; may be negative."""
    deviation: float
    """Standard deviation of the noise on each count, at most."""
    tail: Literal["discrete-laplace", "gaussian"]
    max_rows: int
    """Of one unit: so many rows may be alike."""


@dataclass(frozen=True, eq=False)
class RoundedCounts:
    """Counts are rounded at random, and what is derived otherwise is given in wide steps."""

    rounder: Rounder


PublishedCounts = ExactCounts | RoundedCounts | NoisedCounts


def bounded_counts(
    client_counts: NDArray[np.int64], *, max_rows: int, generator: np.random.Generator
) -> Counts:
    """Counts [groups, 4] over clients [clients, groups, 4] of which at most so many rows count.

    Of a client with more, as many as may count are drawn, every choice of them equally likely,
    whatever they hold and whatever other clients have.
    """
    clients, groups, kinds = client_counts.shape
    flat = client_counts.reshape(clients, groups * kinds)
    within = flat.sum(axis=1) <= max_rows
    total: NDArray[np.int64] = flat[within].sum(axis=0)
    for counts in flat[~within]:
        total = total + generator.multivariate_hypergeometric(
            counts, max_rows, method="marginals"
        ).astype(np.int64)
    return total.reshape(groups, kinds)


def plausible(counts: Counts) -> Counts:
    """Counts with noise as counts that rates can be made of: none below 0."""
    found: Counts = np.maximum(counts, 0)
    return found
