"""What the client that spent most of a ledger of metric privacy has leaked."""

import numpy as np

from fedaudit.privacy.declared.histories import Histories, leakages, log_ratio


def largest_leakage(histories: Histories) -> float:
    """By the paper's convention, n/nu a release; infinite where some release had no noise."""
    return float(leakages(histories.distinct(), histories.charges).max(initial=0.0))


def largest_log_ratio(histories: Histories) -> float:
    """By the theorem; infinite where some release of that client has no sum.

    Under one radius and clip it grows with the leakage, so the client with most of one has most of
    the other.
    """
    rows, charges = histories.distinct(), histories.charges
    if not charges:
        return 0.0
    found = log_ratio(rows[int(leakages(rows, charges).argmax())], charges)
    return np.inf if found is None else found
