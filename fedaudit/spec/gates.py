"""Conditions that a finished experiment must meet."""

from typing import Annotated, Literal

from pydantic import Field

from fedaudit.spec.base import SpecPart, Text

FairnessFigure = Literal[
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equalized_odds_difference",
    "equalized_odds_ratio",
    "equal_opportunity_difference",
    "equal_opportunity_ratio",
]
PrivacyFigure = Literal["leakage_max", "leakage_median", "participations_max", "epsilon_max"]
UtilityFigure = Literal["validation_loss", "accuracy"]


class Gate(SpecPart):
    """One figure of the report against one bound."""

    figure: Literal[PrivacyFigure, FairnessFigure, UtilityFigure]
    op: Literal["le", "ge"]
    value: Annotated[float, Field(ge=-1e300, le=1e300)]
    attribute: Text | None = None
    """Which sensitive attribute, where the experiment has several."""
    allow_heuristic: bool = False
    """Whether a heuristic guarantee is evidence enough."""
