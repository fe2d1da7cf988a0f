"""The fairness section: rates and gaps pooled over the rows of the validation clients."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.counts import RATES, group_rates, scored_rows
from fedaudit.fairness.gaps import Figure, gaps
from fedaudit.fairness.intervals import Interval, bootstrap_intervals
from fedaudit.fairness.suppression import shown_groups
from fedaudit.reports.document import (
    FairnessSection,
    GroupSection,
    IntervalSection,
    MetricSection,
)
from fedaudit.reports.material import ReportMaterial
from fedaudit.spec.fairness import Fairness, Intervals

_NO_DENOMINATOR = {
    "selection_rate": "no scored rows",
    "true_positive_rate": "no rows with the favourable outcome",
    "false_positive_rate": "no rows without the favourable outcome",
}


def fairness_sections(material: ReportMaterial) -> list[FairnessSection]:
    """One section for each sensitive attribute of the spec, in its order."""
    fairness = material.spec.fairness
    return [
        _section(
            attribute,
            material.federation.attributes[attribute],
            material.result.fairness[attribute],
            fairness=fairness,
            seed=material.spec.seed,
            stream=stream,
        )
        for stream, attribute in enumerate(fairness.sensitive)
    ]


def _section(
    attribute: str,
    values: tuple[str, ...],
    client_counts: NDArray[np.int64],
    *,
    fairness: Fairness,
    seed: int,
    stream: int,
) -> FairnessSection:
    size = fairness.minimum_group_size
    # A reference group belongs to one attribute; the others are compared between all groups.
    reference = fairness.reference_group if fairness.reference_group in values else None
    pooled = client_counts.sum(axis=0)
    figures = gaps(pooled, values, minimum_group_size=size, reference_group=reference)[0]
    intervals: dict[str, Interval] = {}
    if fairness.intervals is not None:
        intervals = bootstrap_intervals(
            client_counts,
            values,
            minimum_group_size=size,
            level=fairness.intervals.level,
            samples=fairness.intervals.samples,
            seed=seed,
            stream=stream,
            reference_group=reference,
        )
    return FairnessSection(
        attribute=attribute,
        reference_group=reference,
        groups=_groups(values, pooled, size),
        metrics={
            figure.metric: _metric(figure, fairness.intervals, intervals.get(figure.metric))
            for figure in figures
        },
    )


def _groups(
    values: tuple[str, ...], pooled: NDArray[np.int64], minimum_group_size: int
) -> list[GroupSection]:
    shown = shown_groups(scored_rows(pooled), minimum_group_size=minimum_group_size)
    rates = group_rates(pooled).T.tolist()
    hidden = (
        f"suppressed: fewer than {minimum_group_size} scored rows, or kept back so that another "
        "group's cannot be worked out"
    )
    sections = []
    for value, visible, of_group in zip(values, shown.tolist(), rates, strict=True):
        found = dict(zip(RATES, of_group, strict=True))
        if visible:
            reasons = {rate: _NO_DENOMINATOR[rate] for rate in RATES if np.isnan(found[rate])}
        else:
            reasons = dict.fromkeys(RATES, hidden)
        kept = {rate: None if rate in reasons else found[rate] for rate in RATES}
        sections.append(GroupSection(value=value, suppressed=not visible, reasons=reasons, **kept))
    return sections


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
