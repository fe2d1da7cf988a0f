"""The shape of a comparison of several reports.

Everywhere the order of experiments is the order in which they were asked for. A value that is None
has its reason beside it.
"""

from typing import Any, Literal

from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.reports.document.document import Outcome, Reasons
from fedaudit.reports.document.part import Part

Section = Literal["privacy", "utility", "fairness"]
Family = Literal["leakage", "epsilon"]
Caution = Literal[
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
    mechanism: str
    unit: str
    """Whose data the guarantee speaks of."""
    adjacency: str | None
    delta: float | None
    observers: list[str]
    reasons: Reasons


class ComparedExperiment(Part):
    """One column of the comparison."""

    id: str
    name: str
    spec_hash: str
    verdict: str
    guarantee: ComparedGuarantee
    gate_outcome: Outcome | None
    gate_outcome_reason: str | None
    data_fingerprint: str
    """Of the federation's content."""


class Cell(Part):
    """The figure of one experiment."""

    value: float | None
    reason: str | None
    """Why there is no value, or what the value leaves out."""


class FigureRow(Part):
    """One figure of all experiments.

    Figures that mean different things have rows of their own: epsilons by observer, delta,
    adjacency, unit and guarantee, leakages by guarantee, losses by the training's loss.
    """

    section: Section
    figure: str
    attribute: str | None
    """The sensitive attribute of a fairness figure."""
    observer: str | None
    """Before whom an epsilon holds; None for the largest of all observers."""
    delta: float | None
    adjacency: str | None
    unit: str | None
    """Whose data a privacy figure speaks of."""
    guarantee: GuaranteeKind | None
    """How far a privacy figure is proven."""
    loss: str | None
    """The loss that a loss is measured in."""
    cells: list[Cell]
    """One an experiment."""
    differs: bool
    """Whether the cells show more than one value, a missing one being a value too."""


class SpecValue(Part):
    """What one spec says at a path."""

    present: bool
    """False where the spec has no such path."""
    value: Any
    """None where it is not there."""


class SpecDifference(Part):
    """A path at which the specs differ, with every default explicit; lists are one value."""

    path: str
    """Dotted, as in a sweep's grid: `privacy.noise_multiplier`."""
    values: list[SpecValue]
    """One an experiment."""


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
    """One an axis."""
    dominated_by: list[str]
    """Experiments at least as good on every axis and better on one; empty on the front."""


class Front(Part):
    """The Pareto front of experiments whose privacy figures mean the same."""

    family: Family
    """`leakage` under metric privacy, or `epsilon` with a delta: never in one front."""
    guarantee: GuaranteeKind
    unit: str
    adjacency: str | None
    delta: float | None
    observer: str
    radius: float | Literal["adaptive"] | None
    """Within which a leakage holds: the fixed one, or each client's own; None for an epsilon."""
    per_layer: bool
    """Whether a leakage adds up over layers, each within a radius of its own."""
    loss: str | None
    """The loss that was trained, and in which losses are measured."""
    axes: list[Axis]
    experiments: list[FrontPoint]
    front: list[str]
    """Those that nothing dominates."""
    dominated_by: dict[str, list[str]]
    """The others, each with what dominates it."""
    left_out: list[LeftOut]
    cautions: list[str]
    """What to mind: experiments of different data, say."""


class Comparison(Part):
    """Several reports side by side."""

    experiments: list[ComparedExperiment]
    figures: list[FigureRow]
    spec_differences: list[SpecDifference]
    warnings: list[Warned]
    fronts: list[Front]
    without_front: list[LeftOut]
    """Experiments that belong to no front at all."""
