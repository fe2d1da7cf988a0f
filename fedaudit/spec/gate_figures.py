"""The figures of a report that gates speak of, but for those of fairness: one row each.

A figure is added here and nowhere else: by its name and by its row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

PlainFigure = Literal[
    "leakage_max",
    "leakage_median",
    "log_ratio_max",
    "participations_max",
    "epsilon_max",
    "validation_loss",
    "accuracy",
]
FigureSection = Literal["privacy", "utility"]
Proof = Literal["fixed radius", "exact rates"]
"""What would make a heuristic guarantee of the figure a formal one."""


@dataclass(frozen=True, kw_only=True)
class GateFigure:
    """Where a figure stands in the report, and what it is worth as evidence."""

    section: FigureSection
    rests_on_guarantee: bool = True
    """Whether the figure bounds something by the guarantee alone. A row has to say so where it does
    not: a figure counted or measured, whatever the mechanism."""
    proof: Proof = "fixed radius"
    has_delta: bool = False
    """Whether it is an epsilon, which holds at the delta and adjacency of the guarantee."""


PLAIN_FIGURES: Mapping[PlainFigure, GateFigure] = {
    "leakage_max": GateFigure(section="privacy"),
    "leakage_median": GateFigure(section="privacy"),
    "log_ratio_max": GateFigure(section="privacy"),
    "participations_max": GateFigure(section="privacy", rests_on_guarantee=False),
    "epsilon_max": GateFigure(section="privacy", proof="exact rates", has_delta=True),
    "validation_loss": GateFigure(section="utility", rests_on_guarantee=False),
    "accuracy": GateFigure(section="utility", rests_on_guarantee=False),
}
