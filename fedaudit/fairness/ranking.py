"""How well scores order rows by their true outcome, and how well probabilities fit it.

AUC is the chance that of two rows with different outcomes the one with the outcome has the higher
score; equal scores count half (Mann and Whitney 1947). Its variance adds up, client by client, how
much each row moves it (DeLong et al. 1988, with clusters Obuchowski 1997), and its interval is the
score interval of a share, of as many rows as that variance is worth, with the design effect of
`fedaudit.fairness.intervals`. A design effect of 1 is the variance of rows that are drawn
one by one and ordered by chance.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.fairness.intervals import MIN_WORTH, design_effects, score_ends

METHOD = "clustered-auc"
"""Method for the interval of an AUC."""
LEAST_OF_AN_OUTCOME = 5
"""With fewer rows of one outcome an AUC would show where few people are in the order."""
TOO_FEW = f"fewer than {LEAST_OF_AN_OUTCOME} scored rows have one of the two outcomes"
BINS = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredOutcomes:
    """Scores of rows, [rows] each. Confidential."""

    score: NDArray[np.floating]
    """The higher, the likelier the outcome."""
    probability: Floats | None
    """The outcome's; None where scores are no probabilities."""
    outcome: Bools
    """Whether it came about."""

    def only(self, which: Bools) -> "ScoredOutcomes":
        """The same for some rows, `which` [rows]."""
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
        """The AUC's interval. `level`: coverage, such as 0.95."""
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
    """How many rows with the other outcome in its stratum each row is on the right side of: [rows].
    Equal scores count half."""
    order = np.lexsort((score, stratum))
    scores, strata = score[order], stratum[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (scores[1:] != scores[:-1]) | (strata[1:] != strata[:-1])
    block = np.empty(len(order), dtype=np.int64)  # rows of one stratum with the same score
    block[order] = np.cumsum(first) - 1
    own = strata[first]
    alike = np.stack([np.bincount(block, weights=kind) for kind in (1 - outcome, outcome)])
    below = np.cumsum(alike, axis=1) - alike
    below -= below[:, np.searchsorted(own, own)]
    of_positive = below[0] + alike[0] / 2
    of_negative = np.bincount(stratum, weights=outcome)[own] - below[1] - alike[1] / 2
    won: Floats = np.where(outcome == 1, of_positive[block], of_negative[block])
    return won


def expected_calibration_error(probability: Floats, outcome: Bools) -> float:
    """Mean distance of probabilities from frequencies over BINS bins of equal width, each weighted
    by its rows (Naeini et al. 2015)."""
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
    """The same with the rows of each hypothesis compared only with each other, so that a constant
    answer for each hypothesis ranks nothing."""
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
