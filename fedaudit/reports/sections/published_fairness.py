"""The section `fairness`, from whichever counts are published."""

from collections.abc import Iterator, Sequence
from typing import assert_never

import numpy as np

from fedaudit.arrays import Ints
from fedaudit.fairness.gaps import Figure, gaps, score_gaps, scored_rows, spread
from fedaudit.fairness.intervals import (
    METHOD,
    Interval,
    intervals_by_group,
    rate_intervals,
    score_intervals,
)
from fedaudit.fairness.noised_counts import EVERYBODY, ExactCounts, NoisedCounts, Rounder
from fedaudit.number_text import digit_step, outward, step_of, without_dust
from fedaudit.reports.sections.fairness import (
    ENDS,
    NOT_HANDED_OVER,
    FairnessSection,
    GroupSection,
    MetricSection,
    coverage_doubt,
    group_sections,
    metric_section,
    noised_section,
    ranking_columns,
    rate_columns,
    score_columns,
    with_rate_intervals,
)
from fedaudit.reports.sections.held_out_privacy import noised_limits
from fedaudit.reports.sections.material import ReportMaterial, RunEvidence, ScoredMaterial
from fedaudit.reports.sections.outcome_words import words_checks
from fedaudit.reports.sections.part import Section
from fedaudit.reports.sections.provenance import comparison_limits, disclosure_limits
from fedaudit.spec.metrics import KINDS, METRICS, SCORE_METRICS
from fedaudit.utility import NO_INTERVALS

_NO_ROWS = "the rows were not handed over, so nothing was computed twice"
_LACKS = "a group lacks the figure once counts are rounded"
_ROUNDED_AFTER = (
    "counts were rounded after the exact figures had been computed twice from the rows; how the "
    "two compare would disclose the exact ones"
)


def fairness_sections(material: ScoredMaterial) -> list[FairnessSection]:
    """One section for each attribute: the sensitive attributes of the spec, then intersections."""
    match material.published:
        case NoisedCounts() as noised:
            attributes = material.spec.fairness.attributes
            return [noised_section(material, name, noised) for name in attributes]
        case Rounder() as rounder:
            return counted_sections(material, rounder)
        case ExactCounts():
            return counted_sections(material)
        case _:
            assert_never(material.published)


def counted_sections(
    material: ScoredMaterial, rounder: Rounder | None = None
) -> list[FairnessSection]:
    """The sections from the counts as they are, or rounded, whatever is published."""
    attributes = material.spec.fairness.attributes
    return [AttributeFigures(material, name, rounder).section() for name in attributes]


class AttributeFigures:
    """One attribute's figures, from counts as they are or rounded. Rounding leaves the groups that
    are shown, and which figures are defined, except where a rate loses its denominator."""

    def __init__(self, material: ScoredMaterial, name: str, rounder: Rounder | None) -> None:
        result = material.result
        self._material, self._name, self._rounder = material, name, rounder
        self._disclosure, self._asked = material.disclosures[name], material.spec.fairness.intervals
        self._own, self._scores = result.fairness[name], result.scores.get(name)
        scores, has_outcome = self._scores, self._disclosure.rule.has_favourable_outcome
        self._counts: Ints = self._own.sum(axis=0)
        self._rows = scored_rows(self._counts) if scores is None else scores.rows.sum(axis=0)
        self._right: Ints | None = None
        if scores is not None and scores.correct is not None:
            self._right = scores.correct.sum(axis=0)
        self._step = ENDS
        if rounder is not None:
            self._counts = rounder.counts(name, self._counts)
            if self._right is not None:
                self._right = rounder.numbers(name, self._right, of="right")
            if has_outcome or scores is None:
                self._rows = scored_rows(self._counts)
            else:
                self._rows = rounder.numbers(name, self._rows, of="rows")
            fewest = int(self._rows[self._disclosure.shown].min(initial=2**31))
            self._step = step_of(fewest, base=rounder.base)

    def section(self) -> FairnessSection:
        """The section; only with exact counts it can be computed a second time."""
        material, disclosure, asked = self._material, self._disclosure, self._asked
        values = material.federation.attributes[self._name]
        combined = material.spec.fairness.combinations.get(self._name)
        exact = self._rounder is None
        rates = rate_columns(
            self._counts, has_favourable_outcome=disclosure.rule.has_favourable_outcome
        )
        scores = score_columns(
            self._scores,
            root_mean=material.spec.training.root_mean,
            right=self._right,
            rows=self._rows,
            coarse=not exact,
        )
        base = None if self._rounder is None else self._rounder.base
        rankings = ranking_columns(material, self._name, base=base)
        groups = group_sections(values, {**rates, **scores, **rankings}, disclosure)
        material.progressed()
        if asked is not None:
            ends = intervals_by_group(
                self._own, disclosure, level=asked.level, published=self._counts
            )
            groups = with_rate_intervals(groups, ends, level=asked.level, step=self._step)
        metrics = self._metrics(groups)
        material.progressed()
        return FairnessSection(
            attribute=self._name,
            intersection_of=None if combined is None else list(combined),
            reference_group=None if disclosure.reference is None else values[disclosure.reference],
            groups=groups,
            metrics=metrics,
            doubt=self._doubt(),
            cross_check_reason=_NO_ROWS if exact else _ROUNDED_AFTER,
        )

    def _doubt(self) -> str | None:
        compared, facts = self._material.result.against_constant, self._material.federation
        others = np.zeros(1, np.int64)
        if compared is not None:
            others += compared.rows.sum() + facts.not_counted - self._disclosure.rows.sum()
        if self._rounder is not None:
            others = self._rounder.numbers(EVERYBODY, others, of="rows")
        return coverage_doubt(facts, self._rows, self._disclosure.shown, int(others[0]))

    def _metrics(self, groups: Sequence[GroupSection]) -> dict[str, MetricSection]:
        intervals = self._intervals()
        [of_rates] = gaps(self._own.sum(axis=0), self._disclosure, published=self._counts)
        found = {
            one.metric: metric_section(
                one, intervals.get(one.metric, NO_INTERVALS), self._asked, method=METHOD
            )
            for one in (*of_rates, *self._score_gaps(groups))
        }
        if self._rounder is None:
            return found
        return {name: self._widened(name, one) for name, one in found.items()}

    def _score_gaps(self, groups: Sequence[GroupSection]) -> list[Figure]:
        """Of rounded counts those between the figures that the groups show."""
        if self._scores is None:
            return [Figure(metric, None, NOT_HANDED_OVER) for metric in SCORE_METRICS]
        root_mean, disclosure = self._material.spec.training.root_mean, self._disclosure
        found = score_gaps(self._scores, disclosure, root_mean=root_mean)
        return found if self._rounder is None else [self._rounded(one, groups) for one in found]

    def _rounded(self, exact: Figure, groups: Sequence[GroupSection]) -> Figure:
        column, _, kind = exact.metric.partition("_")
        own = [getattr(group, column) for group in groups]
        both = spread(np.array(own, np.float64), self._disclosure.shown, self._disclosure.reference)
        value = float(both[KINDS.index(kind)])
        if exact.value is None:
            return exact
        if not np.isfinite(value):
            return exact._replace(value=None, reason=_LACKS)
        return exact._replace(value=without_dust(value))

    def _intervals(self) -> dict[str, Interval | str]:
        if self._asked is None:
            return {}
        disclosure, level = self._disclosure, self._asked.level
        found = rate_intervals(self._own, disclosure, level=level, published=self._counts)
        if self._scores is not None:
            found |= score_intervals(
                self._scores,
                disclosure,
                root_mean=self._material.spec.training.root_mean,
                level=level,
                published=None if self._right is None else (self._right, self._rows),
            )
        return found

    def _widened(self, name: str, found: MetricSection) -> MetricSection:
        """With its interval widened to whole steps, losses to two digits, and to the value."""
        interval = found.interval
        if found.value is None or interval is None:
            return found
        is_share = name == "accuracy_difference" or name in METRICS
        step = self._step if is_share else digit_step(interval.high)
        low, high = outward(min(interval.low, found.value), max(interval.high, found.value), step)
        ends = {"low": max(0.0, low), "high": min(1.0, high) if is_share else high}
        return found.model_copy(update={"interval": interval.model_copy(update=ends)})


def _fairness_limits(material: ReportMaterial) -> Iterator[str]:
    if material.spec.fairness.noise is not None:
        yield from noised_limits(material.spec)
    else:
        yield from _validation_limits(material)
        yield from _group_limits(material)
    yield from comparison_limits(material.spec.fairness)
    yield from disclosure_limits(material.disclosure_policy, material.spec)


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
    if not material.chosen_by_losses:
        return [
            f"Losses and fairness figures use {rows}, without noise or guarantee. Those whom a "
            "round scores may be too few for a figure of all of them, so no loss chose the round "
            "or ended training: the hypotheses are those of the last round."
        ]
    return [
        f"Validation losses, early stopping and fairness figures use {rows}, without noise or "
        "guarantee.",
        f"The {who} that decided when to stop also give the final figures, which are therefore "
        "somewhat optimistic; selection_loss, the smallest loss over hypotheses, is for stopping "
        "only.",
    ]


def _group_limits(material: ReportMaterial) -> Iterator[str]:
    fairness, shown = material.spec.fairness, material.disclosures.values()
    if not fairness.sensitive:
        yield "No sensitive attribute was named: nothing here says how groups fare."
        return
    yield (
        "Rates and gaps are pooled over the scored rows: a client with many rows counts for more "
        "than one with few."
    )
    yield _limit_counts(material)
    if not all(all(one.shown) for one in shown):
        yield (
            f"Groups with fewer than {fairness.minimum_group_size} scored rows, or with rows of "
            f"fewer than {fairness.minimum_group_clients} clients, are suppressed, and so are "
            "groups from which so few would follow by sums and differences of what this report "
            "shows of all attributes; a gap may be larger among suppressed groups."
        )
    if any(sum(one.shown) > 2 for one in shown):
        yield (
            "Among many groups the largest gap is wide by chance alone; its interval holds for all "
            "pairs together. Where it excludes 0, groups differ; it does not show why."
        )
    if any(", in no group: " in note for note in material.federation.notes):
        yield (
            "Rows without a value of an attribute are in no group. Groups are suppressed where the "
            "figures of other attributes' groups would reveal these rows, and not where those of "
            "everybody do: the accuracy less that of the groups shown is theirs."
        )
    if not material.spec.declares_outcome:
        yield (
            "No outcome was declared favourable: groups are compared by their losses alone, which "
            "do not say whom an error favours."
        )
    yield from material.spec.federation.traits.fairness_limits
    if material.result.single_row_clients:
        yield (
            f"{material.result.single_row_clients} validation clients have one row only and were "
            "scored with the same hypothesis, since none could be chosen without that row."
        )


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
