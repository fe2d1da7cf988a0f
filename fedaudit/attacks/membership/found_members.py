"""Rates of a membership attack: how many members are found for how many false alarms."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score, roc_curve

from fedaudit.attacks.binomial_intervals import Limits, clopper_pearson, clustered_interval
from fedaudit.attacks.membership.attacked_rows import AttackedRows

FALSE_POSITIVE_RATES = (0.001, 0.01)
MIN_FALSE_POSITIVES = 10
"""A rate of false positives is looked at where it makes at least so many of them."""


@dataclass(frozen=True)
class FoundMembers:
    """At one threshold on scores."""

    fpr: float
    """The rate that was asked for; the share of non-members beyond the threshold is at most
    this."""
    threshold: float | None
    """Rows that score at least this much are taken for members; None where there are too few
    non-members."""
    tpr: float | None
    limits: Limits | None
    reason: str | None


def area_under_curve(scores: NDArray[np.float64], member: NDArray[np.bool_]) -> float:
    """The chance that a member's score is the larger one, ties counting half."""
    return float(roc_auc_score(member, scores))


def finite_scores(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores in the same order, whatever has overflowed: a row without a score comes last."""
    lowest = np.finfo(np.float64).min
    return np.nan_to_num(scores, nan=lowest, posinf=np.finfo(np.float64).max, neginf=lowest)


def found_members(
    scores: NDArray[np.float64], rows: AttackedRows, *, confidence: float
) -> list[FoundMembers]:
    """At each of FALSE_POSITIVE_RATES, the threshold that keeps it and finds most members.

    `scores` [rows], finite.
    """
    member = rows.member
    false, true, thresholds = roc_curve(member, scores, drop_intermediate=False)
    others = int((~member).sum())
    found = []
    for rate in FALSE_POSITIVE_RATES:
        why = too_few(others, rate)
        if why is not None:
            found.append(FoundMembers(rate, None, None, None, why))
            continue
        last = int(np.searchsorted(false, rate + 1e-12, side="right")) - 1
        hits = scores[member] >= thresholds[last]
        limits = clustered_interval(hits, rows.client[member], confidence=confidence)
        found.append(FoundMembers(rate, float(thresholds[last]), float(true[last]), limits, None))
    return found


def too_few(others: int, rate: float) -> str | None:
    """Why a rate of false positives says nothing of so many non-members; None where it does."""
    needed = round(MIN_FALSE_POSITIVES / rate)
    if others >= needed:
        return None
    return (
        f"{others} non-members were attacked, and a false positive rate of {rate:.1%} needs "
        f"{needed} or more"
    )


def first_rows_of_clients(rows: AttackedRows) -> NDArray[np.int64]:
    """The place of one row of each client among the rows."""
    return np.unique(rows.client, return_index=True)[1].astype(np.int64)


def limits_of_independent(
    scores: NDArray[np.float64], member: NDArray[np.bool_], *, rate: float, tail: float
) -> tuple[float, float]:
    """The lower limit of the share of members beyond a threshold, and the upper one of the others.

    Of independent rows; each limit fails with a chance of at most `tail`. The threshold is the
    score of a fixed rank among the others, so that their limit is exact for an order statistic.
    Raises ValueError without a member or without others.
    """
    others = np.sort(scores[~member])[::-1]
    rank = int(rate * len(others))
    hits = scores[member] > others[min(rank, len(others) - 1)]
    confidence = 1 - 2 * tail
    low = clopper_pearson(int(hits.sum()), len(hits), confidence=confidence).low
    return low, clopper_pearson(rank, len(others), confidence=confidence).high
