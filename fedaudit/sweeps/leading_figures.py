"""Which figures of a sweep's table are read first, where there is no place for all of them."""

from collections.abc import Sequence

from fedaudit.sweeps.sweep_table import SweepTable

_LEADING = (
    *("epsilon_max", "log_ratio_max", "leakage_max"),
    *("accuracy", "validation_loss"),
    *("equalized_odds_difference", "demographic_parity_difference", "equal_opportunity_difference"),
)


def measured_figures(found: SweepTable) -> list[str]:
    """Those that some row has, the leading ones first."""
    measured = [
        name
        for name in found["figures"]
        if any(row["figures"][name]["mean"] is not None for row in found["rows"])
    ]
    leading = leading_figures(found, measured)
    return [*leading, *(name for name in measured if name not in leading)]


def leading_figures(found: SweepTable, measured: Sequence[str]) -> list[str]:
    """Of these those by which the front is drawn, then cost, utility and the gaps of groups."""
    plain = [name for head in _LEADING for name in measured if name.partition("[")[0] == head]
    unbounded = any(row["unbounded"] for row in found["rows"])
    # A row that nothing bounds has no cost, and that is what is to be seen of it.
    costs = ["leakage_max"] if unbounded and "leakage_max" in found["figures"] else []
    return list(dict.fromkeys([*found["front_figures"], *costs, *plain]))
