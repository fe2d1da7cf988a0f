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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, assert_never

import numpy as np

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.fairness.gaps import RATE_COUNTS
from fedaudit.fairness.intervals import Interval, compared_pairs, gap_range
from fedaudit.fairness.joint_disclosure import Population
from fedaudit.spec.metrics import COUNTS, METRICS, Kind

Of = Literal["positives", "negatives", "right", "rows", "clients"]
"""What is counted of a group; each has its offset."""
EVERYBODY = ""
"""The attribute, which no other is named like, in whose one group all scored rows are."""
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
    """Rounds the counts of one run; what is derived otherwise is given in wide steps."""

    base: int
    key: bytes
    """Secret."""
    population: bytes
    """Identifies the data, and by what its rows are numbered."""
    groups: Mapping[str, Sequence[GroupRows]]

    def counts(self, attribute: str, counts: Ints) -> Ints:
        """Round counts [..., groups, 4] to multiples of the base, in the same places."""
        positives = counts[..., _TP] + counts[..., _FN]
        negatives = counts[..., _FP] + counts[..., _TN]
        found = np.empty_like(counts)
        found[..., _TP] = self.numbers(attribute, counts[..., _TP], of="positives")
        found[..., _FP] = self.numbers(attribute, counts[..., _FP], of="negatives")
        found[..., _FN] = self.numbers(attribute, positives, of="positives") - found[..., _TP]
        found[..., _TN] = self.numbers(attribute, negatives, of="negatives") - found[..., _FP]
        return found

    def numbers(self, attribute: str, numbers: Ints, *, of: Of) -> Ints:
        """Round one number for each group [..., groups]."""
        offsets = [self._offset(group, of) for group in self.groups[attribute]]
        found: Ints = (numbers + np.array(offsets)) // self.base * self.base
        return found

    def _offset(self, group: GroupRows, of: Of) -> int:
        """An offset from 0 to base - 1; uneven by 2^-64 times the base at most."""
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
    people: Population, favourable: Bools, *, base: int, key: bytes, data: bytes
) -> Rounder:
    """The rounder of the people who are scored; `key` is secret.

    `favourable` [rows]: whether the true outcome is; `data`: within what the rows' numbers mean the
    same; rows may share a number. Offsets follow from the rows that are scored and from their true
    outcomes alone, so that a split or a rule that is written otherwise and means the same people
    rounds them alike. Raises ValueError where rows have no numbers.
    """
    if people.row_ids is None:
        raise ValueError("rows without numbers cannot be rounded consistently")
    ids = people.row_ids
    groups = {}
    for name, codes in {EVERYBODY: np.zeros_like(ids), **people.codes}.items():
        members = [codes == group for group in range(people.groups.get(name, 1))]
        groups[name] = [
            GroupRows(
                rows=_digest(ids[own]),
                positives=_digest(ids[own & favourable]),
                negatives=_digest(ids[own & ~favourable]),
            )
            for own in members
        ]
    return Rounder(base=base, key=key, population=data, groups=groups)


def _digest(ids: Ints) -> bytes:
    return hashlib.sha256(np.sort(ids).astype("<i8").tobytes()).digest()


ROUNDED_AWAY = "rounding leaves nothing of it: it is a share of too few rows"
"""Why a figure in steps of 1 is not shown."""


Counts = Ints
"""[groups, 4], as in `fedaudit.fairness.gaps`."""


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
    """The most rows of one unit: that many may be alike."""


PublishedCounts = ExactCounts | Rounder | NoisedCounts


def bounded_counts(client_counts: Ints, *, max_rows: int, generator: np.random.Generator) -> Counts:
    """Counts [groups, 4] over clients [clients, groups, 4] of whose rows at most `max_rows` count.
    From a client with more, that many are drawn, every choice equally likely, whatever the rows
    hold and whatever other clients have."""
    clients, groups, kinds = client_counts.shape
    flat = client_counts.reshape(clients, groups * kinds)
    within = flat.sum(axis=1) <= max_rows
    total: Ints = flat[within].sum(axis=0)
    for counts in flat[~within]:
        total = total + generator.multivariate_hypergeometric(
            counts, max_rows, method="marginals"
        ).astype(np.int64)
    return total.reshape(groups, kinds)


_PLACES = np.linspace(0.0, 1.0, 4001)
"""The rates that are tried; ends are moved outward to the next one."""
_DIFFERENCES = np.linspace(-1.0, 1.0, 8001)
METHOD = "noised-counts"
_APART: Mapping[Kind, Callable[[Floats, Floats], Floats]] = {
    "difference": np.subtract,
    "ratio": np.divide,
}

Bounds = tuple[Floats, Floats]
"""Lower and upper ends, [groups] each."""


def noised_intervals(
    counts: Ints, noised: NoisedCounts, shown: Bools, *, reference: int | None, level: float
) -> dict[str, Interval | str]:
    """The interval of each of METRICS, from counts with noise [groups, 4] as they were drawn.
    `shown` [groups]: the groups compared. `level`: coverage of the population's gap, at least."""
    pairs = compared_pairs(shown, reference)
    if not pairs.any():
        return dict.fromkeys(METRICS, "fewer than two groups are left to compare")
    found = dict[str, Interval | str]()
    for name, metric in METRICS.items():
        rates = metric.family.rates
        # Of all groups: noise took part in deciding which of them are shown.
        share = (1 - level) / (len(rates) * len(counts))
        bounds = [rate_bounds(counts, rate, noised, share=share) for rate in rates]
        apart = _APART[metric.kind]
        lower = [apart(low[shown][:, np.newaxis], high[shown])[pairs] for low, high in bounds]
        found[name] = gap_range(np.concatenate(lower), metric.kind)
    return found


def rate_bounds(counts: Ints, rate: str, noised: NoisedCounts, *, share: float) -> Bounds:
    """An interval of one of RATES for each group, which misses with a chance of `share` at most."""
    above, within = RATE_COUNTS[rate]
    below = within - above
    over, rest = (counts @ above)[:, np.newaxis], (counts @ below)[:, np.newaxis]
    wide, noise = _critical(share, noised), noised.deviation**2
    rows = np.maximum(0.0, over + rest + wide * np.sqrt(noise * within.sum()))
    variance = noised.max_rows * rows * _PLACES * (1 - _PLACES)
    variance += noise * (above.sum() * (1 - _PLACES) ** 2 + below.sum() * _PLACES**2)
    off = np.abs((1 - _PLACES) * over - _PLACES * rest) - 0.5 * noised.max_rows
    return _ends(off <= wide * np.sqrt(variance), _PLACES)


def share_difference_bounds(
    counts: Ints, *, more: str, less: str, noised: NoisedCounts, share: float
) -> tuple[float, float]:
    """An interval of (more - less) / rows in the population, which misses with a chance of `share`
    at most.

    `counts` [4] of all rows, two of COUNTS named; `noised.deviation` is that of each of them. As
    for a rate: more - less - d rows has mean 0, and a row's part in it a variance of 1 - d^2 at
    most. A row that moves from one count to the other moves it by two, half of which makes up for
    counts being whole.
    """
    ahead, behind = (float(counts[COUNTS.index(name)]) for name in (more, less))
    total, tried = float(counts.sum()), _DIFFERENCES
    wide, noise = _critical(share, noised), noised.deviation**2
    rows = max(0.0, total + wide * math.sqrt(noise * len(COUNTS)))
    variance = noised.max_rows * rows * (1 - tried**2)
    variance += noise * ((1 - tried) ** 2 + (1 + tried) ** 2 + (len(COUNTS) - 2) * tried**2)
    off = np.abs(ahead - behind - tried * total) - noised.max_rows
    low, high = _ends((off <= wide * np.sqrt(variance))[np.newaxis], tried)
    return float(low[0]), float(high[0])


def _ends(kept: Bools, places: Floats) -> Bounds:
    """The first and the last place kept in each line [groups, places], or the ends of the line
    where none is kept: the noise is then so large that it fits no place, and nothing is known."""
    kept = kept | ~kept.any(axis=1, keepdims=True)
    first, last = kept.argmax(axis=1), kept.shape[1] - 1 - kept[:, ::-1].argmax(axis=1)
    return places[np.maximum(first - 1, 0)], places[np.minimum(last + 1, len(places) - 1)]


def _critical(share: float, noised: NoisedCounts) -> float:
    """How many standard deviations are passed with a chance of `share` at most, on either side."""
    normal = -NormalDist().inv_cdf(share / 2)  # 1 - share / 2 may round to 1
    if noised.tail == "gaussian":
        return normal
    return max(normal, -math.log(share) / math.sqrt(2))
