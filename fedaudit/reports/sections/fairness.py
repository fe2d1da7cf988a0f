"""The fields of the section `fairness`, and its figures from counts as they are; fairness and
utility from counts with noise, and nothing else of the held-out people."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import (
    NO_ACCURACY,
    NO_OUTCOME,
    Figure,
    GroupScores,
    gaps_between,
    group_rates,
    group_scores,
    scored_rows,
)
from fedaudit.fairness.intervals import GROUP_METHOD, Interval
from fedaudit.fairness.noised_counts import (
    METHOD,
    ROUNDED_AWAY,
    NoisedCounts,
    noised_intervals,
    rate_bounds,
    share_difference_bounds,
)
from fedaudit.fairness.ranking import TOO_FEW
from fedaudit.number_text import digit_step, nearest, outward, step_of, without_dust
from fedaudit.reports.sections.material import FederationFacts, ReportMaterial, ScoredMaterial
from fedaudit.reports.sections.part import (
    WHERE_GIVEN,
    IntervalSection,
    LastRounds,
    Part,
    Reasons,
    Share,
    with_reasons,
)
from fedaudit.spec.fairness import Intervals
from fedaudit.spec.metrics import COUNTS, RATES, SCORE_METRICS
from fedaudit.utility import NO_INTERVALS, Gained, Judgement, judge_model


class MetricSection(Part):
    """One gap. A reason beside a value says what the value leaves out."""

    value: float | None
    reason: str | None
    interval: IntervalSection | None
    interval_reason: str | None
    last_rounds: LastRounds | None = None
    """How far it moved at the end of training; only in reports of earlier versions."""
    last_rounds_reason: str | None = "the rounds have the gaps of each round"


class GroupSection(Part):
    """The figures of one group; a suppressed group shows none. Counts are confidential."""

    value: str
    label: Annotated[str | None, WHERE_GIVEN] = None
    """What the spec's `federation.labels` call the group; absent where they leave its code."""
    suppressed: bool
    selection_rate: Share | None
    true_positive_rate: Share | None
    false_positive_rate: Share | None
    accuracy: Share | None = None
    baseline_accuracy: Share | None = None
    """This and the next two are in reports of earlier versions alone."""
    accuracy_over_baseline: float | None = None
    accuracy_over_baseline_interval: IntervalSection | None = None
    auc: Share | None = None
    """AUC of the group's rows, as `utility.auc`."""
    rate_intervals: dict[str, IntervalSection] | None = None
    """The interval of each rate, by name; rates that have none are absent."""
    loss: Annotated[float, Field(ge=0)] | None = None
    """Loss of the group's rows taken as those of one client, in the unit of the validation loss."""
    rows: int | None = None
    """The group's size by counts with noise; None where counts have none, since exact sizes are
    confidential."""
    reasons: Reasons


class CrossCheck(Part):
    """What another library computed from the rows themselves, and how far it is from the report.

    A run whose figures differ by more than rounding has no report
    (`fedaudit.reports.sections.cross_check`). A bundle carries no rows, so verification cannot
    repeat this. The number of rows is left out: counts are confidential.
    """

    library: str
    version: str
    largest_difference: Annotated[float, Field(ge=0)]
    metrics: list[str]
    """The names of the figures that both have: rates of groups, then gaps."""


class FairnessSection(Part):
    """One sensitive attribute, its rates pooled over the rows of the validation clients."""

    attribute: str
    averaging: Literal["records"] = "records"
    """How `groups` and `metrics` are counted: every scored row, regardless of its client."""
    intersection_of: list[str] | None = None
    """The attributes whose combinations these groups are; None where the data hold the attribute
    itself."""
    favourable: str | None = None
    """The outcome that rates count, in words."""
    favourable_reason: str | None = None
    reference_group: str | None
    groups: list[GroupSection]
    metrics: dict[str, MetricSection]
    doubt: str | None = None
    """Why small gaps are no evidence: whom they leave out. Reports of earlier versions lack it."""
    cross_check: CrossCheck | None = None
    cross_check_reason: str | None = None


class FiguresDisagreeError(Exception):
    """Two computations of the same figure gave different values; the message names them."""


NOT_HANDED_OVER = "the run did not hand over what its rows scored by group"
NO_GROUP_INTERVALS = "no two groups are compared by client, or no intervals were asked for"
ENDS = 0.001
"""Step to which ends of intervals from exact counts are rounded outward, so that no group's size
can be solved from them."""
SIZES_CONFIDENTIAL = "sizes without noise are confidential; fairness.noise publishes noised ones"
_NOT_FINITE = "the loss is not finite"
NO_GAINS = dict.fromkeys(
    ("baseline_accuracy", "accuracy_over_baseline", "accuracy_over_baseline_interval"),
    "a model is compared with a constant over all rows: see utility",
)


class Column(NamedTuple):
    """A figure of each group."""

    values: Floats
    """[groups]: not finite where a group has none."""
    why: str
    """Why."""


Columns = Mapping[str, Column]
"""Figures by name."""


def absent(names: Iterable[str], groups: int, why: str) -> dict[str, Column]:
    """Figures that no group has."""
    return dict.fromkeys(names, Column(np.full(groups, np.nan), why))


def group_section(
    value: str, columns: Columns, place: int, *, hidden: str | None, **others: Any
) -> GroupSection:
    """The group at a place with its figures; `hidden`: why it has none. `others`: more fields, or
    why they are missing."""
    figures = {
        name: hidden or (float(found) if math.isfinite(found) else one.why)
        for name, one in columns.items()
        for found in [one.values[place]]
    }
    intervals = {"rate_intervals": hidden or NO_GROUP_INTERVALS}
    return GroupSection(
        value=value,
        suppressed=hidden is not None,
        **with_reasons({**figures, **NO_GAINS, **intervals, **others}),
    )


def group_sections(
    values: Sequence[str],
    columns: Columns,
    disclosure: Disclosure,
    *,
    no_sizes: str = SIZES_CONFIDENTIAL,
) -> list[GroupSection]:
    """The groups with their figures, of those that are disclosed; `no_sizes`: why sizes are not."""
    return [
        group_section(
            value,
            columns,
            place,
            hidden=None if disclosure.shown[place] else disclosure.reason(place),
            rows=no_sizes,
        )
        for place, value in enumerate(values)
    ]


def with_rate_intervals(
    groups: Sequence[GroupSection],
    ends: Mapping[str, tuple[Floats, Floats]],
    *,
    level: float,
    step: float = ENDS,
    method: str = GROUP_METHOD,
) -> list[GroupSection]:
    """The groups with the intervals of their rates, whose `ends` [groups] are rounded outward to
    whole steps and hold the rate itself."""
    found = []
    for place, group in enumerate(groups):
        own = {}
        for name, (lows, highs) in ends.items():
            value, bounds = getattr(group, name), (float(lows[place]), float(highs[place]))
            if value is None or not np.isfinite(bounds).all():
                continue
            low, high = outward(min(bounds[0], value), max(bounds[1], value), step)
            low, high = max(0.0, low), min(1.0, high)
            own[name] = IntervalSection(low=low, high=high, level=level, method=method)
        kept = {name: why for name, why in group.reasons.items() if name != "rate_intervals"}
        update = {"rate_intervals": own, "reasons": kept} if own else {}
        found.append(group.model_copy(update=update))
    return found


def rate_columns(counts: Ints, *, has_favourable_outcome: bool) -> dict[str, Column]:
    """The RATES of groups, from counts [groups, 4]."""
    if not has_favourable_outcome:
        return absent(RATES, len(counts), NO_OUTCOME)
    rates = zip(RATES.items(), group_rates(counts), strict=True)
    return {name: Column(values, rate.why_undefined) for (name, rate), values in rates}


def score_columns(
    scores: GroupScores | None, *, root_mean: bool, right: Ints | None, rows: Ints, coarse: bool
) -> dict[str, Column]:
    """Accuracy and loss of groups; `root_mean` as in `group_scores`. `right` of `rows` [groups]:
    what accuracies are made of; None for regression. `coarse`: losses to two digits."""
    if scores is None:
        return absent(("accuracy", "loss"), len(rows), NOT_HANDED_OVER)
    accuracies, losses = group_scores(scores.sums.sum(axis=0), root_mean=root_mean)
    if coarse:
        steps = [(loss, digit_step(loss)) for loss in losses.tolist()]
        losses = np.array([nearest(*one) if np.isfinite(one[0]) else one[0] for one in steps])
    no_accuracy = NO_ACCURACY
    if right is not None:
        accuracies = np.where(rows > 0, np.minimum(1.0, right / np.maximum(rows, 1)), np.nan)
        no_accuracy = RATES["selection_rate"].why_undefined
    return {"accuracy": Column(accuracies, no_accuracy), "loss": Column(losses, _NOT_FINITE)}


def ranking_columns(
    material: ScoredMaterial, attribute: str, *, base: int | None
) -> dict[str, Column]:
    """The AUC of groups of an attribute. `base`: that of rounded counts. An AUC is then in steps of
    the rows of the rarer outcome, one of which moves it by so much. Raises ValueError where the
    disclosure was not decided from the rows that it covers."""
    found, disclosure = material.result.against_constant, material.disclosures[attribute]
    groups = disclosure.rows.size
    if found is None or attribute not in found.rows_by_group:
        return absent(("auc",), groups, NOT_HANDED_OVER)
    disclosure.check(found.rows_by_group[attribute])
    if found.ranking is None:
        return absent(("auc",), groups, no_scores(material))
    aucs = found.ranking.by_group[attribute]
    if base is None:
        return {"auc": Column(aucs, TOO_FEW)}
    fewer = found.ranking.fewer_by_group[attribute].tolist()
    steps = [step_of(rows, base=base) for rows in fewer]
    rounded = [
        np.nan if step == 1 or np.isnan(auc) else min(1.0, nearest(auc, step))
        for auc, step in zip(aucs.tolist(), steps, strict=True)
    ]
    return {"auc": Column(np.array(rounded), ROUNDED_AWAY)}


_MANY_CLASSES = "the target has more than two classes"
_NO_SCORES = "the table has predictions and no scores"


def no_scores(material: ScoredMaterial) -> str:
    """Why rows were not ranked."""
    if not material.spec.classifies:
        return NO_ACCURACY
    return _MANY_CLASSES if isinstance(material, ReportMaterial) else _NO_SCORES


def interval_section(
    found: Interval | str, asked: Intervals | None, *, method: str
) -> IntervalSection | str:
    """The interval, or why there is none."""
    if isinstance(found, str):
        return found
    if asked is None:
        return NO_INTERVALS
    return IntervalSection(low=found.low, high=found.high, level=asked.level, method=method)


_COVERED = 0.9
_LEAVES_OUT = (
    "the groups shown are not known to hold nine tenths of the people: others are in small groups, "
    "in none, or left out; score more people, join small groups, or fill empty cells"
)


def coverage_doubt(facts: FederationFacts, rows: Ints, shown: Bools, others: int) -> str | None:
    """Why no gap between the shown of groups with these scored rows [groups] is evidence: too many
    of everybody, with `others` in no group, are in none of them. The answer says as much of those
    who are hidden as the numbers do: rounded or noised, it is no exact figure."""
    everybody, kept = int(rows.sum()) + others, facts.rows / max(1, facts.rows + facts.dropped)
    return _LEAVES_OUT if rows[shown].sum() * kept < _COVERED * everybody else None


def metric_section(
    figure: Figure, found: Interval | str, asked: Intervals | None, *, method: str
) -> MetricSection:
    """A gap with its interval, or the reason why it has none."""
    interval: IntervalSection | str = "there is no value to be sure of"
    if figure.value is not None:
        interval = interval_section(found, asked, method=method)
    known, why = (None, interval) if isinstance(interval, str) else (interval, None)
    return MetricSection(
        value=figure.value, reason=figure.reason, interval=known, interval_reason=why
    )


WITHHELD = (
    "fairness.noise protects the held-out people, and this would be computed from their data "
    "without noise"
)
CHECKED_BEFORE = (
    "noise was added after the exact figures had been computed twice from the rows; how the two "
    "compare would be a figure without noise"
)
_NOT_NOISED = ("accuracy", "loss", "auc")


def noised_section(
    material: ScoredMaterial, attribute: str, noised: NoisedCounts
) -> FairnessSection:
    """Rates and gaps of one attribute, with intervals that take in the noise. Sizes are noised too,
    so a group is left out where it seems too small for a figure to mean something. Where the noise
    is secret, nothing is left out to protect it, and no group with it: what the noised counts of
    all groups give away is within their epsilon."""
    values, drawn = material.federation.attributes[attribute], noised.counts[attribute]
    disclosure, fairness = material.disclosures[attribute], material.spec.fairness
    rule, open_ = disclosure.rule, disclosure.shown | material.spec.hides_counts
    combined, asked = fairness.combinations.get(attribute), fairness.intervals
    counts = np.maximum(drawn, 0)
    rows = scored_rows(counts)
    large = np.array([rule.is_large(int(size)) and size > 0 for size in rows], dtype=np.bool_)
    shown = large & open_
    [figures] = gaps_between(
        counts[np.newaxis], shown[np.newaxis], reference=rule.reference, rows=rows[np.newaxis]
    )
    figures += [Figure(name, None, WITHHELD) for name in SCORE_METRICS]
    why = f"left out: {rule.few('rows by the noised counts')}, so noise would outweigh people"
    hidden = [
        (None if large[place] else why) if open_[place] else disclosure.reason(place)
        for place in range(len(values))
    ]
    rates = rate_columns(counts, has_favourable_outcome=True)
    groups = [
        group_section(
            value,
            rates,
            place,
            hidden=hidden[place],
            rows=int(counts[place].sum()) if open_[place] else hidden[place],
            **dict.fromkeys(_NOT_NOISED, WITHHELD),
            rate_intervals=NO_GROUP_INTERVALS,
        )
        for place, value in enumerate(values)
    ]
    intervals = dict[str, Interval | str]()
    if asked is not None:
        ends = {rate: rate_bounds(drawn, rate, noised, share=1 - asked.level) for rate in RATES}
        groups = with_rate_intervals(groups, ends, level=asked.level, method=METHOD)
        intervals = noised_intervals(
            drawn, noised, shown, reference=rule.reference, level=asked.level
        )
    metrics = {}
    for one in figures:
        found = intervals.get(one.metric, NO_INTERVALS)
        if one.value is not None and not isinstance(found, str):
            found = Interval(*map(without_dust, _around(one.value, *found)))
        metrics[one.metric] = metric_section(one, found, asked, method=METHOD)
    return FairnessSection(
        attribute=attribute,
        intersection_of=None if combined is None else list(combined),
        reference_group=None if rule.reference is None else values[rule.reference],
        groups=groups,
        metrics=metrics,
        doubt=coverage_doubt(material.federation, rows, shown, others=0),
        cross_check_reason=CHECKED_BEFORE,
    )


FROM_NOISE = (
    "from counts with noise: of outcomes that are favourable or not, over the rows of the first "
    "sensitive attribute"
)
_JUDGED_AT = 0.95
_EACH_WAY = (("true_negatives", "false_negatives"), ("true_positives", "false_positives"))
"""The gain over always predicting the favourable outcome, and over never doing so."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisedGain:
    """Shares of the noised rows. Intervals cover the population that the held-out people were drawn
    from, as intervals of gaps do, and contain the figure itself."""

    accuracy_over_baseline: float
    prediction_share: float
    outcome_share: float
    four_counts: tuple[int, ...]
    """The counts of all groups together, none of them negative."""
    pooled: Ints
    """[4]: the same as they were drawn."""
    noise: NoisedCounts
    """The noise, with the deviation of each of those."""
    one_hypothesis: bool
    """If False, the constant of each hypothesis may be better than the one known here, and predict
    what it predicts more evenly: the figures then bound on one side only."""

    def gain_interval(self, level: float) -> tuple[float, float]:
        """Interval of `accuracy_over_baseline`."""
        share = (1 - level) / len(_EACH_WAY)
        bounds = partial(share_difference_bounds, self.pooled, noised=self.noise, share=share)
        lows, highs = zip(*(bounds(more=more, less=less) for more, less in _EACH_WAY), strict=True)
        low = min(lows) if self.one_hypothesis else -1.0
        return _around(self.accuracy_over_baseline, low, min(highs))

    def share_interval(self, level: float) -> tuple[float, float]:
        """Interval of `prediction_share`."""
        lows, highs = rate_bounds(
            self.pooled[np.newaxis], "selection_rate", self.noise, share=1 - level
        )
        low, high = float(lows[0]), float(highs[0])
        largest = max(high, 1 - low) if self.one_hypothesis else 1.0
        return _around(self.prediction_share, max(0.5, low, 1 - high), largest)

    @property
    def judgement(self) -> Judgement:
        """Whether the model is degenerate by these."""
        found = Interval(*self.gain_interval(_JUDGED_AT))
        return judge_model(
            {"accuracy": Gained(self.accuracy_over_baseline, found, "by counts with noise")},
            prediction_share=self.prediction_share,
            outcome_share=self.outcome_share,
        )


def noised_gain(noised: NoisedCounts, *, hypotheses: int) -> NoisedGain | None:
    """The figures of the first attribute's counts; None where noise left no row."""
    drawn = next(iter(noised.counts.values()))
    pooled = dict(zip(COUNTS, np.maximum(drawn, 0).sum(axis=0).tolist(), strict=True))
    rows = sum(pooled.values())
    if not rows:
        return None
    positive = pooled["true_positives"] + pooled["false_negatives"]
    predicted = pooled["true_positives"] + pooled["false_positives"]
    right = pooled["true_positives"] + pooled["true_negatives"]
    return NoisedGain(
        accuracy_over_baseline=(right - max(positive, rows - positive)) / rows,
        prediction_share=max(predicted, rows - predicted) / rows,
        outcome_share=max(positive, rows - positive) / rows,
        four_counts=tuple(pooled.values()),
        pooled=drawn.sum(axis=0),
        noise=replace(noised, deviation=noised.deviation * math.sqrt(len(drawn))),
        one_hypothesis=hypotheses == 1,
    )


def _around(value: float, low: float, high: float) -> tuple[float, float]:
    """Include the value itself, which counts cut off at 0 may put outside."""
    return min(low, value), max(high, value)
