"""How far members that were found contradict the claim of a run."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.membership.attacked_rows import AttackedRows
from fedaudit.attacks.membership.claimed_rates import Claim
from fedaudit.attacks.membership.found_members import (
    FALSE_POSITIVE_RATES,
    first_rows_of_clients,
    limits_of_independent,
)
from fedaudit.privacy.lower_bounds.e_values import calibrated, one_look_level, staked

_LEVELS = 0.5 ** np.arange(41)
"""Among which the p-value is searched; it is the next larger one."""


@dataclass(frozen=True)
class Contradiction:
    """How far the members found are beyond what a claim allows."""

    p_value: float
    claim: str
    evidence: str
    """What an alarm would state."""

    @property
    def e_value(self) -> float:
        """Evidence against the claim."""
        return staked(self.p_value, calibrated(self.p_value))


def contradiction_of(
    claim: Claim, scores: NDArray[np.float64], rows: AttackedRows
) -> Contradiction:
    """The smallest level at which the limits at some rate contradict the claim.

    One row of each client counts: rows of one client are alike, and how much so cannot be told from
    a few clients. What a claim allows of one release may fail with a chance of about delta for each
    row (Steinke, Nasr and Jagielski 2023), which is added to the p-value.
    """
    alone = first_rows_of_clients(rows)
    own, member = scores[alone], rows.member[alone]
    low, high = 0, len(_LEVELS)
    while high - low > 1:  # level 1 is never wrong
        middle = (low + high) // 2
        contradicted = _contradicted(claim, own, member, level=float(_LEVELS[middle]))
        low, high = (middle, high) if contradicted is not None else (low, middle)
    p_value = min(1.0, float(_LEVELS[low]) + 2 * len(alone) * claim.delta)
    level = one_look_level()
    found, others, allowed = _contradicted(claim, own, member, level=level) or _limits(
        claim, own, member, rate=FALSE_POSITIVE_RATES[-1], level=level
    )
    return Contradiction(
        p_value,
        claim=f"{claim}: of the members at most {allowed:.2%} are found where {others:.2%} "
        "of the others are taken for members",
        evidence=(
            f"at least {found:.2%} of the members were found where at most {others:.2%} of the "
            f"others were taken for members, by one row of each of {len(alone)} clients (p-value "
            f"{p_value:.2g} over the {len(FALSE_POSITIVE_RATES)} rates looked at; different "
            "clients being taken as independent, also given the model)"
        ),
    )


Limits = tuple[float, float, float]
"""Members found, at least; others taken for members, at most; members that the claim allows."""


def _contradicted(
    claim: Claim, scores: NDArray[np.float64], member: NDArray[np.bool_], *, level: float
) -> Limits | None:
    """The limits at the first rate where they contradict the claim, wrong with a chance of at most
    `level` over all rates (Bonferroni)."""
    for rate in FALSE_POSITIVE_RATES:
        limits = _limits(claim, scores, member, rate=rate, level=level)
        if limits[0] > limits[2]:
            return limits
    return None


def _limits(
    claim: Claim,
    scores: NDArray[np.float64],
    member: NDArray[np.bool_],
    *,
    rate: float,
    level: float,
) -> Limits:
    tail = level / (2 * len(FALSE_POSITIVE_RATES))
    low, high = limits_of_independent(scores, member, rate=rate, tail=tail)
    return low, high, claim.tpr_max(high)
