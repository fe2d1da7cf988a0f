"""Counts of groups, their rates and the gaps between these, and how much a gap is.

Counted are true positives, false positives, true negatives and false negatives. "Positive" is the
favourable outcome. Counts are pooled over records. Every array of counts
ends in [groups, 4], in the order of `fedaudit.spec.metrics.COUNTS`.

Which rates and gaps there are is in the table in `fedaudit.spec.metrics`.

- a difference is the largest rate less the smallest, a ratio the smallest over the largest.
- with a reference group, a difference is the largest distance to that group's rate, and a ratio
  the smallest of lower over higher rate against it (Fairlearn's `to_overall` with the reference
  group in the place of everyone).
- of a family with several rates the worst gap counts (Fairlearn's `agg="worst_case"`).

There is one threshold in common use, the four fifths of 29 CFR 1607.4 (D), Uniform Guidelines on
Employee Selection Procedures: a selection rate below four fifths of the highest is taken there for
evidence of adverse impact. It is a rule of thumb for selections by employers in the United States.
No standard says which difference of rates is too large, and so no word here calls one small.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, assert_never

import numpy as np

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.fairness.disclosure import LEFT_OUT, USUAL, Disclosure
from fedaudit.spec.metrics import COUNTS, FAMILIES, METRICS, RATES, SCORE_METRICS


def scored_rows(counts: Ints) -> Ints:
    """Rows of each group: [..., groups]."""
    total: Ints = counts.sum(axis=-1)
    return total


RATE_COUNTS: Mapping[str, Floats] = {
    name: np.array([np.isin(COUNTS, rate.numerator), np.isin(COUNTS, rate.denominator)], float)
    for name, rate in RATES.items()
}
"""The counts that each rate is a share of, and those among which: [2, 4]."""
_COUNTED: Floats = np.stack(list(RATE_COUNTS.values()), axis=1)
_PLACES = {family.name: [list(RATES).index(name) for name in family.rates] for family in FAMILIES}


def group_rates(counts: Ints) -> Floats:
    """[..., groups, 4] to [..., rates, groups]: the RATES by group, NaN without a denominator."""
    # Counts stay far below 2**53, so these products are exact.
    numbers = counts.swapaxes(-1, -2).astype(np.float64)
    numerators, denominators = _COUNTED[0] @ numbers, _COUNTED[1] @ numbers
    missing = np.full_like(numerators, np.nan)
    rates: Floats = np.divide(numerators, denominators, out=missing, where=denominators != 0)
    return rates


def rate_gaps(rates: Floats, shown: Bools, *, reference: int | None = None) -> Floats:
    """The METRICS of the RATES [..., rates, groups] over the shown groups: [..., metrics]. NaN
    where fewer than two groups are shown, a shown group lacks one of a metric's rates, the
    reference group (an index) is hidden, or a ratio is 0/0."""
    differences, ratios = spread(rates, shown[..., np.newaxis, :], reference)
    values = np.empty((*rates.shape[:-2], len(METRICS)))
    for place, metric in enumerate(METRICS.values()):
        places = _PLACES[metric.family.name]
        match metric.kind:
            case "difference":
                values[..., place] = differences[..., places].max(axis=-1)
            case "ratio":
                values[..., place] = ratios[..., places].min(axis=-1)
            case _:
                assert_never(metric.kind)
    values[~comparable(shown, reference), :] = np.nan
    return values


def lacking(rates: Floats, family: str, shown: Bools) -> Ints:
    """How many of the shown groups [..., groups] lack a rate of a family among RATES [..., rates,
    groups]: [...]."""
    absent = np.isnan(rates[..., _PLACES[family], :]).any(axis=-2)
    found: Ints = np.count_nonzero(absent & shown, axis=-1)
    return found


def spread(values: Floats, visible: Bools, reference: int | None) -> tuple[Floats, Floats]:
    """Difference and ratio of values [..., groups] over the visible groups: [...] each. Values are
    not negative. NaN where a visible value is NaN, and for a ratio of 0/0."""
    with np.errstate(invalid="ignore"):
        if reference is not None:
            base = values[..., reference, np.newaxis]
            differences = np.where(visible, np.abs(values - base), 0.0).max(axis=-1)
            high, low = np.maximum(values, base), np.minimum(values, base)
            # Two rates of 0 do not differ: they say nothing, unless every pair is one.
            pairs = np.where(visible & (high != 0), low / high, np.inf)
            ratios = pairs.min(axis=-1)
            return differences, np.where(np.isinf(ratios), np.nan, ratios)
        high = np.where(visible, values, -np.inf).max(axis=-1)
        low = np.where(visible, values, np.inf).min(axis=-1)
        return high - low, low / high


def comparable(shown: Bools, reference: int | None) -> Bools:
    """Where there are two groups to compare, and the reference group is one: [...]."""
    found: Bools = np.count_nonzero(shown, axis=-1) >= 2
    if reference is not None:
        found &= shown[..., reference]
    return found


FOUR_FIFTHS = 0.8
OF_SELECTION = "demographic_parity_ratio"
# Rates are ratios of counts, so a ratio meant to be 0.8 may lie below it by a rounding error.
_ROUNDING = 1e-9
NARROW, WIDE = 0.05, 0.1
"""The sizes of a difference of shares: narrow up to the first, wide above the second, by
convention. A gap without a gate leaves a release undecided where its whole interval is wide."""
_NO_STANDARD = "no standard says which difference is too large"


def is_below_four_fifths(ratio: float) -> bool:
    """Whether a selection rate over the highest one is below four fifths."""
    return ratio < FOUR_FIFTHS - _ROUNDING


def gap_size(metric: str, value: float) -> str:
    """A gap in the words of lists: percentage points and size for a difference of shares; '' for
    gaps of losses, which have no common unit."""
    if metric not in METRICS:
        return ""
    if METRICS[metric].kind == "difference":
        size = "narrow" if value <= NARROW else "wide" if value > WIDE else "medium"
        points = f"{float(f'{100 * value:.2g}'):g}"
        return f"{points} percentage point{'s' * (points != '1')} ({size})"
    if metric == OF_SELECTION:
        return f"{'below' if is_below_four_fifths(value) else 'at least'} four fifths"
    return ""


def gap_words(
    metric: str, value: float, *, interval: tuple[float, float] | None, reference: str | None = None
) -> str:
    """One sentence on a gap and its interval; '' where `gap_size` has none. The interval belongs to
    the gap between the two groups that are furthest apart, or the `reference` and another."""
    size = gap_size(metric, value)
    if not size:
        return ""
    if metric == OF_SELECTION:
        ends = None if interval is None else f"{interval[0]:.3g} to {interval[1]:.3g}"
        sure = "" if ends is None else f" (its interval {ends})"
        if interval is not None and len({is_below_four_fifths(end) for end in interval}) == 2:
            size += ", though not for sure"
        both = "lowest selection rate is {:.3g} of the highest"
        if reference is not None:
            both = f"lower selection rate of {reference} and one other is {{:.3g}} of the higher"
        return (
            f"The {both.format(value)}{sure}: {size}, the threshold "
            "for selections by employers in the US; other uses have no standard."
        )
    sure = ""
    if interval is not None:
        sure = f": its interval {'excludes' if interval[0] > 0 else 'reaches'} 0"
        if value <= WIDE < interval[1]:
            sure += f" and goes up to {interval[1]:.3g}, which is wide"
    return f"That is {size} between two groups{sure}; {_NO_STANDARD}."


NO_OUTCOME = "no favourable outcome was declared"
REMEDY_OF_SPEC = (
    "to get one, join small groups by `fairness.groups` or fewer `fairness.edges`, or leave their "
    "rows out of every figure by `fairness.exclude`, which a service refuses beside a report that "
    "counted them"
)
"""What to change in the spec of a run, where fewer than two groups are shown."""
ZERO_OVER_ZERO = "the rates compared are all 0, and 0/0 is no ratio"


class Figure(NamedTuple):
    """One metric. `reason` says why the value is None, or what the value leaves out."""

    metric: str
    value: float | None
    reason: str | None


def gaps(
    counts: Ints, disclosure: Disclosure, *, published: Ints | None = None
) -> list[list[Figure]]:
    """The METRICS for each leading index of counts [..., groups, 4], over the groups disclosed.
    `published`: the counts that gaps are computed from, where these are others. Raises ValueError
    where the disclosure was not decided from the rows of the `counts`."""
    groups = disclosure.rows.shape[-1]
    block = (counts if published is None else published).reshape(-1, groups, 4)
    if not disclosure.rule.has_favourable_outcome:
        return [[Figure(metric, None, NO_OUTCOME) for metric in METRICS] for _ in block]
    rows = scored_rows(counts)
    disclosure.check(rows)
    return gaps_between(
        block,
        disclosure.shown.reshape(-1, groups),
        reference=disclosure.reference,
        rows=rows.reshape(-1, groups),
        because=disclosure.because,
    )


def gaps_between(
    block: Ints, shown: Bools, *, reference: int | None, rows: Ints, because: str = LEFT_OUT
) -> list[list[Figure]]:
    """The METRICS of each of several counts [count, groups, 4] over the shown [count, groups].
    `rows` [count, groups]: the scored rows that reasons may name; `because`: why groups are left
    out."""
    groups = block.shape[1]
    rates = group_rates(block)
    values = rate_gaps(rates, shown, reference=reference)
    lack = {one.name: lacking(rates, one.name, shown).tolist() for one in FAMILIES}
    explain: list[bool] = np.any(np.isnan(values), axis=-1).tolist()
    left_out = (groups - shown.sum(axis=-1)).tolist()
    found = []
    for position, row in enumerate(values.tolist()):
        note, common = left_out_note(left_out[position], groups, because), None
        if explain[position]:
            common = why_incomparable(rows[position], shown[position], reference, because)
        figures = []
        for metric, value in zip(METRICS, row, strict=True):
            if not math.isnan(value):
                figures.append(Figure(metric, value, note))
                continue
            family = METRICS[metric].family
            reason = common or ZERO_OVER_ZERO
            if common is None and (count := lack[family.name][position]):
                verb = "lacks" if count == 1 else "lack"
                reason = f"{count} of the groups compared {verb} {family.rows}: a rate is undefined"
            figures.append(Figure(metric, None, reason))
        found.append(figures)
    return found


def left_out_note(hidden: int, groups: int, because: str = LEFT_OUT) -> str | None:
    """What a figure leaves out; None where that is nothing."""
    if not hidden:
        return None
    return f"{hidden} of {groups} groups left out: {because}"


def why_incomparable(
    rows: Ints, shown: Bools, reference: int | None, because: str = LEFT_OUT
) -> str | None:
    """Why the shown of some groups [groups] with these scored rows cannot be compared, or None."""
    left, with_rows = int(shown.sum()), int((rows > 0).sum())
    if with_rows == 0:
        return "no row was scored"
    if with_rows == 1:
        return "only one group has scored rows; a gap needs two"
    if left < 2:
        hidden = left_out_note(len(shown) - left, len(shown), because)
        found = f"fewer than two groups are left to compare ({hidden})"
        # Rows that an earlier report did not leave out would follow from the two together.
        return f"{found}; {REMEDY_OF_SPEC}" if because in USUAL else found
    if reference is not None and not shown[reference]:
        return f"the reference group is left out: {because}"
    return None


NO_ACCURACY = "the target is a number, so there is no accuracy"
NOT_FINITE = "the loss of a group is not finite"
LOSSES_ZERO_OVER_ZERO = "the losses compared are all 0, and 0/0 is no ratio"


@dataclass(frozen=True, eq=False)
class ClientScores:
    """The scored rows of each client that has some. Confidential."""

    clients: Ints
    """[clients]: their indices in the federation, ascending."""
    correct: Ints | None
    """[clients]: rows classified correctly; None for regression."""
    rows: Ints
    """[clients]"""


@dataclass(frozen=True)
class GroupScores:
    """What the validation clients' rows of one attribute add up to."""

    rows: Ints
    """[clients, groups]: rows that were scored."""
    correct: Ints | None
    """[clients, groups]: rows classified correctly; None for regression."""
    loss: Floats
    """[clients, groups]: sums of the rows' values of the training loss, before any root."""

    @property
    def sums(self) -> Floats:
        """[clients, 3, groups]: rows, correct (NaN for regression) and loss, to be added up."""
        correct = np.full(self.rows.shape, np.nan) if self.correct is None else self.correct
        return np.stack([self.rows, correct, self.loss], axis=1, dtype=np.float64)


def group_scores(sums: Floats, *, root_mean: bool) -> Floats:
    """Accuracy and loss of each group: [..., 2, groups] of `GroupScores.sums` [..., 3, groups].
    `root_mean`: whether a loss is the root of the mean. NaN for a group without rows."""
    rows = sums[..., :1, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Floats = sums[..., 1:, :] / rows
    if root_mean:
        means[..., 1, :] = np.sqrt(means[..., 1, :])
    return means


def score_values(
    sums: Floats, shown: Bools, *, root_mean: bool, reference: int | None = None
) -> Floats:
    """The SCORE_METRICS of sums [..., 3, groups] over the shown groups [..., groups]: [..., 3]. NaN
    where `rate_gaps` would be, and where a shown group's loss is not finite."""
    scores = group_scores(sums, root_mean=root_mean)
    scores[~np.isfinite(scores)] = np.nan
    differences, ratios = spread(scores, shown[..., np.newaxis, :], reference)
    values = np.stack([differences[..., 0], differences[..., 1], ratios[..., 1]], axis=-1)
    values[~comparable(shown, reference), :] = np.nan
    return values


def score_gaps(scores: GroupScores, disclosure: Disclosure, *, root_mean: bool) -> list[Figure]:
    """The SCORE_METRICS, pooled over records, over the groups disclosed. Raises ValueError where
    the disclosure was not decided from the rows of these scores."""
    rows, sums = scores.rows.sum(axis=0), scores.sums.sum(axis=0)
    disclosure.check(rows)
    shown, reference = disclosure.shown, disclosure.reference
    because = disclosure.because
    common = why_incomparable(rows, shown, reference, because)
    note = left_out_note(len(shown) - int(shown.sum()), len(shown), because)
    finite = bool(np.isfinite(sums[2][shown]).all())
    figures = []
    values = score_values(sums, shown, root_mean=root_mean, reference=reference).tolist()
    for metric, value in zip(SCORE_METRICS, values, strict=True):
        reason = common
        if metric == "accuracy_difference" and scores.correct is None:
            reason = NO_ACCURACY
        elif reason is None and np.isnan(value):
            reason = LOSSES_ZERO_OVER_ZERO if finite else NOT_FINITE
        known = reason is None
        figures.append(Figure(metric, value if known else None, note if known else reason))
    return figures
