"""The section `fairness`, from whichever counts are published."""

from collections.abc import Mapping, Sequence
from typing import assert_never

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import Figure, gaps, score_gaps
from fedaudit.fairness.intervals import METHOD, Interval, rate_intervals, score_intervals
from fedaudit.fairness.published_counts import ExactCounts, NoisedCounts, RoundedCounts
from fedaudit.reports.report_progress import Progressed, unfollowed
from fedaudit.reports.sections.exact_fairness import (
    NOT_HANDED_OVER,
    client_averaged,
    group_gains,
    group_sections,
    hypothesis_sections,
    interval_section,
    privacy_cost_by_group,
    with_nulls,
)
from fedaudit.reports.sections.fairness import FairnessSection, MetricSection
from fedaudit.reports.sections.material import ScoredMaterial
from fedaudit.reports.sections.noised_counts import WITHHELD, noised_section
from fedaudit.reports.sections.part import IntervalSection, LastRounds
from fedaudit.reports.sections.rounded_counts import rounded_section
from fedaudit.spec.fairness import Fairness, Intervals
from fedaudit.spec.fairness_agreement import publishes_noised_rounds
from fedaudit.spec.metrics import METRICS, SCORE_METRICS


def fairness_sections(
    material: ScoredMaterial, *, progressed: Progressed = unfollowed
) -> list[FairnessSection]:
    """One section for each attribute: the sensitive attributes of the spec, then intersections.

    `progressed` is called between their parts.
    """
    return with_last_rounds(_published_sections(material, progressed), material)


def _published_sections(material: ScoredMaterial, progressed: Progressed) -> list[FairnessSection]:
    attributes = material.spec.fairness.attributes
    match material.published:
        case NoisedCounts():
            return [noised_section(material, name, material.published) for name in attributes]
        case RoundedCounts():
            rounder = material.published.rounder
            exact = exact_sections(material, progressed=progressed)
            return [rounded_section(one, material, rounder) for one in exact]
        case ExactCounts():
            return exact_sections(material, progressed=progressed)
        case _:
            assert_never(material.published)


def exact_sections(
    material: ScoredMaterial, *, progressed: Progressed = unfollowed
) -> list[FairnessSection]:
    """The sections from the counts as they are, whatever is published."""
    return [
        _section(material, attribute, stream, progressed)
        for stream, attribute in enumerate(material.spec.fairness.attributes)
    ]


def _section(
    material: ScoredMaterial, attribute: str, stream: int, progressed: Progressed
) -> FairnessSection:
    """`stream`: the attribute's position, by which its permutations are drawn."""
    values = material.federation.attributes[attribute]
    disclosure = material.disclosures[attribute]
    by_hypothesis, why_none = hypothesis_sections(
        material.result.by_hypothesis.get(attribute),
        values,
        disclosure,
        material.hypothesis_disclosures.get(attribute),
    )
    averaged, why_not_averaged = client_averaged(material, attribute, disclosure)
    progressed()
    costs, why_no_costs = privacy_cost_by_group(material, attribute, disclosure.rule)
    combined = material.spec.fairness.combinations.get(attribute)
    gains = group_gains(material, attribute)
    progressed()
    metrics = _metrics(material, attribute, disclosure)
    progressed()
    metrics = with_nulls(metrics, material, attribute, disclosure, stream=stream)
    progressed()
    return FairnessSection(
        attribute=attribute,
        intersection_of=None if combined is None else list(combined),
        reference_group=None if disclosure.reference is None else values[disclosure.reference],
        groups=group_sections(
            values,
            material.result.fairness[attribute].sum(axis=0),
            disclosure,
            scores=material.result.scores.get(attribute),
            root_mean=material.spec.training.root_mean,
            gains=gains,
        ),
        metrics=metrics,
        by_hypothesis=by_hypothesis,
        by_hypothesis_reason=why_none,
        client_averaged=averaged,
        client_averaged_reason=why_not_averaged,
        privacy_cost_by_group=costs,
        privacy_cost_by_group_reason=why_no_costs,
        cross_check_reason="the rows were not handed over, so nothing was computed twice",
    )


def _metrics(
    material: ScoredMaterial, attribute: str, disclosure: Disclosure
) -> dict[str, MetricSection]:
    asked = material.spec.fairness.intervals
    intervals = {}
    if asked is not None:
        intervals = _intervals(material, attribute, disclosure, asked.level)
    return {
        figure.metric: _metric(figure, asked, intervals.get(figure.metric))
        for figure in _figures(material, attribute, disclosure)
    }


def _figures(material: ScoredMaterial, attribute: str, disclosure: Disclosure) -> list[Figure]:
    found = gaps(material.result.fairness[attribute].sum(axis=0), disclosure)[0]
    scores = material.result.scores.get(attribute)
    if scores is None:
        return found + [Figure(metric, None, NOT_HANDED_OVER) for metric in SCORE_METRICS]
    return found + score_gaps(scores, disclosure, root_mean=material.spec.training.root_mean)


def _intervals(
    material: ScoredMaterial, attribute: str, disclosure: Disclosure, level: float
) -> dict[str, Interval]:
    found = rate_intervals(material.result.fairness[attribute], disclosure, level=level)
    scores = material.result.scores.get(attribute)
    if scores is None:
        return found
    root_mean = material.spec.training.root_mean
    return found | score_intervals(scores, disclosure, root_mean=root_mean, level=level)


def _metric(figure: Figure, asked: Intervals | None, found: Interval | None) -> MetricSection:
    interval: IntervalSection | None = None
    reason: str | None = "the spec asks for no intervals"
    if figure.value is None:
        reason = "there is no value to be sure of"
    elif asked is not None and found is not None:
        interval = interval_section(found, level=asked.level, method=METHOD)
        reason = found.reason
    return MetricSection(
        value=figure.value, reason=figure.reason, interval=interval, interval_reason=reason
    )


LAST_ROUNDS = 20
"""How many validated rounds count, at most."""
MIN_ROUNDS = 5
_TOO_FEW = f"fewer than {MIN_ROUNDS} of the last rounds that were validated have this gap"
_NOT_BY_ROUND = "rounds have gaps of rates alone"
_NO_ROUNDS_GIVEN = "the figures of the rounds were not handed over"


def with_last_rounds(
    sections: Sequence[FairnessSection], material: ScoredMaterial
) -> list[FairnessSection]:
    """The sections, each gap with its range over the last rounds or the reason for none."""
    return [
        section.model_copy(
            update={
                "metrics": {
                    name: _with_range(name, metric, section.attribute, material)
                    for name, metric in section.metrics.items()
                }
            }
        )
        for section in sections
    ]


def _with_range(
    name: str, metric: MetricSection, attribute: str, material: ScoredMaterial
) -> MetricSection:
    rounds = material.last_fairness.get(attribute)
    found = None if rounds is None else _range(name, rounds)
    if found is not None:
        return metric.model_copy(update={"last_rounds": found, "last_rounds_reason": None})
    if name not in METRICS:
        reason = _NOT_BY_ROUND
    elif _is_withheld(material.spec.fairness):
        reason = WITHHELD
    else:
        reason = _NO_ROUNDS_GIVEN if rounds is None else _TOO_FEW
    return metric.model_copy(update={"last_rounds": None, "last_rounds_reason": reason})


def _is_withheld(fairness: Fairness) -> bool:
    return fairness.noise is not None and not publishes_noised_rounds(fairness)


def _range(name: str, rounds: Sequence[Mapping[str, float | None]]) -> LastRounds | None:
    values = [value for one in rounds if (value := one.get(name)) is not None]
    if len(values) < MIN_ROUNDS:
        return None
    return LastRounds(low=min(values), high=max(values), rounds=len(values))
