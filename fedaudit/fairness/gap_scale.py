"""How much a gap between groups is: its size, whether it may be chance, and what standard there is.

There is one threshold in common use, the four fifths of 29 CFR 1607.4 (D), Uniform Guidelines on
Employee Selection Procedures: a selection rate below four fifths of the highest is taken there for
evidence of adverse impact. It is a rule of thumb for selections by employers in the United States.
No standard says which difference of rates is too large, and so no word here calls one small.
"""

from fedaudit.spec.metrics import METRICS

FOUR_FIFTHS = 0.8
OF_SELECTION = "demographic_parity_ratio"
"""The metric that the four fifths are about."""
# Rates are ratios of counts, so a ratio meant to be 0.8 may lie below it by a rounding error.
_ROUNDING = 1e-9
_NO_STANDARD = "no standard says which difference is too large"


def is_below_four_fifths(ratio: float) -> bool:
    """Whether a selection rate over the highest one is below four fifths."""
    return ratio < FOUR_FIFTHS - _ROUNDING


def gap_size(metric: str, value: float) -> str:
    """A gap in the words of lists: percentage points of a difference of shares; '' of a gap of
    losses or of other rates, which have no common unit."""
    if metric not in METRICS or not METRICS[metric].is_share:
        return ""
    if METRICS[metric].kind == "difference":
        return f"{100 * value:.2g} percentage points"
    if metric == OF_SELECTION:
        return f"{'below' if is_below_four_fifths(value) else 'at least'} four fifths"
    return ""


def gap_words(metric: str, value: float, *, interval: tuple[float, float] | None) -> str:
    """One sentence on a gap and its interval; '' where `gap_size` has none.

    The interval is of the gap between the two groups that are furthest apart.
    """
    size = gap_size(metric, value)
    if not size:
        return ""
    if metric == OF_SELECTION:
        sure = "" if interval is None else f" (its interval {_ends(interval)})"
        return (
            f"The lowest selection rate is {value:.3g} of the highest{sure}: {size}, the threshold "
            "of 29 CFR 1607.4 (D) for selections by employers; other uses have no standard."
        )
    if interval is None:
        chance = "whether it may be chance is not known"
    elif interval[0] > 0:
        chance = "its interval excludes 0"
    else:
        chance = "its interval reaches 0, so the groups may fare alike"
    return f"That is {size} between two groups: {chance}; {_NO_STANDARD}."


def _ends(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{low:.3g} to {high:.3g}"
