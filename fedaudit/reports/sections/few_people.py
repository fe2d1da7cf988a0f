"""Whether a rate may rest on few people, from what its report shows anyway.

How many people are behind a rate is confidential, and to say that they are fewer than some number
would bound it further than an exact rate does. So nothing here is counted: a rate's own interval,
which is published, is held against that of so many rows drawn one by one.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedaudit.fairness.intervals import score_ends
from fedaudit.fairness.noised_counts import outward
from fedaudit.reports.checks import value_at
from fedaudit.reports.sections.fairness import ENDS
from fedaudit.spec.metrics import RATES


def least_people(report: Mapping[str, Any]) -> int | None:
    """The minimum group size of a report of any kind; None of one that states none."""
    declared = value_at(report, "ledger", "minimum_group_size")
    found = declared or value_at(report, "spec", "fairness", "minimum_group_size")
    return found if isinstance(found, int) else None


def rests_on_few(group: Mapping[str, Any], rate: str, *, least: int | None) -> bool:
    """Whether the interval of a group's rate is wider than that of `least` rows drawn one by one
    would be, as it also is where the rows are of few clients that differ; False without one."""
    interval = (group.get("rate_intervals") or {}).get(rate)
    if interval is None or least is None or not RATES[rate].is_share:
        return False
    ends = score_ends(np.array(group[rate]), np.array(float(least)), share=1 - interval["level"])
    low, high = outward(float(ends[0]), float(ends[1]), ENDS)
    return bool(interval["high"] - interval["low"] > high - low + 1e-9)


def few_words(whose: str, *, least: int | None) -> str:
    """What it means that rates may rest on few people."""
    return f"{whose} may rest on few people: the interval is as wide as with fewer than {least}."
