"""What a group's accuracy is beside that of a constant prediction on the same rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.gaps import NO_ACCURACY
from fedaudit.fairness.intervals import GAIN_METHOD, Interval
from fedaudit.reports.document.held_out_document import IntervalSection
from fedaudit.reports.document.material import ScoredMaterial
from fedaudit.utility import NO_INTERVALS, group_intervals

GAIN_FIELDS = ("baseline_accuracy", "accuracy_over_baseline", "accuracy_over_baseline_interval")


@dataclass(frozen=True)
class GroupGain:
    """Of one group, each figure that is None with its reason."""

    baseline_accuracy: float | None
    accuracy_over_baseline: float | None
    interval: IntervalSection | None
    reasons: Mapping[str, str]

    @property
    def fields(self) -> dict[str, Any]:
        """As the fields of a report's group."""
        return dict(zip(GAIN_FIELDS, self._values, strict=True))

    @property
    def _values(self) -> tuple[float | IntervalSection | None, ...]:
        return self.baseline_accuracy, self.accuracy_over_baseline, self.interval


def no_gain(reason: str) -> GroupGain:
    """Nothing, for one reason."""
    return GroupGain(None, None, None, dict.fromkeys(GAIN_FIELDS, reason))


def group_gains(material: ScoredMaterial, attribute: str) -> Sequence[GroupGain] | None:
    """The gain of each group of an attribute; None where the run handed nothing over.

    Raises ValueError where the disclosure was not decided from the rows that these figures cover.
    """
    found = material.result.against_constant
    if found is None or attribute not in found.by_group:
        return None
    counts = found.by_group[attribute]
    material.disclosures[attribute].check(counts.rows.sum(axis=0))
    groups = counts.rows.shape[1]
    if counts.correct is None or counts.constant_correct is None:
        return [no_gain(NO_ACCURACY)] * groups
    gained = counts.correct - counts.constant_correct
    totals = zip(
        counts.rows.sum(0).tolist(),
        counts.constant_correct.sum(0).tolist(),
        gained.sum(0).tolist(),
        _intervals(material, gained, counts.rows),
        strict=True,
    )
    return [
        _gain(right / rows, gain / rows, *interval) if rows else no_gain("no scored rows")
        for rows, right, gain, interval in totals
    ]


def _gain(right: float, gain: float, interval: IntervalSection | None, why: str) -> GroupGain:
    return GroupGain(right, gain, interval, {} if interval is not None else {GAIN_FIELDS[2]: why})


def _intervals(
    material: ScoredMaterial, gained: NDArray[np.int64], rows: NDArray[np.int64]
) -> list[tuple[IntervalSection | None, str]]:
    """By group, the interval of its gain, or the reason why there is none."""
    asked = material.spec.fairness.intervals
    if asked is None:
        return [(None, NO_INTERVALS)] * rows.shape[1]
    found = group_intervals(gained, rows, level=asked.level)
    return [
        (interval_section(one, level=asked.level, method=GAIN_METHOD), one.reason or "")
        for one in found
    ]


def interval_section(found: Interval, *, level: float, method: str) -> IntervalSection | None:
    """The interval, None where there is none."""
    if found.low is None or found.high is None:
        return None
    return IntervalSection(low=found.low, high=found.high, level=level, method=method, samples=None)
