"""The individual figures of a report by which it is found, compared and sorted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fedaudit.reports.report import Report, read_report
from fedaudit.reports.sections.guarantee import PRIVACY_COSTS, is_in_force, proven_cost
from fedaudit.reports.sections.part import IntervalSection
from fedaudit.spec.metrics import (
    FAIRNESS_FIGURES,
    HEADLINE_WITHOUT_OUTCOME,
    ROUND_METRICS,
    is_ratio,
)
from fedaudit.stored import IndexedFigure

Section = Literal["privacy", "utility", "fairness"]
_COUNTS = ("participations_max", "refusals", "withheld")
PRIVACY = (*PRIVACY_COSTS, *_COUNTS)
COUNTED = frozenset(_COUNTS)
"""Plain counts, valid under every mechanism; every other privacy figure rests on the guarantee."""
Direction = Literal["lower", "higher"]
UTILITY: Mapping[str, Direction | None] = {
    "validation_loss": "lower",
    # For stopping alone: the more hypotheses there are, the more optimistic it is.
    "selection_loss": None,
    "accuracy": "higher",
    # Of a constant prediction: they say what the held-out people are like.
    "baseline_accuracy": None,
    "baseline_loss": None,
    "accuracy_over_baseline": "higher",
    "weighted_accuracy_over_baseline": "higher",
    "loss_under_baseline": "higher",
    "prediction_share": None,
    "auc": "higher",
    "balanced_accuracy": "higher",
    "precision": "higher",
    "recall": "higher",
    "brier": "lower",
    "expected_calibration_error": "lower",
    "rounds": None,
    "collapsed_rounds": None,
}
"""Which way each figure is better; None where neither is."""
FAIRNESS = FAIRNESS_FIGURES
FIGURES = (*PRIVACY, *UTILITY, *FAIRNESS)
"""All names; a fairness figure belongs to an attribute, an epsilon may belong to an observer."""


def direction(name: str) -> Direction | None:
    """Which way a figure, as `accuracy` or `loss_ratio[sex]`, is better; None where neither is."""
    plain = name.partition("[")[0]
    if plain == "participations_max":
        return None
    return UTILITY.get(plain, "higher" if is_ratio(plain) else "lower")


@dataclass(frozen=True, kw_only=True)
class ReportFigure(IndexedFigure):
    """One figure of a document. A value of None has its reason; a reason beside a value states what
    it omits."""

    section: Section
    interval: IntervalSection | None = None


def parsed(document: Mapping[str, Any]) -> Report:
    """Parse the report in a stored document. Raises ValueError where it does not have that form."""
    report = read_report(document)
    guarantee = report.guarantee.model_copy(update={"in_force": is_in_force(document)})
    return report.model_copy(update={"guarantee": guarantee})


def stated_costs(report: Report) -> dict[str, Any]:
    """The sections from which `proven_cost` reads."""
    return report.model_dump(include={"privacy", "sweep", "repeats"})


def figures_of(report: Report) -> list[ReportFigure]:
    """Every figure: privacy, utility, then fairness by attribute; each key occurs once. Of a cost
    it is what is proven."""
    privacy, guarantee = report.privacy, report.guarantee
    counted = privacy.epsilon_max is not None
    terms = {"delta": guarantee.delta, "adjacency": guarantee.adjacency} if counted else {}
    costs = stated_costs(report)

    def plain(section: Section, part: Any, name: str, **terms: Any) -> ReportFigure:
        value, reason = getattr(part, name), part.reasons.get(name)
        if name in PRIVACY_COSTS:
            value, reason = proven_cost(costs, name)
        return ReportFigure(section=section, figure=name, value=value, reason=reason, **terms)

    found = [
        plain("privacy", privacy, name, **(terms if name == "epsilon_max" else {}))
        for name in PRIVACY
    ]
    found += [
        ReportFigure(
            section="privacy",
            figure="epsilon_max",
            **one.model_dump(include={"observer", "delta", "adjacency"}),
            value=value,
            reason=reason,
        )
        for one in privacy.epsilon
        for value, reason in [proven_cost(costs, "epsilon_max", observer=one.observer)]
    ]
    found += [plain("utility", report.utility, name) for name in UTILITY]
    found += [
        ReportFigure(
            section="fairness",
            figure=name,
            attribute=section.attribute,
            value=metric.value,
            reason=metric.reason,
            interval=metric.interval,
        )
        for section in report.fairness
        for name, metric in section.metrics.items()
    ]
    return found


@dataclass(frozen=True)
class LargestGap:
    """The figure with the largest value."""

    figure: str
    attribute: str
    value: float
    unmeasured: tuple[str, ...]
    """Attributes without any such figure, whose gap may be larger."""


def largest_gap(figures: Iterable[IndexedFigure]) -> LargestGap | None:
    """The largest difference of rates between groups over all attributes, by any of the metrics;
    where no outcome is favourable, the largest difference of losses; None where there is neither.
    No single metric serves all: an attribute that lacks it could hide its gap."""
    of_attributes = [one for one in figures if one.attribute]
    for metrics in (ROUND_METRICS, (HEADLINE_WITHOUT_OUTCOME,)):
        found = [
            (one.value, one.figure, one.attribute)
            for one in of_attributes
            if one.figure in metrics and one.value is not None and one.attribute
        ]
        if found:
            value, figure, attribute = max(found, key=lambda one: one[0])
            measured = {name for _, _, name in found}
            known = dict.fromkeys(str(one.attribute) for one in of_attributes)
            unmeasured = tuple(name for name in known if name not in measured)
            return LargestGap(figure, attribute, value, unmeasured)
    return None
