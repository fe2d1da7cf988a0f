"""Conditions that a finished experiment must meet."""

from typing import Annotated, Literal, get_args

from pydantic import Field, ValidationInfo, field_validator

from fedaudit.spec.base import SpecPart, Text

FairnessFigure = Literal[
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equalized_odds_difference",
    "equalized_odds_ratio",
    "equal_opportunity_difference",
    "equal_opportunity_ratio",
    "accuracy_difference",
    "loss_difference",
    "loss_ratio",
]
PrivacyFigure = Literal["leakage_max", "leakage_median", "participations_max", "epsilon_max"]
UtilityFigure = Literal["validation_loss", "accuracy"]
FAIRNESS_FIGURES: tuple[str, ...] = get_args(FairnessFigure)


class Gate(SpecPart):
    """One figure of the report against one bound."""

    figure: Literal[PrivacyFigure, FairnessFigure, UtilityFigure]
    op: Literal["le", "ge"]
    value: Annotated[float, Field(ge=-1e300, le=1e300)]
    attribute: Text | None = None
    """Which sensitive attribute, where the experiment has several."""
    allow_heuristic: bool = False
    """Whether a heuristic guarantee is evidence enough."""

    @field_validator("attribute")
    @classmethod
    def _figures_of_groups_have_attributes(
        cls, attribute: str | None, others: ValidationInfo
    ) -> str | None:
        figure = others.data.get("figure")
        if attribute is not None and figure is not None and figure not in FAIRNESS_FIGURES:
            raise ValueError(f"{figure} is not a figure of a sensitive attribute; leave it out")
        return attribute

    @property
    def compares_groups(self) -> bool:
        """Whether the figure is that of a sensitive attribute."""
        return self.figure in FAIRNESS_FIGURES
