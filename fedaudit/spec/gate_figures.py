"""The figures of a report that gates speak of, but for those of fairness: one row each.

A figure is added here and nowhere else: by its name and by its row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

AttackFigure = Literal[
    "epsilon_lower_bound", "membership_tpr_at_1pct", "recovered_share", "nu_protecting"
]
"""What attacks found: the worst of those of its kind (`fedaudit.reports.gates.gate_evidence`)."""
PlainFigure = Literal[
    "leakage_max",
    "leakage_median",
    "log_ratio_max",
    "participations_max",
    "epsilon_max",
    "validation_loss",
    "accuracy",
    "accuracy_over_baseline",
    "loss_under_baseline",
    "prediction_share",
    "sweep_epsilon_max",
    "sweep_log_ratio_max",
    "epsilon_lower_bound",
    "membership_tpr_at_1pct",
    "recovered_share",
    "nu_protecting",
]
FigureSection = Literal["privacy", "utility", "sweep", "attacks"]
Proof = Literal["fixed radius", "exact rates"]
"""What would make a heuristic guarantee of the figure a formal one."""


@dataclass(frozen=True, kw_only=True)
class GateFigure:
    """Where a figure stands in the report, and what it is worth as evidence."""

    section: FigureSection
    rests_on_guarantee: bool = True
    """Whether the figure bounds something by the guarantee alone. A row has to say so where it does
    not: a figure counted or measured, whatever the mechanism."""
    judges_model: bool = False
    """Whether it says how well the model decides, which a model that decides nothing may do well
    at."""
    proof: Proof = "fixed radius"
    has_delta: bool = False
    """Whether it is an epsilon, which holds at the delta and adjacency of the guarantee."""


PLAIN_FIGURES: Mapping[PlainFigure, GateFigure] = {
    "leakage_max": GateFigure(section="privacy"),
    "leakage_median": GateFigure(section="privacy"),
    "log_ratio_max": GateFigure(section="privacy"),
    "participations_max": GateFigure(section="privacy", rests_on_guarantee=False),
    "epsilon_max": GateFigure(section="privacy", proof="exact rates", has_delta=True),
    "validation_loss": GateFigure(section="utility", rests_on_guarantee=False, judges_model=True),
    "accuracy": GateFigure(section="utility", rests_on_guarantee=False, judges_model=True),
    "accuracy_over_baseline": GateFigure(section="utility", rests_on_guarantee=False),
    "loss_under_baseline": GateFigure(section="utility", rests_on_guarantee=False),
    "prediction_share": GateFigure(section="utility", rests_on_guarantee=False),
    "sweep_epsilon_max": GateFigure(section="sweep", proof="exact rates"),
    "sweep_log_ratio_max": GateFigure(section="sweep"),
    "epsilon_lower_bound": GateFigure(section="attacks", rests_on_guarantee=False),
    "membership_tpr_at_1pct": GateFigure(section="attacks", rests_on_guarantee=False),
    "recovered_share": GateFigure(section="attacks", rests_on_guarantee=False),
    "nu_protecting": GateFigure(section="attacks", rests_on_guarantee=False),
}
