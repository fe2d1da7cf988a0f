"""The shape of a comparison of several reports.

Everywhere the order of experiments is the order in which they were asked for. A value that is None
has its reason beside it.
"""

from typing import Any, Literal

from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.privacy.guarantees.guarantee import GuaranteeLabel
from fedaudit.reports.sections.part import Answer, GateOutcome, IntervalSection, Part, Reasons

Section = Literal["privacy", "utility", "fairness"]
FigureName = tuple[Section, str, str | None]
Family = Literal["leakage", "epsilon"]
Caution = Literal[
    "degenerate",
    "other-data",
    "other-guarantee",
    "other-unit",
    "other-adjacency",
    "other-delta",
    "other-radius",
    "other-noise",
    "other-model",
    "other-loss",
    "other-outcome",
    "early-end",
]


class ComparedGuarantee(Part):
    """What an experiment guarantees, in the words of its report."""

    kind: GuaranteeKind
    label: GuaranteeLabel | None = None
    in_force: bool | None = None
    conditions: dict[str, str] | None = None
    mechanism: str
    unit: str
    adjacency: str | None
    delta: float | None
    observers: list[str]
    reasons: Reasons


class ComparedExperiment(Part):
    """One column of the comparison."""

    id: str
    name: str
    spec_hash: str
    answer: Answer | None = None
    """Whether its model may be released; None where its report is one of an earlier version."""
    verdict: str
    degenerate: bool | None = None
    """Whether the model decides nothing; None where that is not known."""
    guarantee: ComparedGuarantee
    gate_outcome: GateOutcome | None
    gate_outcome_reason: str | None
    data_fingerprint: str


class Cell(Part):
    """The figure of one experiment."""

    value: float | None
    reason: str | None
    """Why there is no value, or what the value omits."""
    interval: IntervalSection | None = None
    unbounded: bool = False
    """Whether it is a privacy cost that nothing bounds, of a run without protection: not the lack
    of a figure, and never a small one."""
    best: bool = False
    """Whether it is the best of the row beyond doubt (`best_of_row`)."""


class FigureMeaning(Part):
    """What two figures must share to be in one row."""

    section: Section
    figure: str
    attribute: str | None
    observer: str | None
    """Against whom an epsilon holds; None for the largest of all observers."""
    delta: float | None
    adjacency: str | None
    unit: str | None
    guarantee: GuaranteeKind | None
    loss: str | None

    @property
    def name(self) -> FigureName:
        """Section, figure and attribute: the name of a figure, regardless of its meaning."""
        return self.section, self.figure, self.attribute


class FigureRow(FigureMeaning):
    """One figure of all experiments.

    Figures that mean different things have rows of their own: epsilons by observer, delta,
    adjacency, unit and guarantee, leakages by guarantee, losses by the training's loss.
    """

    cells: list[Cell]
    differs: bool
    """Whether the cells show more than one value; a missing value counts as one too."""


class SpecValue(Part):
    """What one spec says at a path."""

    present: bool
    value: Any


class SpecDifference(Part):
    """A path at which the specs differ, with every default explicit; lists are one value."""

    path: str
    """Dotted, as in a sweep's grid: `privacy.noise_multiplier`."""
    values: list[SpecValue]


class Warned(Part):
    """Why figures side by side may not mean the same."""

    code: Caution
    message: str


class Axis(Part):
    """A figure by which experiments of a front are weighed."""

    section: Section
    figure: str
    attribute: str | None
    better: Literal["lower", "higher"]


class LeftOut(Part):
    """An experiment that a front cannot weigh, and why."""

    experiment_id: str
    reason: str


class FrontPoint(Part):
    """One experiment of a front."""

    experiment_id: str
    values: list[float]
    dominated_by: list[str]
    """Experiments at least as good on every axis and better on one; empty for a point on the front.
    """


class FrontKind(Part):
    """What the privacy figures of one front share."""

    family: Family
    """`leakage` under metric privacy, or `epsilon` with a delta; never both in one front."""
    guarantee: GuaranteeKind
    unit: str
    adjacency: str | None
    delta: float | None
    observer: str
    radius: float | Literal["adaptive"] | None
    """The radius within which a leakage holds: fixed, or each client's own; None for an epsilon."""
    per_layer: bool
    """Whether the leakage is a sum over layers, each with a radius of its own."""
    loss: str | None
    """The training loss, which is also the unit of loss figures."""


class Front(FrontKind):
    """The Pareto front of experiments whose privacy figures mean the same."""

    axes: list[Axis]
    experiments: list[FrontPoint]
    front: list[str]
    """The experiments that no other dominates."""
    dominated_by: dict[str, list[str]]
    """The other experiments, each with those that dominate it."""
    left_out: list[LeftOut]
    cautions: list[str]


class Comparison(Part):
    """Several reports side by side."""

    experiments: list[ComparedExperiment]
    figures: list[FigureRow]
    spec_differences: list[SpecDifference]
    warnings: list[Warned]
    fronts: list[Front]
    without_front: list[LeftOut]
