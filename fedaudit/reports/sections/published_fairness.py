"""The section `fairness`, from whichever counts are published."""

from typing import assert_never

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import Figure, gaps, score_gaps
from fedaudit.fairness.intervals import METHOD, intervals_by_group, rate_intervals, score_intervals
from fedaudit.fairness.noised_counts import ExactCounts, NoisedCounts, RoundedCounts
from fedaudit.reports.ledger_totals import RunEvidence
from fedaudit.reports.sections.fairness import (
    NOT_HANDED_OVER,
    FairnessSection,
    MetricSection,
    group_rankings,
    group_sections,
    metric_section,
    with_rate_intervals,
)
from fedaudit.reports.sections.held_out_privacy import noised_limits
from fedaudit.reports.sections.material import ReportMaterial, ScoredMaterial
from fedaudit.reports.sections.noised_counts import noised_section
from fedaudit.reports.sections.outcome_words import words_checks
from fedaudit.reports.sections.part import Section
from fedaudit.reports.sections.provenance import comparison_limits, disclosure_limits
from fedaudit.reports.sections.rounded_counts import Rounding
from fedaudit.spec.metrics import SCORE_METRICS


def fairness_sections(material: ScoredMaterial) -> list[FairnessSection]:
    """One section for each attribute: the sensitive attributes of the spec, then intersections."""
    attributes = material.spec.fairness.attributes
    match material.published:
        case NoisedCounts():
            return [noised_section(material, name, material.published) for name in attributes]
        case RoundedCounts():
            rounder = material.published.rounder
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
        f"losses of groups to two digits. Each rounded count lies within {base - 1} rows of the "
        "exact one; several figures of one report, or the exact accuracy and loss over all people, "
        "can narrow that down, at times to one number: this is rounding and no noise with an "
        "epsilon."
    )


FAIRNESS = Section[ReportMaterial, RunEvidence](
    "fairness",
    fairness_sections,
    lambda found: iter(()) if found.spec is None else words_checks(found.report),
    _fairness_limits,
)
