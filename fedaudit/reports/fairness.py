"""The fairness section: rates, scores and gaps pooled over the rows of the validation clients."""

from fedaudit.fairness.counts import scored_rows
from fedaudit.fairness.gaps import Figure, gaps
from fedaudit.fairness.intervals import Interval, bootstrap_intervals, score_intervals
from fedaudit.fairness.scores import SCORE_METRICS, score_gaps
from fedaudit.fairness.suppression import shown_groups
from fedaudit.reports.client_averaged import client_averaged
from fedaudit.reports.document import (
    FairnessSection,
    IntervalSection,
    MetricSection,
)
from fedaudit.reports.fairness_groups import NOT_HANDED_OVER, group_sections
from fedaudit.reports.fairness_hypotheses import hypothesis_sections
from fedaudit.reports.material import ReportMaterial
from fedaudit.reports.nulls import with_nulls
from fedaudit.reports.who_pays import who_pays
from fedaudit.spec.fairness import Intervals


def fairness_sections(material: ReportMaterial) -> list[FairnessSection]:
    """One section for each attribute: the sensitive ones of the spec, then intersections."""
    return [
        _section(material, attribute, stream)
        for stream, attribute in enumerate(material.spec.fairness.attributes)
    ]


def _section(material: ReportMaterial, attribute: str, stream: int) -> FairnessSection:
    """`stream`: the attribute's place, by which its random numbers are its own."""
    spec, fairness = material.spec, material.spec.fairness
    values = material.federation.attributes[attribute]
    pooled = material.result.fairness[attribute].sum(axis=0)
    scores = material.result.scores.get(attribute)
    rows = scored_rows(pooled) if scores is None else scores.rows.sum(axis=0)
    shown = shown_groups(
        rows,
        minimum_group_size=fairness.minimum_group_size,
        combination=material.combination(attribute),
    )
    reference = _reference(material, values)
    by_hypothesis, why_none = hypothesis_sections(
        material.result.by_hypothesis.get(attribute),
        values,
        shown,
        minimum_group_size=fairness.minimum_group_size,
        reference_group=reference,
        combination=material.combination(attribute),
        declared=spec.declares_outcome,
    )
    averaged, why_not_averaged = client_averaged(material, attribute, reference_group=reference)
    payers, why_no_payers = who_pays(material, attribute)
    combined = fairness.combinations.get(attribute)
    return FairnessSection(
        attribute=attribute,
        intersection_of=None if combined is None else list(combined),
        reference_group=reference,
        groups=group_sections(
            values,
            pooled,
            shown,
            scores=scores,
            rooted=spec.training.rooted,
            declared=spec.declares_outcome,
            minimum_group_size=fairness.minimum_group_size,
        ),
        metrics=with_nulls(
            _metrics(material, attribute, stream),
            material,
            attribute,
            stream=stream,
            reference_group=reference,
        ),
        by_hypothesis=by_hypothesis,
        by_hypothesis_reason=why_none,
        client_averaged=averaged,
        client_averaged_reason=why_not_averaged,
        who_pays=payers,
        who_pays_reason=why_no_payers,
        cross_check_reason="the rows were not handed over, so nothing was computed twice",
    )


def _reference(material: ReportMaterial, values: tuple[str, ...]) -> str | None:
    """A reference group belongs to one attribute; the others are compared between all groups."""
    group = material.spec.fairness.reference_group
    return group if group in values else None


def _metrics(material: ReportMaterial, attribute: str, stream: int) -> dict[str, MetricSection]:
    asked = material.spec.fairness.intervals
    intervals = {} if asked is None else _intervals(material, attribute, stream, asked)
    return {
        figure.metric: _metric(figure, asked, intervals.get(figure.metric))
        for figure in _figures(material, attribute)
    }


def _figures(material: ReportMaterial, attribute: str) -> list[Figure]:
    spec, values = material.spec, material.federation.attributes[attribute]
    size, reference = spec.fairness.minimum_group_size, _reference(material, values)
    found = gaps(
        material.result.fairness[attribute].sum(axis=0),
        values,
        minimum_group_size=size,
        reference_group=reference,
        combination=material.combination(attribute),
        declared=spec.declares_outcome,
    )[0]
    scores = material.result.scores.get(attribute)
    if scores is None:
        return found + [Figure(metric, None, NOT_HANDED_OVER) for metric in SCORE_METRICS]
    return found + score_gaps(
        scores,
        values,
        rooted=spec.training.rooted,
        minimum_group_size=size,
        reference_group=reference,
        combination=material.combination(attribute),
    )


def _intervals(
    material: ReportMaterial, attribute: str, stream: int, asked: Intervals
) -> dict[str, Interval]:
    """Of every figure; the same clients are drawn for all of one attribute."""
    spec, values = material.spec, material.federation.attributes[attribute]
    size, reference = spec.fairness.minimum_group_size, _reference(material, values)
    found = bootstrap_intervals(
        material.result.fairness[attribute],
        values,
        minimum_group_size=size,
        level=asked.level,
        samples=asked.samples,
        seed=spec.seed,
        stream=stream,
        reference_group=reference,
        combination=material.combination(attribute),
    )
    scores = material.result.scores.get(attribute)
    if scores is None:
        return found
    return found | score_intervals(
        scores,
        values,
        rooted=spec.training.rooted,
        minimum_group_size=size,
        level=asked.level,
        samples=asked.samples,
        seed=spec.seed,
        stream=stream,
        reference_group=reference,
        combination=material.combination(attribute),
    )


def _metric(figure: Figure, asked: Intervals | None, found: Interval | None) -> MetricSection:
    interval: IntervalSection | None = None
    reason: str | None = "the spec asks for no intervals"
    if figure.value is None:
        reason = "there is no value to be sure of"
    elif asked is not None and found is not None:
        if found.low is not None and found.high is not None:
            interval = IntervalSection(
                low=found.low,
                high=found.high,
                level=asked.level,
                method=asked.method,
                samples=asked.samples,
            )
        reason = found.reason
    return MetricSection(
        value=figure.value, reason=figure.reason, interval=interval, interval_reason=reason
    )
