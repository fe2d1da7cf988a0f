"""When members that were found contradict the claim of a run."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.membership.attacked_rows import AttackedRows
from fedaudit.attacks.membership.claimed_rates import Claim
from fedaudit.attacks.membership.found_members import (
    FALSE_POSITIVE_RATES,
    first_rows_of_clients,
    limits_of_independent,
)
from fedaudit.reports.document.attacks.attack_section import Alarm

ALARM_LEVEL = 0.01
"""The chance of an alarm where the claim holds, at most."""


def alarm_of(claim: Claim, scores: NDArray[np.float64], rows: AttackedRows) -> Alarm | None:
    """Of the first rate whose limits contradict the claim.

    One row of each client counts: rows of one client are alike, and how much so cannot be told from
    a few clients. None where delta is not small beside so many rows: what a claim allows of one
    release may fail with about that chance for each row (Steinke, Nasr and Jagielski 2023).
    """
    alone = first_rows_of_clients(rows)
    if 2 * len(alone) * claim.delta > ALARM_LEVEL:
        return None
    tail = ALARM_LEVEL / (2 * len(FALSE_POSITIVE_RATES))
    for rate in FALSE_POSITIVE_RATES:
        low, high = limits_of_independent(scores[alone], rows.member[alone], rate=rate, tail=tail)
        allowed = claim.tpr_max(high)
        if low > allowed:
            return Alarm(
                claim=f"{claim}: of the members at most {allowed:.2%} are found where {high:.2%} "
                "of the others are taken for members",
                evidence=(
                    f"at least {low:.2%} of the members were found where at most {high:.2%} of the "
                    f"others were taken for members, by one row of each of {len(alone)} clients; "
                    f"both limits together are wrong with a chance of at most {ALARM_LEVEL:.0%} "
                    f"over the {len(FALSE_POSITIVE_RATES)} rates looked at (Bonferroni), different "
                    "clients being taken as independent, also given the model"
                ),
            )
    return None
