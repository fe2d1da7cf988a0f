"""How wide a gap comes out by chance: the null distribution of each gap.

The null hypothesis: the attribute has nothing to do with outcome and prediction. Then any other
assignment of the same rows to groups of the same sizes was as likely as the one observed, and its
gap is drawn from the same distribution (a permutation test; Fisher 1935). What changes groups:

- `client`: whole clients with all their rows, where every client has rows of one group only. Rows
  of a client belong together and stay together.
- `record`: single rows, where clients have rows of several groups. Exchanging N rows at random
  gives every group a multivariate hypergeometric share of the four counts, which is drawn directly.
  It takes rows for exchangeable across clients: where clients differ much and groups are spread
  unevenly over them, real nulls are wider than this one.

The largest gap among many groups is well above 0 by chance alone, which the null's mean shows. Only
rows of groups that are shown are exchanged, so that a null reveals nothing of a hidden group. The
test is exact where rows are exchanged and where clients have equally many; otherwise it holds given
which groups are large enough to be shown.

How well scores order rows by their true outcome, and how well probabilities fit it.

AUC is the chance that of two rows with different outcomes the one with the outcome has the higher
score; equal scores count half (Mann and Whitney 1947). Its variance adds up, client by client, how
much each row moves it (DeLong et al. 1988, with clusters Obuchowski 1997), and its interval is the
score interval of a share, of as many rows as that variance is worth, with the design effect of
`fedaudit.fairness.intervals`. A design effect of 1 is the variance of rows that are drawn
one by one and ordered by chance.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import GroupScores, comparable, gap_values, score_values, scored_rows
from fedaudit.fairness.intervals import MIN_WORTH, design_effects, score_ends
from fedaudit.native.library import regroup
from fedaudit.randomness import CounterSource, Purpose
from fedaudit.spec.metrics import METRICS, SCORE_METRICS, is_ratio

METHOD = "clustered-auc"
"""Of the interval of an AUC."""
LEAST_OF_AN_OUTCOME = 5
"""With fewer rows of one of the outcomes an AUC would be where few people are in the order."""
TOO_FEW = f"fewer than {LEAST_OF_AN_OUTCOME} scored rows have one of the two outcomes"
BINS = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredOutcomes:
    """Scores of rows, [rows] each. Confidential."""

    score: NDArray[np.floating]
    """The higher, the likelier the outcome."""
    probability: Floats | None
    """Of the outcome; None where scores are no probabilities."""
    outcome: Bools
    """Whether it came about."""

    def only(self, which: Bools) -> "ScoredOutcomes":
        """Of some rows, `which` [rows]."""
        probability = None if self.probability is None else self.probability[which]
        return ScoredOutcomes(
            score=self.score[which], probability=probability, outcome=self.outcome[which]
        )


@dataclass(frozen=True, eq=False)
class Ordering:
    """An AUC, and what its interval needs."""

    auc: float
    rows: float
    """Rows drawn one by one, and ordered by chance, whose share would vary as much."""
    moved: Floats
    """[clients]: by how much each client's rows move it. Confidential."""
    worth: float
    """How many clients of equal size they are worth, of the outcome that has fewer (Kish)."""

    def interval(self, level: float) -> tuple[float, float]:
        """Of the AUC. `level`: coverage, such as 0.95."""
        worth, value = np.array([self.worth]), np.array([self.auc])
        rows = np.array([max(self.rows, self.worth)])
        variance = np.full(1, np.nan)
        if self.worth >= MIN_WORTH:
            variance[0] = self.worth / (self.worth - 1) * float((self.moved**2).sum())
        effects = design_effects(value, rows, variance=variance, worth=worth, share=1 - level)
        low, high = score_ends(value, rows / effects, share=1 - level)
        return float(low[0]), float(high[0])


def order_by_score(
    rows: ScoredOutcomes, client: Ints, stratum: Ints | None = None
) -> Ordering | None:
    """The AUC of rows, whose `client` [rows] is at least 0; None with too few of either outcome.

    `stratum` [rows]: only rows of one stratum are compared with each other.
    """
    if stratum is None:
        stratum = np.zeros(len(client), dtype=np.int64)
    outcome = rows.outcome.astype(np.int64)
    of_strata = [np.bincount(stratum, weights=kind) for kind in (outcome, 1 - outcome)]
    pairs = float(of_strata[0] @ of_strata[1])
    if min(one.sum() for one in of_strata) < LEAST_OF_AN_OUTCOME or not pairs:
        return None
    won = _won(rows.score, outcome, stratum)
    auc = float(won[rows.outcome].sum()) / pairs
    compared = np.where(rows.outcome, of_strata[1][stratum], of_strata[0][stratum])
    moved = np.bincount(client, weights=(won - auc * compared) / pairs).astype(np.float64)
    worth = [
        own.sum() ** 2 / (own**2).sum()
        for kind in (outcome, 1 - outcome)
        for own in [np.bincount(client, weights=kind)]
    ]
    # Of an order by chance: the variance of the number of pairs won (Mann and Whitney 1947).
    by_chance = of_strata[0] * of_strata[1] * (of_strata[0] + of_strata[1] + 1) / 12
    return Ordering(auc, pairs**2 / (4 * float(by_chance.sum())), moved, min(worth))


def _won(score: NDArray[np.floating], outcome: Ints, stratum: Ints) -> Floats:
    """Of how many rows of its stratum with the other outcome each row is on the right side: [rows].
    Equal scores count half."""
    order = np.lexsort((score, stratum))
    scores, strata, positive = score[order], stratum[order], outcome[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (scores[1:] != scores[:-1]) | (strata[1:] != strata[:-1])
    block = np.cumsum(first) - 1  # rows of one stratum with the same score
    alike = np.stack([np.bincount(block, weights=kind) for kind in (1 - positive, positive)])
    below = np.cumsum(alike, axis=1) - alike
    starts = np.ones(int(first.sum()), dtype=np.bool_)
    own = strata[first]
    starts[1:] = own[1:] != own[:-1]
    start = np.maximum.accumulate(np.where(starts, np.arange(len(own)), 0))
    below -= below[:, start]
    totals = np.bincount(stratum, weights=outcome)[own]
    of_positive = below[0] + alike[0] / 2
    of_negative = totals - below[1] - alike[1] / 2
    won = np.empty(len(order))
    won[order] = np.where(positive == 1, of_positive[block], of_negative[block])
    return won


def expected_calibration_error(probability: Floats, outcome: Bools) -> float:
    """How far probabilities are from frequencies on average, over BINS bins of equal width, each
    counted by its rows (Naeini et al. 2015)."""
    place = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    apart = np.bincount(place, weights=probability - outcome, minlength=BINS)
    return float(np.abs(apart).sum()) / len(probability)


@dataclass(frozen=True, eq=False, kw_only=True)
class Ranking:
    """What the scored rows say of their scores. Confidential."""

    rows: int
    fewer: int
    """How many of the rows have the rarer outcome."""
    fewer_by_group: Mapping[str, Ints]
    """Attribute -> the same of each group, [groups]."""
    ordering: Ordering | None
    """None with too few rows of either outcome."""
    within: Ordering | None
    """The same with each hypothesis's rows compared among themselves, so that one answer for each
    hypothesis orders nothing."""
    brier: float | None
    """None where scores are no probabilities."""
    expected_calibration_error: float | None
    base_rate: float
    by_group: Mapping[str, Floats]
    """Attribute -> the AUC of each group's rows, [groups]; NaN with too few of either outcome."""


def rank_rows(
    rows: ScoredOutcomes, *, client: Ints, hypothesis: Ints, groups: Mapping[str, tuple[int, Ints]]
) -> Ranking:
    """The figures of scored rows; arrays and groups as in `fedaudit.utility.MeasuredRows`."""
    found = order_by_score(rows, client)
    several = bool(hypothesis.any())
    own = rows.probability
    fewer_by_group = {
        name: _outcomes_of(rows, *group).min(axis=0) for name, group in groups.items()
    }
    return Ranking(
        rows=len(client),
        fewer=int(min(rows.outcome.sum(), (~rows.outcome).sum())),
        fewer_by_group=fewer_by_group,
        ordering=found,
        within=order_by_score(rows, client, hypothesis) if several else found,
        # The mean squared distance of the probability of the outcome to it (Brier 1950).
        brier=None if own is None else float(((own - rows.outcome) ** 2).mean()),
        expected_calibration_error=(
            None if own is None else expected_calibration_error(own, rows.outcome)
        ),
        base_rate=float(rows.outcome.mean()),
        by_group={name: _of_groups(rows, *group) for name, group in groups.items()},
    )


def _outcomes_of(rows: ScoredOutcomes, groups: int, codes: Ints) -> Ints:
    """How many rows of each group have the outcome, and how many have not: [2, groups]."""
    known = codes >= 0
    kinds = (known & rows.outcome, known & ~rows.outcome)
    return np.stack([np.bincount(codes[kind], minlength=groups) for kind in kinds])


def _of_groups(rows: ScoredOutcomes, groups: int, codes: Ints) -> Floats:
    known = codes >= 0
    own, outcome = codes[known], rows.outcome[known].astype(np.int64)
    won = _won(rows.score[known], outcome, own)
    with_it, without = _outcomes_of(rows, groups, codes)
    pairs_won = np.bincount(own, weights=won * outcome, minlength=groups)
    enough = np.minimum(with_it, without) >= LEAST_OF_AN_OUTCOME
    nothing = np.full(groups, np.nan)
    np.divide(pairs_won, with_it * without, out=nothing, where=enough)
    return nothing


Unit = Literal["client", "record"]

PERMUTATIONS = 1000
MIN_CLIENTS = 20
"""Below this, exchanging clients says little."""
MAX_UNDEFINED = 0.05
"""Share of permutations without a value above which there is no null."""
_CELLS_AT_A_TIME = 1 << 20
NO_GAP = "there is no gap to compare with"
_NO_LOSSES = "single rows would have to be exchanged, and only sums of their losses are kept"
_SAME = 1e-12
"""Gaps that differ by less are ties: equal fractions may differ in their last bits."""


@dataclass(frozen=True)
class Null:
    """The null distribution of one gap, and the place of the observed gap in it."""

    unit: Unit
    permutations: int
    """Those in which the gap is defined."""
    mean: float
    tail: float
    """The 95 % quantile of a difference, the 5 % quantile of a ratio."""
    p_value: float
    """(1 + permutations at least as wide) / (1 + permutations)."""


def unit_of(client_rows: NDArray[np.integer]) -> Unit:
    """Whether clients belong to groups, or rows do: from rows [clients, groups]."""
    several = bool((np.count_nonzero(client_rows, axis=1) > 1).any())
    return "record" if several else "client"


def permutation_nulls(
    client_counts: Ints,
    disclosure: Disclosure,
    *,
    seed: int,
    stream: int = 0,
    permutations: int = PERMUTATIONS,
) -> dict[str, Null | str]:
    """The null of each of METRICS, or why there is none; from client_counts [clients, groups, 4].
    `stream`: another number draws other permutations from the same seed (one for each attribute).
    The same arguments always give the same nulls, with one version of NumPy. Raises ValueError
    where the disclosure was not decided from the rows of these counts."""
    if not disclosure.rule.has_favourable_outcome:
        return dict.fromkeys(METRICS, NO_GAP)
    compared = _compared(scored_rows(client_counts), disclosure)
    if isinstance(compared, str):
        return dict.fromkeys(METRICS, compared)
    counts = client_counts if compared.shown.all() else client_counts[:, compared.shown]
    if compared.unit == "record":
        generator = _generator(seed, stream)
        drawn = compared.gaps(_records(counts.sum(axis=0), permutations, generator))
    else:
        exchanged = compared.exchanged(counts.sum(axis=1), permutations, key=(seed, stream))
        drawn = np.concatenate([compared.gaps(pooled.astype(np.int64)) for pooled in exchanged])
    observed = compared.gaps(counts.sum(axis=0))
    return _nulls(METRICS, observed, drawn, compared.unit)


def score_nulls(
    scores: GroupScores,
    disclosure: Disclosure,
    *,
    root_mean: bool,
    seed: int,
    stream: int = 0,
    permutations: int = PERMUTATIONS,
) -> dict[str, Null | str]:
    """The null of each of SCORE_METRICS, as `permutation_nulls`, by the same exchanges of clients.
    Where rows are exchanged, of the accuracy alone: whether a row is right is a count, but of
    losses only sums are kept."""
    compared = _compared(scores.rows, disclosure)
    if isinstance(compared, str):
        return dict.fromkeys(SCORE_METRICS, compared)
    sums = scores.sums[..., compared.shown]
    if compared.unit == "record":
        found: dict[str, Null | str] = dict.fromkeys(SCORE_METRICS, _NO_LOSSES)
        if scores.correct is not None:
            generator = _generator(seed, stream)
            found[SCORE_METRICS[0]] = _accuracy_null(sums, compared, permutations, generator)
        return found
    exchanged = compared.exchanged(sums.sum(axis=-1), permutations, key=(seed, stream))
    drawn = np.concatenate(
        [compared.scores(pooled.swapaxes(-1, -2), root_mean=root_mean) for pooled in exchanged]
    )
    return _nulls(
        SCORE_METRICS, compared.scores(sums.sum(axis=0), root_mean=root_mean), drawn, compared.unit
    )


def _accuracy_null(
    sums: Floats, compared: "_Compared", permutations: int, generator: np.random.Generator
) -> Null | str:
    """Of the accuracy difference where rows are exchanged: a row is right or it is not. `sums`
    [clients, 3, groups shown], as `GroupScores.sums`."""
    rows, right = sums[:, :2].sum(axis=0).astype(np.int64)
    none = np.zeros_like(rows)
    drawn = _records(np.stack([right, rows - right, none, none], axis=-1), permutations, generator)
    all_right = np.concatenate([right[np.newaxis], drawn[..., 0]])
    of_all = np.stack(np.broadcast_arrays(rows, all_right, 0.0), axis=-2)
    values = compared.scores(of_all, root_mean=False)[:, 0]
    return _null(float(values[0]), values[1:], compared.unit, is_ratio=False)


@dataclass(frozen=True, eq=False)
class _Compared:
    """The groups that are compared, and who may change between them."""

    unit: Unit
    shown: Bools
    """[groups]"""
    contributing: Bools
    """[clients]: those with rows in the groups shown."""
    group: Ints
    """[contributing clients]: the first of the groups shown that a client has rows of."""
    reference: int | None
    """The place of the reference group among those shown."""

    @property
    def groups(self) -> int:
        """How many are shown."""
        return int(self.shown.sum())

    def gaps(self, counts: Ints) -> Floats:
        """The METRICS of counts [..., groups shown, 4]: [..., metrics]."""
        return gap_values(counts, self._everyone(counts.shape[:-2]), reference=self.reference)

    def scores(self, sums: Floats, *, root_mean: bool) -> Floats:
        """The SCORE_METRICS of sums [..., 3, groups shown]: [..., 3]."""
        everyone = self._everyone(sums.shape[:-2])
        return score_values(sums, everyone, root_mean=root_mean, reference=self.reference)

    def exchanged(
        self, own: NDArray[np.number], permutations: int, *, key: tuple[int, int]
    ) -> Iterator[Floats]:
        """Sums [some permutations, groups, kinds] after clients exchanged their groups. `own`
        [clients, kinds] is what a client adds to its group; `key`: seed and stream. Sums of counts
        stay far below 2**53 and are exact."""
        own = own[self.contributing]
        step = max(1, _CELLS_AT_A_TIME // max(len(own), self.groups))
        for drawn in _exchanged(self.group, key, permutations, step):
            found = regroup(drawn, own, self.groups)
            yield _added_up(drawn, own, self.groups) if found is None else found

    def _everyone(self, leading: tuple[int, ...]) -> Bools:
        return np.ones((*leading, self.groups), dtype=np.bool_)


def _compared(rows: Ints, disclosure: Disclosure) -> _Compared | str:
    """Of rows per client [clients, groups]; or the reason why nothing can be exchanged."""
    disclosure.check(rows.sum(axis=0))
    shown, reference = disclosure.shown, disclosure.reference
    if not comparable(shown, reference):
        return NO_GAP
    visible = rows if shown.all() else rows[:, shown]
    contributing: Bools = np.any(visible > 0, axis=1)
    unit = unit_of(rows)
    if unit == "client" and np.count_nonzero(contributing) < MIN_CLIENTS:
        return (
            f"{np.count_nonzero(contributing)} clients have rows in the groups shown; exchanging "
            f"clients needs {MIN_CLIENTS}"
        )
    return _Compared(
        unit=unit,
        shown=shown,
        contributing=contributing,
        group=visible[contributing].argmax(axis=1),
        reference=None if reference is None else int(shown[:reference].sum()),
    )


def _generator(seed: int, stream: int) -> np.random.Generator:
    """NumPy's generator, keyed by words of our own so that it shares no number with others."""
    words = CounterSource(seed).words(
        purpose=Purpose.PERMUTATION, round_=stream, counters=0, count=4
    )
    return np.random.Generator(np.random.Philox(key=words.view(np.uint64)))


def _added_up(drawn: Ints, own: NDArray[np.number], groups: int) -> Floats:
    """Sums [permutations, groups, kinds] of `own` [clients, kinds] by group [permutations,
    clients], each client after the one before."""
    count, kinds = len(drawn), own.shape[1]
    slots = (drawn + groups * np.arange(count)[:, np.newaxis]).ravel()
    sums = [
        np.bincount(slots, weights=np.tile(own[:, kind], count), minlength=count * groups)
        for kind in range(kinds)
    ]
    stacked: Floats = np.stack(sums, axis=-1)
    return stacked.reshape(count, groups, kinds)


def _exchanged(group: Ints, key: tuple[int, int], permutations: int, step: int) -> Iterator[Ints]:
    """The groups of clients after exchanges, [up to `step`, clients] at a time."""
    if permutations <= step:
        yield _exchanged_once(group.tobytes(), key, permutations)
        return
    generator = _generator(*key)
    for start in range(0, permutations, step):
        yield _permuted(group, min(step, permutations - start), generator)


@lru_cache(maxsize=1)
def _exchanged_once(group: bytes, key: tuple[int, int], permutations: int) -> Ints:
    """Kept, because counts and scores of one attribute exchange the same clients."""
    found = _permuted(np.frombuffer(group, dtype=np.int64), permutations, _generator(*key))
    found.flags.writeable = False
    return found


def _permuted(group: Ints, permutations: int, generator: np.random.Generator) -> Ints:
    tiled = np.tile(group, (permutations, 1))
    return generator.permuted(tiled, axis=1, out=tiled)


def _records(pooled: Ints, permutations: int, generator: np.random.Generator) -> Ints:
    """Counts [permutations, groups, 4] after single rows exchanged their groups; of [groups, 4].
    Group after group takes its rows from what is left: of each kind a hypergeometric number, given
    what was taken of the kinds before."""
    left = np.tile(pooled.sum(axis=0), (permutations, 1))
    drawn = np.empty((permutations, *pooled.shape), dtype=np.int64)
    for group, size in enumerate(scored_rows(pooled).tolist()):
        wanted = np.full(permutations, size, dtype=np.int64)
        others = left.sum(axis=1)
        for kind in range(3):
            others -= left[:, kind]
            taken = generator.hypergeometric(left[:, kind], others, wanted)
            drawn[:, group, kind] = taken
            wanted -= taken
        drawn[:, group, 3] = wanted
        left -= drawn[:, group]
    return drawn


def _nulls(
    metrics: Collection[str], observed: Floats, drawn: Floats, unit: Unit
) -> dict[str, Null | str]:
    return {
        metric: _null(float(observed[place]), drawn[:, place], unit, is_ratio(metric))
        for place, metric in enumerate(metrics)
    }


def _null(observed: float, drawn: Floats, unit: Unit, is_ratio: bool) -> Null | str:
    if np.isnan(observed):
        return NO_GAP
    values = drawn[~np.isnan(drawn)]
    undefined = len(drawn) - len(values)
    if undefined > MAX_UNDEFINED * len(drawn):
        return (
            f"undefined in {undefined} of {len(drawn)} permutations; at most "
            f"{MAX_UNDEFINED:.0%} may be"
        )
    margin = _SAME * max(1.0, abs(observed))
    as_wide = values <= observed + margin if is_ratio else values >= observed - margin
    return Null(
        unit=unit,
        permutations=len(values),
        mean=float(values.mean()),
        tail=float(np.quantile(values, 0.05 if is_ratio else 0.95)),
        p_value=(1 + int(np.count_nonzero(as_wide))) / (1 + len(values)),
    )
