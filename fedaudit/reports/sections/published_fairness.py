"""The section `fairness`, from whichever counts are published."""

from collections.abc import Mapping
from typing import assert_never

import numpy as np

from fedaudit.arrays import Ints
from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import Figure, gaps, gaps_between, score_gaps, scored_rows, spread
from fedaudit.fairness.intervals import (
    METHOD,
    Interval,
    accuracy_interval,
    intervals_by_group,
    rate_intervals,
    score_intervals,
)
from fedaudit.fairness.noised_counts import (
    ROUNDED_AWAY,
    ExactCounts,
    NoisedCounts,
    Rounder,
    digit_step,
    nearest,
    outward,
    step_of,
    without_dust,
)
from fedaudit.reports.ledger_totals import RunEvidence
from fedaudit.reports.sections.fairness import (
    NOT_HANDED_OVER,
    FairnessSection,
    GroupSection,
    MetricSection,
    group_rankings,
    group_sections,
    interval_section,
    metric_section,
    shown_rates,
    with_rate_intervals,
)
from fedaudit.reports.sections.held_out_privacy import noised_limits
from fedaudit.reports.sections.material import ReportMaterial, ScoredMaterial
from fedaudit.reports.sections.noised_counts import noised_section
from fedaudit.reports.sections.outcome_words import words_checks
from fedaudit.reports.sections.part import IntervalSection, Section
from fedaudit.reports.sections.provenance import comparison_limits, disclosure_limits
from fedaudit.spec.metrics import METRICS, RATES, SCORE_METRICS

_ROUNDED_AFTER = (
    "counts were rounded after the exact figures had been computed twice from the rows; how the "
    "two compare would disclose the exact ones"
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
                "cross_check_reason": _ROUNDED_AFTER,
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
            # In steps of the rows of the rarer outcome: one of them moves it by so much.
            step = step_of(int(self._fewer[self._name][place]), base=self._rounder.base)
            update["auc"] = None
            if exact.auc is None or step == 1:
                reasons["auc"] = ROUNDED_AWAY
            else:
                update["auc"] = min(1.0, nearest(exact.auc, step))
        if exact.loss is not None:
            update["loss"] = nearest(exact.loss, digit_step(exact.loss))
        return exact.model_copy(update={**update, "reasons": {**exact.reasons, **reasons}})

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
        """Shares in steps of the base's rows; losses to two digits."""
        return self._step if _is_share(name) else digit_step(value)


def _is_share(name: str) -> bool:
    return name == "accuracy_difference" or name in METRICS


def fairness_sections(material: ScoredMaterial) -> list[FairnessSection]:
    """One section for each attribute: the sensitive attributes of the spec, then intersections."""
    attributes = material.spec.fairness.attributes
    match material.published:
        case NoisedCounts():
            return [noised_section(material, name, material.published) for name in attributes]
        case Rounder():
            rounder = material.published
            exact = exact_sections(material)
            return [Rounding(one, material, rounder).section() for one in exact]
        case ExactCounts():
            return exact_sections(material)
        case _:
            assert_never(material.published)


def exact_sections(material: ScoredMaterial) -> list[FairnessSection]:
    """The sections from the counts as they are, whatever is published."""
    return [_section(material, name) for name in material.spec.fairness.attributes]


def _section(material: ScoredMaterial, attribute: str) -> FairnessSection:
    values = material.federation.attributes[attribute]
    disclosure = material.disclosures[attribute]
    combined = material.spec.fairness.combinations.get(attribute)
    rankings = group_rankings(material, attribute)
    material.progressed()
    metrics = _metrics(material, attribute, disclosure)
    material.progressed()
    counts, asked = material.result.fairness[attribute], material.spec.fairness.intervals
    groups = group_sections(
        values,
        counts.sum(axis=0),
        disclosure,
        scores=material.result.scores.get(attribute),
        root_mean=material.spec.training.root_mean,
        rankings=rankings,
    )
    if asked is not None:
        ends = intervals_by_group(counts, disclosure, level=asked.level)
        groups = with_rate_intervals(groups, ends, level=asked.level)
    return FairnessSection(
        attribute=attribute,
        intersection_of=None if combined is None else list(combined),
        reference_group=None if disclosure.reference is None else values[disclosure.reference],
        groups=groups,
        metrics=metrics,
        cross_check_reason="the rows were not handed over, so nothing was computed twice",
    )


def _metrics(
    material: ScoredMaterial, attribute: str, disclosure: Disclosure
) -> dict[str, MetricSection]:
    counts, scores = material.result.fairness[attribute], material.result.scores.get(attribute)
    asked, root_mean = material.spec.fairness.intervals, material.spec.training.root_mean
    figures, intervals = gaps(counts.sum(axis=0), disclosure)[0], {}
    if asked is not None:
        intervals = rate_intervals(counts, disclosure, level=asked.level)
    if scores is None:
        figures += [Figure(metric, None, NOT_HANDED_OVER) for metric in SCORE_METRICS]
    else:
        figures += score_gaps(scores, disclosure, root_mean=root_mean)
        if asked is not None:
            level = asked.level
            intervals |= score_intervals(scores, disclosure, root_mean=root_mean, level=level)
    return {
        one.metric: metric_section(one, intervals.get(one.metric), asked, method=METHOD)
        for one in figures
    }


def _fairness_limits(material: ReportMaterial) -> list[str]:
    found = [*_validation_limits(material), *_group_limits(material)]
    if material.spec.fairness.noise is not None:
        found = noised_limits(material.spec)
    found += comparison_limits(material.spec.fairness)
    return [*found, *disclosure_limits(material.disclosure_policy, material.spec)]


def _validation_limits(material: ReportMaterial) -> list[str]:
    rows, who = "the real rows of the validation clients", "validation clients"
    if material.spec.federation.holds_out_rows:
        rows, who = "the rows held out of every client", "held-out rows"
    if not material.spec.chooses_by_losses:
        return [
            f"Losses, accuracy and fairness figures, of rounds too, use {rows}, without noise or "
            "guarantee. These clients train, and the guarantee is of the models alone: those of "
            "the last round, as nothing would cover a choice by these figures."
        ]
    return [
        f"Validation losses, early stopping and fairness figures use {rows}, without noise or "
        "guarantee.",
        f"The {who} that decided when to stop also give the final figures, which are therefore "
        "somewhat optimistic; selection_loss, the smallest loss over hypotheses, is for stopping "
        "only.",
    ]


def _group_limits(material: ReportMaterial) -> list[str]:
    if not material.spec.fairness.sensitive:
        return ["No sensitive attribute was named: nothing here says how groups fare."]
    found = [
        "Rates and gaps are pooled over the scored rows: a client with many rows counts for more "
        "than one with few.",
        _limit_counts(material),
        *_limit_groups(material),
    ]
    if any(", in no group: " in note for note in material.federation.notes):
        found.append(
            "Rows without a value of an attribute are in no group. Groups are suppressed where the "
            "figures of other attributes' groups would reveal these rows, and not where those of "
            "everybody do: the accuracy less that of the groups shown is theirs."
        )
    if not material.spec.declares_outcome:
        found.append(
            "No outcome was declared favourable: groups are compared by their losses alone, which "
            "do not say whom an error favours."
        )
    found += material.spec.federation.traits.fairness_limits
    if material.result.single_row_clients:
        found.append(
            f"{material.result.single_row_clients} validation clients have one row only and were "
            "scored with the same hypothesis, since none could be chosen without that row."
        )
    return found


def _limit_groups(material: ReportMaterial) -> list[str]:
    """What holds where groups are hidden, and where more than two are compared."""
    fairness, shown = material.spec.fairness, material.disclosures.values()
    found = []
    if not all(all(one.shown) for one in shown):
        found.append(
            f"Groups with fewer than {fairness.minimum_group_size} scored rows, or with rows of "
            f"fewer than {fairness.minimum_group_clients} clients, are suppressed, and so are "
            "groups from which so few would follow by sums and differences of what this report "
            "shows of all attributes; a gap may be larger among suppressed groups."
        )
    if any(sum(one.shown) > 2 for one in shown):
        found.append(
            "Among many groups the largest gap is wide by chance alone; its interval holds for all "
            "pairs together. Where it excludes 0, groups differ; it does not show why."
        )
    return found


def _limit_counts(material: ReportMaterial) -> str:
    base = material.spec.fairness.rounded_to
    if base is None:
        return (
            "Rates of larger groups are exact and may rest on few rows with one outcome: the "
            "counts behind them can be worked out, and what remains of the total bounds the counts "
            "of the suppressed groups, together and at times one by one."
        )
    return (
        f"Rates and gaps follow from counts that were rounded at random to multiples of {base}, "
        "without bias; the same people are rounded alike in every report of one service, and anew "
        "by each run without one. "
        f"Intervals are given in steps of about {base} rows, "
        f"losses of groups to two digits. Each rounded count is within {base - 1} rows of the "
        "exact one; several figures of one report, or the exact accuracy and loss over all people, "
        "can narrow that down, at times to one number: this is rounding and no noise with an "
        "epsilon."
    )


FAIRNESS = Section[ReportMaterial, RunEvidence](
    "fairness",
    fairness_sections,
    lambda found: () if found.spec is None else words_checks(found.report),
    _fairness_limits,
)
