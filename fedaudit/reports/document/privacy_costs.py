"""Which figures say what privacy cost, and the word for a cost that nothing bounds."""

PRIVACY_COSTS = (
    "leakage_median",
    "leakage_max",
    "leakage_per_release",
    "log_ratio_max",
    "epsilon_max",
)
UNBOUNDED = "unbounded"
"""Never "none", a dash or a blank, all of which read as no cost beside the costs of other runs."""


def is_unbounded(guarantee_kind: str, figure: str) -> bool:
    """Whether this figure is a cost of a run without protection, so that nothing bounds it."""
    return guarantee_kind == "none" and figure in PRIVACY_COSTS
