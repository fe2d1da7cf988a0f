"""The shape of a comparison of several reports, its warnings where figures side by side may not
mean the same, and its fronts. Everywhere the order of experiments is the order in which they were
asked for. A value that is None has its reason beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from fedaudit.privacy.accounting.privacy_events import GuaranteeKind
from fedaudit.privacy.guarantees.guarantee import GuaranteeLabel
from fedaudit.reports.checks import value_at
from fedaudit.reports.figures import Section, direction, figures_of, stated_costs
from fedaudit.reports.readings.facts import text_at
from fedaudit.reports.report import Report
from fedaudit.reports.sections.guarantee import proven_cost
from fedaudit.reports.sections.part import Answer, GateOutcome, IntervalSection, Part, Reasons
from fedaudit.reports.sections.utility import chosen_by_losses

FigureName = tuple[Section, str, str | None]
Family = Literal["leakage", "epsilon"]
Caution = Literal[
    "degenerate",
    "alarm",
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
    "other-method",
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
    """Whether it is a privacy cost without bound, of a run without protection: neither a missing
    figure nor a small one."""
    best: bool = False
    """Whether it is the best of the row beyond doubt (`best_cell`)."""


class FigureMeaning(Part):
    """What two figures must share to be in one row."""

    section: Section
    figure: str
    attribute: str | None
    observer: str | None
    """The observer that an epsilon holds against; None for the largest of all observers."""
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

    Figures that mean different things have their own rows: epsilons by observer, delta,
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
    """Experiments that are at least as good on every axis and better on one, with a guarantee in
    force where this one's is; empty for a point on the front."""


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
    """Whether the leakage is a sum over layers, each with a separate radius."""
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


def _at(report: Report, path: str) -> Any:
    section, _, rest = path.partition(".")
    if section in ("provenance", "guarantee", "data"):
        return getattr(getattr(report, section), rest)
    target = report.spec["federation"].get("target")
    found = value_at(report.spec, *(target if one == "*" else one for one in path.split(".")))
    return _rules(found) if path.endswith(".favourable") else found


def _rules(favourable: Any) -> Any:
    """What is counted, whatever it is called."""
    if isinstance(favourable, list):
        return [_rules(one) for one in favourable]
    if not isinstance(favourable, dict):
        return favourable
    return {name: value for name, value in favourable.items() if name != "label"}


_OF_GROUPS = (
    *("favourable", "sensitive", "intersections", "edges", "groups", "exclude"),
    *("reference_group", "minimum_group_size", "minimum_group_clients"),
)
_IN_NO_GROUP = ("federation.missing_values", "federation.join")
GROUPED_BY = (*(f"fairness.{name}" for name in _OF_GROUPS), *_IN_NO_GROUP)
MEASURED_BY = ("training.loss", "federation.scale.*", "federation.target", "federation.classes")
_PATHS: Sequence[tuple[Caution, Sequence[str]]] = (
    ("other-data", ["provenance.data_fingerprint"]),
    ("other-guarantee", ["guarantee.kind"]),
    ("other-loss", MEASURED_BY),
    ("other-outcome", GROUPED_BY),
    ("other-unit", ["guarantee.unit"]),
    ("other-noise", ["privacy.noise"]),
    ("other-adjacency", ["guarantee.adjacency"]),
    ("other-delta", ["guarantee.delta"]),
    ("other-radius", ["privacy.radius", "privacy.per_layer"]),
    ("other-model", ["data.parameters", "federation.scale"]),
)
"""What is warned of, and the paths of a report, or below its spec, at which experiments differ; `*`
is the name of the target."""
_WORDS: Mapping[Caution, str] = {
    "degenerate": "The model of an experiment decides nothing: its gaps, its accuracy and its loss "
    "are no better or worse than another's, however small they are.",
    "alarm": "An attack raised an alarm against the guarantee of an experiment: what was found "
    "contradicts its privacy figures.",
    "other-data": "The experiments ran on different data: losses and gaps were measured on other "
    "rows.",
    "other-guarantee": "The guarantees are of different kinds: a heuristic figure rests on no "
    "theorem, and without a guarantee nothing is bounded.",
    "other-loss": "Losses are measured differently: the loss, the target or its scale is another "
    "one.",
    "other-outcome": "Gaps are measured differently: the sensitive attributes, their groups, the "
    "favourable outcome, the reference group or the smallest group that is shown is another one.",
    "other-method": "Figures of some experiments are of models that stay with clients, those of "
    "others of the common model, which may leave.",
    "other-unit": "The guarantees protect different units: a record's figure says less than a "
    "client's.",
    "other-noise": "Some experiments drew their noise from the seed: their models are not for "
    "release.",
    "other-adjacency": "Epsilons are counted under different adjacencies and cannot be compared.",
    "other-delta": "Epsilons are counted at different deltas and cannot be compared.",
    "other-radius": "Leakages hold within different radii: the same figure within a larger one is "
    "stronger.",
    "other-model": "Leakages are counted over models of different size or scale, whose distances "
    "are not the same.",
    "early-end": "Validation losses ended a run whose epsilon is reported: what is proven is the "
    "larger epsilon of all rounds that were planned, which is shown here where its report has it.",
}


def is_contradicted(report: Report) -> bool:
    """Whether an attack raised an alarm."""
    return any(one.alarm is not None for one in report.attacks)


def ended_early(report: Report) -> bool:
    """Whether the epsilon that is reported is that of fewer rounds than were planned."""
    return report.privacy.epsilon_max is not None and chosen_by_losses(report.utility.stopped_by)


def warnings(reports: Sequence[Report]) -> list[Warned]:
    """The caveats of reading these reports side by side."""
    protected = [one for one in reports if one.guarantee.kind != "none"]
    compared = dict.fromkeys(dict(_PATHS), reports)
    compared |= dict.fromkeys(("other-unit", "other-noise"), protected)
    with_epsilon = [one for one in protected if one.privacy.epsilon_max is not None]
    compared |= dict.fromkeys(("other-adjacency", "other-delta"), with_epsilon)
    with_leakage = [one for one in protected if one.privacy.leakage_max is not None]
    compared |= dict.fromkeys(("other-radius", "other-model"), with_leakage)
    found: list[Caution] = []
    if any(one.utility.degenerate for one in reports):
        found.append("degenerate")
    if any(map(is_contradicted, reports)):
        found.append("alarm")
    methods = [one.utility.method for one in reports]
    if len({one is not None and one.of_common_model is False for one in methods}) > 1:
        found.append("other-method")
    found += [
        code
        for code, paths in _PATHS
        for some in [compared[code]]
        if any(_at(one, path) != _at(some[0], path) for one in some for path in paths)
    ]
    if any(map(ended_early, protected)):
        found.append("early-end")
    return [Warned(code=one, message=_WORDS[one]) for one in found]


def dominated_by(points: Sequence[Sequence[float]]) -> list[list[int]]:
    """The indices of the points that dominate each point; none for a point on the front. Points
    have one finite value per axis; lower is better. A point dominates another if it is nowhere
    worse and somewhere better, so equal points do not dominate each other."""

    def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
        pairs = list(zip(one, other, strict=True))
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)

    return [[i for i, other in enumerate(points) if dominates(other, point)] for point in points]


LEADING_GAPS = ("equalized_odds_difference", "demographic_parity_difference", "loss_difference")
"""The figure of fairness by default: the first that any of the experiments has."""
_NO_FIGURE = "it has no guarantee, so there is no privacy figure to weigh"
_CONTRADICTED = "an attack raised an alarm, so that its privacy figure holds for nothing"
_OTHER_DATA = (
    "Its experiments ran on different data, so their gaps and losses were measured on other rows."
)
_OTHER_MODEL = (
    "Its models differ in size, and a leakage counts within distances between models of one kind."
)


Figures = Mapping[FigureName, tuple[float | None, str | None]]
"""What a report has on the axes of a front: the value, or None and the reason."""


def fronts(
    reports: Sequence[Report], *, fairness: str | None, utility: str | None
) -> tuple[list[Front], list[LeftOut]]:
    """A front for every kind and sensitive attribute, and the experiments that belong to no front.
    `fairness`, `utility`: the figures of these axes; None chooses them for each front."""
    kinds: dict[FrontKind, list[tuple[Report, Figures]]] = {}
    without = []
    for report in reports:
        alarmed = is_contradicted(report)
        found = [] if alarmed else list(_kinds(report))
        figures: Figures = {
            (one.section, one.figure, one.attribute or None): (one.value, one.reason)
            for one in figures_of(report)
        }
        for kind, cost in found:
            own = {**figures, _cost_of(kind): cost}
            kinds.setdefault(kind, []).append((report, own))
        if not found:
            reason = _CONTRADICTED if alarmed else _NO_FIGURE
            without.append(LeftOut(experiment_id=report.experiment.id, reason=reason))
    made = []
    for kind, weighed in kinds.items():
        names = dict.fromkeys(part.attribute for report, _ in weighed for part in report.fairness)
        for name in names or [None]:
            axes = _axes(kind, weighed, name, fairness=fairness, utility=utility)
            made.append(_front(kind, weighed, axes))
    return made, without


def _cost_of(kind: FrontKind) -> FigureName:
    return "privacy", f"{kind.family}_max", None


def _kinds(report: Report) -> Iterator[tuple[FrontKind, tuple[float | None, str | None]]]:
    """The kind of front that a report belongs to, and its privacy figure there."""
    guarantee, privacy, costs = report.guarantee, report.privacy, stated_costs(report)
    if guarantee.kind == "none":
        return
    kind = FrontKind(
        family="leakage",
        guarantee=guarantee.kind,
        unit=guarantee.unit,
        adjacency=guarantee.adjacency,
        delta=guarantee.delta,
        observer="",
        radius=value_at(report.spec, "privacy", "radius"),
        per_layer=value_at(report.spec, "privacy", "per_layer") is True,
        loss=text_at(report.spec, "training", "loss"),
    )
    if privacy.leakage_max is not None:
        for observer in guarantee.observers:
            leaked = proven_cost(costs, "leakage_max")
            yield kind.model_copy(update={"observer": observer}), leaked
    for one in privacy.epsilon:
        terms = one.model_dump(include={"adjacency", "delta", "observer"})
        other = {"family": "epsilon", "radius": None, "per_layer": False, **terms}
        spent = proven_cost(costs, "epsilon_max", observer=one.observer)
        yield kind.model_copy(update=other), spent


def _axes(
    kind: FrontKind,
    weighed: Sequence[tuple[Report, Figures]],
    attribute: str | None,
    *,
    fairness: str | None,
    utility: str | None,
) -> list[Axis]:
    named = [_cost_of(kind)]
    if attribute is not None:
        gaps: list[FigureName] = [("fairness", name, attribute) for name in LEADING_GAPS]
        measured = (
            name
            for name in gaps
            if any(figures.get(name, (None, None))[0] is not None for _, figures in weighed)
        )
        usual = next(measured, gaps[0])
        named.append(("fairness", fairness, attribute) if fairness else usual)
    accurate = all(report.utility.accuracy is not None for report, _ in weighed)
    named.append(("utility", utility or ("accuracy" if accurate else "validation_loss"), None))
    return [
        Axis(section=part, figure=name, attribute=of, better=direction(name) or "lower")
        for part, name, of in named
    ]


def _front(kind: FrontKind, weighed: Sequence[tuple[Report, Figures]], axes: list[Axis]) -> Front:
    reports, values, left_out = [], [], []
    for report, figures in weighed:
        found = [
            figures.get((one.section, one.figure, one.attribute))
            or (None, f"{one.attribute!r} is not one of its sensitive attributes")
            for one in axes
        ]
        reasons = [reason or "a figure is missing" for value, reason in found if value is None]
        if reasons:
            stated = "; ".join(reasons)
            left_out.append(LeftOut(experiment_id=report.experiment.id, reason=stated))
        else:
            reports.append(report)
            values.append([value for value, _ in found if value is not None])
    cautions = []
    if len({one.provenance.data_fingerprint for one in reports}) > 1:
        cautions.append(_OTHER_DATA)
    if kind.family == "leakage" and len({one.data.parameters for one in reports}) > 1:
        cautions.append(_OTHER_MODEL)
    if any(map(ended_early, reports)):
        cautions.append(_WORDS["early-end"])
    losses = [
        [-value if axis.better == "higher" else value for value, axis in zip(of, axes, strict=True)]
        for of in values
    ]
    points = []
    for report, of, better in zip(reports, values, dominated_by(losses), strict=True):
        # A guarantee that is not in force protects no one, however small its figure.
        by = [
            reports[one].experiment.id
            for one in better
            if reports[one].guarantee.in_force is True or report.guarantee.in_force is not True
        ]
        points.append(FrontPoint(experiment_id=report.experiment.id, values=of, dominated_by=by))
    return Front(
        **kind.model_dump(),
        axes=axes,
        experiments=points,
        front=[one.experiment_id for one in points if not one.dominated_by],
        dominated_by={one.experiment_id: one.dominated_by for one in points if one.dominated_by},
        left_out=left_out,
        cautions=cautions,
    )
