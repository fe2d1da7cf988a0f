"""Warnings where figures that stand side by side may not mean the same."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fedaudit.reports.checks import value_at
from fedaudit.reports.comparison.parts import Caution, Warned
from fedaudit.reports.report import Report
from fedaudit.reports.sections.utility import chosen_by_losses

_UNPROTECTED = "none"


class _Rule(NamedTuple):
    """Warn of the experiments for which `of` gives more than one distinct value."""

    code: Caution
    of: Callable[[Report], Any]
    message: str


def _spec(report: Report, *paths: str) -> list[Any]:
    return [value_at(report.spec, *path.split(".")) for path in paths]


def _rules(favourable: Any) -> Any:
    """What is counted, whatever it is called."""
    if isinstance(favourable, list):
        return [_rules(one) for one in favourable]
    if not isinstance(favourable, dict):
        return favourable
    return {name: value for name, value in favourable.items() if name != "label"}


_ALWAYS = (
    _Rule(
        "other-data",
        lambda report: report.provenance.data_fingerprint,
        "The experiments ran on different data: losses and gaps were measured on other rows.",
    ),
    _Rule(
        "other-guarantee",
        lambda report: report.guarantee.kind,
        "The guarantees are of different kinds: a heuristic figure rests on no theorem, and "
        "without a guarantee nothing is bounded.",
    ),
    _Rule(
        "other-loss",
        lambda report: _spec(
            report, "training.loss", "federation.scale", "federation.target", "federation.classes"
        ),
        "Losses are measured differently: the loss, the target or its scale is another one.",
    ),
    _Rule(
        "other-outcome",
        lambda report: [
            _rules(value_at(report.spec, "fairness", "favourable")),
            *_spec(
                report,
                "fairness.sensitive",
                "fairness.intersections",
                "fairness.edges",
                "fairness.reference_group",
                "fairness.minimum_group_size",
                "fairness.minimum_group_clients",
            ),
        ],
        "Gaps are measured differently: the sensitive attributes, the favourable outcome, the "
        "reference group or the smallest group that is shown is another one.",
    ),
)
_OF_PROTECTED = (
    _Rule(
        "other-unit",
        lambda report: report.guarantee.unit,
        "The guarantees protect different units: a record's figure says less than a client's.",
    ),
    _Rule(
        "other-noise",
        lambda report: _spec(report, "privacy.noise"),
        "Some experiments drew their noise from the seed: their models are not for release.",
    ),
)
_OF_EPSILON = (
    _Rule(
        "other-adjacency",
        lambda report: report.guarantee.adjacency,
        "Epsilons are counted under different adjacencies and cannot be compared.",
    ),
    _Rule(
        "other-delta",
        lambda report: report.guarantee.delta,
        "Epsilons are counted at different deltas and cannot be compared.",
    ),
)
_OF_LEAKAGE = (
    _Rule(
        "other-radius",
        lambda report: _spec(report, "privacy.radius", "privacy.per_layer"),
        "Leakages hold within different radii: the same figure within a larger one is stronger.",
    ),
    _Rule(
        "other-model",
        lambda report: [report.data.parameters, *_spec(report, "federation.scale")],
        "Leakages are counted over models of different size or scale, whose distances are not "
        "the same.",
    ),
)


EARLY_END = (
    "Validation losses ended a run whose epsilon is reported: what is proven is the larger "
    "epsilon of all rounds that were planned, which its guarantee's statement gives."
)


DEGENERATE = (
    "The model of an experiment decides nothing: its gaps, its accuracy and its loss are no better "
    "or worse than another's, however small they are."
)


def ended_early(report: Report) -> bool:
    """Whether the epsilon that is reported is that of fewer rounds than were planned."""
    return report.privacy.epsilon_max is not None and chosen_by_losses(report.utility.stopped_by)


def warnings(reports: Sequence[Report]) -> list[Warned]:
    """The caveats of reading these reports side by side."""
    protected = [one for one in reports if one.guarantee.kind != _UNPROTECTED]
    with_epsilon = [one for one in protected if one.privacy.epsilon_max is not None]
    with_leakage = [one for one in protected if one.privacy.leakage_max is not None]
    degenerate = any(one.utility.degenerate for one in reports)
    return [
        *([Warned(code="degenerate", message=DEGENERATE)] if degenerate else []),
        *_broken(_ALWAYS, reports),
        *_broken(_OF_PROTECTED, protected),
        *_broken(_OF_EPSILON, with_epsilon),
        *_broken(_OF_LEAKAGE, with_leakage),
        *(
            [Warned(code="early-end", message=EARLY_END)]
            if any(map(ended_early, protected))
            else []
        ),
    ]


def _broken(rules: Sequence[_Rule], reports: Sequence[Report]) -> list[Warned]:
    return [
        Warned(code=rule.code, message=rule.message)
        for rule in rules
        if any(rule.of(one) != rule.of(reports[0]) for one in reports)
    ]
