"""Conditions that a finished experiment must meet."""

from typing import TYPE_CHECKING, Annotated, Literal, cast

from pydantic import Field, ValidationInfo, field_validator

from fedaudit.spec.base import SpecPart, Text
from fedaudit.spec.gate_figures import PLAIN_FIGURES, GateFigure, PlainFigure
from fedaudit.spec.metrics import FAIRNESS_FIGURES

GateOp = Literal["le", "ge"]
if TYPE_CHECKING:
    # The list is the table of metrics: pydantic reads a table, a type checker does not.
    FairnessFigure = str
    AnyFigure = str
else:
    FairnessFigure = Literal[FAIRNESS_FIGURES]
    AnyFigure = Literal[PlainFigure, FairnessFigure]


class Gate(SpecPart):
    """One figure of the report against one bound."""

    figure: AnyFigure
    op: GateOp
    value: Annotated[float, Field(ge=-1e300, le=1e300)]
    attribute: Text | None = None
    """Which sensitive attribute; unless given, each one of the report has to meet the bound."""
    allow_heuristic: bool = False
    """Whether a heuristic guarantee is evidence enough."""
    allow_conditional: bool = False
    """Whether a figure is evidence that bounds some datasets only, such as n/nu within a radius in
    which nothing keeps the uploads."""
    allow_simulation: bool = False
    """Whether a guarantee is evidence that is not in force, because the noise was simulated: for
    research. Such a run protects nobody."""
    allow_degenerate: Annotated[bool, Field(exclude_if=lambda allowed: not allowed)] = False
    """Whether rates, gaps, accuracy and loss are evidence of a model that decides nothing, or that
    is not shown to be better than a constant prediction."""

    allow_declared: Annotated[bool, Field(exclude_if=lambda allowed: not allowed)] = False
    """Whether a guarantee and counts are evidence that a trainer elsewhere declares of itself."""
    allow_personal_models: Annotated[bool, Field(exclude_if=lambda allowed: not allowed)] = False
    """Whether figures of models that clients make for themselves are evidence, where training
    leaves a common model of which they are not: for clients that use their own alone."""

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
    def plain_figure(self) -> GateFigure | None:
        """Where the figure stands and what it rests on; None for one of a sensitive attribute.

        Raises KeyError for a figure that is neither: it has no row in PLAIN_FIGURES.
        """
        if self.figure in FAIRNESS_FIGURES:
            return None
        return PLAIN_FIGURES[cast(PlainFigure, self.figure)]

    @property
    def judges_model(self) -> bool:
        """Whether the figure says how well or how evenly the model decides, which one that decides
        nothing does by chance."""
        figure = self.plain_figure
        return figure is None or figure.judges_model

    @property
    def measures_predictions(self) -> bool:
        """Whether the figure is of what somebody's model predicts."""
        figure = self.plain_figure
        return figure is None or figure.section == "utility"

    @property
    def compares_groups(self) -> bool:
        """Whether the figure is that of a sensitive attribute."""
        return self.plain_figure is None
