"""The fairness section from rounded counts."""

from collections.abc import Mapping

import numpy as np

from fedaudit.arrays import Ints
from fedaudit.fairness.gaps import gaps_between, scored_rows, spread
from fedaudit.fairness.intervals import (
    METHOD,
    Interval,
    accuracy_interval,
    intervals_by_group,
    rate_intervals,
)
from fedaudit.fairness.noised_counts import (
    ROUNDED_AWAY,
    Rounder,
    digit_step,
    nearest,
    outward,
    step_of,
    without_dust,
)
from fedaudit.reports.sections.fairness import (
    FairnessSection,
    GroupSection,
    MetricSection,
    interval_section,
    shown_rates,
    with_rate_intervals,
)
from fedaudit.reports.sections.material import ScoredMaterial
from fedaudit.reports.sections.part import IntervalSection
from fedaudit.spec.metrics import METRICS, RATES

CHECKED_BEFORE = (
    "counts were rounded after the exact figures had been computed twice from the rows; how the "
    "two compare would tell of the exact ones"
)


class Rounding:
    """One attribute's figures, rounded. The same groups are shown and the same figures defined,
    except where rounding leaves a rate without a denominator."""

    def __init__(self, exact: FairnessSection, material: ScoredMaterial, rounder: Rounder) -> None:
        self._exact, self._material, self._rounder = exact, material, rounder
        self._name = exact.attribute
        rule = material.disclosures[self._name].rule
        self._asked = material.spec.fairness.intervals
        self._reference, self._has_outcome = rule.reference, rule.has_favourable_outcome
        self._shown = np.array([not group.suppressed for group in exact.groups], dtype=np.bool_)
        counts = material.result.fairness[self._name].sum(axis=0)
        self._counts = rounder.counts(self._name, counts)
        scores = material.result.scores.get(self._name)
        self._rows = scored_rows(self._counts)
        if scores is not None and not self._has_outcome:
            self._rows = rounder.numbers(self._name, scores.rows.sum(axis=0), of="rows")
        self._right: Ints | None = None
        if scores is not None and scores.correct is not None:
            self._right = rounder.numbers(self._name, scores.correct.sum(axis=0), of="right")
        compared = material.result.against_constant
        ranking = None if compared is None else compared.ranking
        self._fewer = {} if ranking is None else ranking.fewer_by_group
        shown_rows = self._rows[self._shown]
        self._step = step_of(int(shown_rows.min(initial=2**31)), base=rounder.base)

    def section(self) -> FairnessSection:
        """All parts that say something of held-out people."""
        exact = self._exact
        groups = [self._group(place) for place in range(len(exact.groups))]
        if self._asked is not None:
            ends = intervals_by_group(
                self._material.result.fairness[self._name],
                self._material.disclosures[self._name],
                level=self._asked.level,
                published=self._counts,
            )
            groups = with_rate_intervals(groups, ends, level=self._asked.level, step=self._step)
        return exact.model_copy(
            update={
                "groups": groups,
                "metrics": self._metrics(groups),
                "cross_check": None,
                "cross_check_reason": CHECKED_BEFORE,
            }
        )

    def _group(self, place: int) -> GroupSection:
        exact = self._exact.groups[place]
        if exact.suppressed:
            return exact
        [(rates, reasons)] = shown_rates(
            self._counts[[place]], has_favourable_outcome=self._has_outcome
        )
        update: dict[str, object] = {**rates, "rate_intervals": None}
        if exact.accuracy is not None and self._right is not None:
            rows = int(self._rows[place])
            update["accuracy"] = min(1.0, int(self._right[place]) / rows) if rows else None
            if not rows:
                reasons["accuracy"] = RATES["selection_rate"].why_undefined
        if self._name in self._fewer:
            update["auc"] = self._auc(exact.auc, int(self._fewer[self._name][place]))
            if update["auc"] is None:
                reasons["auc"] = ROUNDED_AWAY
        if exact.loss is not None:
            update["loss"] = nearest(exact.loss, digit_step(exact.loss))
        return exact.model_copy(update={**update, "reasons": {**exact.reasons, **reasons}})

    def _auc(self, exact: float | None, fewer: int) -> float | None:
        """In steps of `fewer`, the rows of the rarer outcome: one of them moves it by so much."""
        step = step_of(fewer, base=self._rounder.base)
        return None if exact is None or step == 1 else min(1.0, nearest(exact, step))

    def _metrics(self, groups: list[GroupSection]) -> dict[str, MetricSection]:
        figures, intervals = self._gaps(groups), self._intervals()
        found = {}
        for name, exact in self._exact.metrics.items():
            value, reason = figures.get(name, (exact.value, exact.reason))
            if exact.value is None or value is None:
                found[name] = exact.model_copy(
                    update={
                        "value": None,
                        "reason": exact.reason if exact.value is None else reason,
                        "interval": None,
                        "interval_reason": "there is no value to be sure of",
                    }
                )
                continue
            interval = intervals.get(name, exact.interval)
            found[name] = exact.model_copy(
                update={
                    "value": value,
                    "interval": None if interval is None else self._interval(name, interval, value),
                }
            )
        return found

    def _gaps(self, groups: list[GroupSection]) -> Mapping[str, tuple[float | None, str | None]]:
        rates = []
        if self._has_outcome:
            [rates] = gaps_between(
                self._counts[np.newaxis],
                self._shown[np.newaxis],
                reference=self._reference,
                rows=self._rows[np.newaxis],
            )
        found = {figure.metric: (figure.value, figure.reason) for figure in rates}
        for name, column, ratio in (
            ("accuracy_difference", "accuracy", False),
            ("loss_difference", "loss", False),
            ("loss_ratio", "loss", True),
        ):
            values = np.array(
                [np.nan if (one := getattr(group, column)) is None else one for group in groups]
            )
            value = float(spread(values, self._shown, self._reference)[int(ratio)])
            found[name] = (None, "a group lacks the figure once counts are rounded")
            if np.isfinite(value):
                found[name] = (without_dust(value), self._exact.metrics[name].reason)
        return found

    def _intervals(self) -> dict[str, IntervalSection]:
        asked, disclosure = self._asked, self._material.disclosures[self._name]
        if asked is None:
            return {}
        found: dict[str, Interval] = {}
        own, scores = self._material.result.fairness, self._material.result.scores.get(self._name)
        if self._has_outcome:
            found |= rate_intervals(
                own[self._name], disclosure, level=asked.level, published=self._counts
            )
        if scores is not None and self._right is not None:
            found["accuracy_difference"] = accuracy_interval(
                scores, disclosure, level=asked.level, published=(self._right, self._rows)
            )
        sections = {
            name: interval_section(one, level=asked.level, method=METHOD)
            for name, one in found.items()
        }
        return {name: one for name, one in sections.items() if one is not None}

    def _interval(self, name: str, exact: IntervalSection, value: float) -> IntervalSection:
        """Widened to whole steps, and to the value itself."""
        step = self._step_of(name, exact.high)
        low, high = outward(min(exact.low, value), max(exact.high, value), step)
        if _is_share(name):
            high = min(1.0, high)
        return exact.model_copy(update={"low": max(0.0, low), "high": high})

    def _step_of(self, name: str, value: float) -> float:
        """Shares in steps of the base's rows; losses to two digits, other rates at most so."""
        if _is_share(name):
            return self._step
        return max(self._step, digit_step(value)) if name in METRICS else digit_step(value)


def _is_share(name: str) -> bool:
    return name == "accuracy_difference" or (name in METRICS and METRICS[name].is_share)
