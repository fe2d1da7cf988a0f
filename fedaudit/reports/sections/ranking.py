"""Figures of a model's scores and of its decisions between two outcomes: part of `utility`."""

from collections.abc import Mapping
from typing import Annotated, Any, assert_never

from fedaudit.fairness.noised_counts import ROUNDED_AWAY, ExactCounts, NoisedCounts, Rounder
from fedaudit.fairness.ranking import METHOD, TOO_FEW
from fedaudit.number_text import nearest, outward, step_of
from fedaudit.reports.sections.fairness import WITHHELD, NoisedGain, no_scores
from fedaudit.reports.sections.material import ScoredMaterial
from fedaudit.reports.sections.outcome_words import positive_in_words
from fedaudit.reports.sections.part import IntervalSection, Part, Share, Shown, or_why
from fedaudit.utility import NEARLY_CONSTANT, NO_INTERVALS, ConstantComparison

_EVEN = "nothing says that one error is worse than the other: see accuracy_over_baseline"
_JUDGED_AT = 0.95
_NO_PROBABILITIES = "scores are not all between 0 and 1, so they are no probabilities"
_NOT_ASKED = "there is no AUC to be sure of"


class RankingFigures(Part):
    """Figures of two outcomes.

    Of a target with two classes AUC, Brier score and calibration are of the second class, the
    positive one. Precision, recall and balanced accuracy are of the favourable outcome, as the
    rates of groups are: without a rule for it that is the positive class.
    """

    threshold: Annotated[
        float | None, Shown("Decision threshold", how="exact", where_given=True)
    ] = None
    """The probability above which the positive class is predicted; for audits, the score from which
    the favourable outcome is predicted."""
    auc: Annotated[Share | None, Shown("Area under the ROC curve (AUC, 0.5 is chance)")] = None
    """The chance that, of two rows with different outcomes, the row with the positive class has the
    higher score; equal scores count half."""
    auc_interval: IntervalSection | None = None
    """Over the validation clients, the model as it is."""
    balanced_accuracy: Annotated[Share | None, Shown("Balanced accuracy (0.5 is chance)")] = None
    """The mean of the shares of right predictions among the rows with and without the outcome."""
    precision: Annotated[Share | None, Shown("Precision, of the favourable outcome")] = None
    """The share of rows with the outcome among those for which it was predicted."""
    recall: Annotated[Share | None, Shown("Recall, of the favourable outcome")] = None
    """The share of rows for which the outcome was predicted among those with it."""
    brier: Annotated[Share | None, Shown("Brier score")] = None
    """The mean squared distance of the predicted probability from the outcome."""
    expected_calibration_error: Annotated[Share | None, Shown("Calibration error")] = None
    """The mean distance of predicted probabilities from frequencies over ten bins of equal width,
    each counted by its rows."""
    base_rate: Share | None = None
    """The share of rows with the positive class. This, AUC, Brier score and calibration are of the
    scored rows whose outcome is judged, as groups are."""
    weighted_accuracy_over_baseline: Annotated[
        float | None,
        Shown("Accuracy above a constant, weighted by the threshold", where_given=True),
    ] = None
    """`accuracy_over_baseline` with rows weighted as the threshold t weighs errors: a right
    decision counts 2t for a row without the outcome and 2 (1 - t) for one with it."""
    ranks_above_chance: bool | None = None
    """Whether the 95 % interval of an AUC is above 0.5 in which the rows of each hypothesis, or
    of each client's own model, are compared among themselves."""


def misplaced_threshold(utility: Mapping[str, Any], *, who: str) -> str | None:
    """Words that `who` ranks people and decides nothing at its threshold; None where that is not
    shown. `utility` is that of a stored report."""
    if utility.get("degenerate") is not True or not utility.get("ranks_above_chance"):
        return None
    auc, interval = utility["auc"], utility["auc_interval"]
    found = "" if auc is None else f" (AUC {auc:.3g}"
    if found and interval is not None:
        found += f", {interval['low']:.3g} to {interval['high']:.3g}"
    how = "decides no better than a constant"
    if utility["reasons"]["degenerate"] == NEARLY_CONSTANT:
        how = "gives nearly everyone the same answer"
    return (
        f"at the threshold {utility['threshold']:.4g} {who} {how}, although it ranks people better "
        f"than chance{found and found + ')'}"
    )


def weighted_words(report: Mapping[str, Any]) -> str:
    """Words on how good decisions are if the threshold makes one error worse than the other; '' if
    not. `report` is a stored one."""
    utility = report.get("utility") or {}
    gain = utility.get("weighted_accuracy_over_baseline")
    if gain is None:
        return ""
    times = (1 - utility["threshold"]) / utility["threshold"]
    classes = ["the other class", positive_in_words(report)]
    more, less = classes if times >= 1 else classes[::-1]
    side = "above" if gain >= 0 else "below"
    return (
        f"By its threshold, predicting {more} wrongly counts {max(times, 1 / times):.3g} times as "
        f"much as predicting {less} wrongly: so counted, its accuracy is {abs(gain):.3g} {side} "
        "that of the best constant."
    )


def another_threshold(*, field: str, outcome: str = "the outcome") -> str:
    """What to do about it: `field` declares a threshold, `outcome` is predicted above it. No number
    is proposed: the same held-out people would then choose it and judge it."""
    return (
        f"Declare another threshold ({field}), such as the share in which {outcome} is known to "
        "come about"
    )


DECIDED = ("balanced_accuracy", "precision", "recall")
_ORDERED = ("auc", "auc_interval", "ranks_above_chance")
_SCORED = (
    *_ORDERED,
    *("brier", "expected_calibration_error", "base_rate", "weighted_accuracy_over_baseline"),
)
_Figures = dict[str, Any]


def ranking_figures(
    material: ScoredMaterial, compared: ConstantComparison | str, noised: NoisedGain | None
) -> _Figures:
    """Every field of `RankingFigures`, or why it is missing, from what is published about the
    held-out people; `compared`: or why there is no figure. `noised`: figures of counts with noise,
    where these are published; scores have no noise, so they then give no figure."""
    published, threshold = material.published, material.result.threshold
    found: _Figures = dict.fromkeys((*DECIDED, *_SCORED), WITHHELD)
    match published:
        case NoisedCounts():
            if noised is not None:
                found |= _decided(*noised.four_counts)
        case ExactCounts() | Rounder() if isinstance(compared, str):
            found = dict.fromkeys(found, compared)
        case ExactCounts():
            found = _exact(material, compared)
        case Rounder():
            found = _coarse(_exact(material, compared), compared, base=published.base)
        case _:
            assert_never(published)
    return {
        **found,
        "threshold": "nothing is decided by a threshold" if threshold is None else threshold,
    }


def _exact(material: ScoredMaterial, compared: ConstantComparison) -> _Figures:
    ranking, counts = compared.ranking, compared.counts
    found: _Figures = dict.fromkeys((*DECIDED, *_SCORED), no_scores(material))
    if counts is not None:
        found |= _decided(*counts.tolist())
    if ranking is None:
        return found
    calibration = ("brier", "expected_calibration_error")
    found |= or_why({name: getattr(ranking, name) for name in calibration}, _NO_PROBABILITIES)
    weighted: float | str = _EVEN
    if compared.decision_gain is not None and compared.threshold != 0.5:
        weighted = float(compared.decision_gain.sum() / compared.decided.sum())
    found |= {"base_rate": ranking.base_rate, "weighted_accuracy_over_baseline": weighted}
    ordering, asked = ranking.ordering, material.spec.fairness.intervals
    if ordering is None:
        return {**found, **dict.fromkeys(_ORDERED, TOO_FEW), "auc_interval": _NOT_ASKED}
    interval: IntervalSection | str = NO_INTERVALS
    if asked is not None:
        low, high = ordering.interval(asked.level)
        interval = IntervalSection(low=low, high=high, level=asked.level, method=METHOD)
    ranks = all(
        one is not None and one.interval(_JUDGED_AT)[0] > 0.5 for one in (ordering, ranking.within)
    )
    return {**found, "auc": ordering.auc, "auc_interval": interval, "ranks_above_chance": ranks}


def _decided(true: int, false: int, true_negative: int, false_negative: int) -> _Figures:
    """Figures of the four counts."""
    positive, negative, predicted = true + false_negative, true_negative + false, true + false
    both: float | str = "one of the two outcomes has no scored row"
    if positive and negative:
        both = (true / positive + true_negative / negative) / 2
    return {
        "balanced_accuracy": both,
        "precision": true / predicted if predicted else "the outcome is predicted for no row",
        "recall": true / positive if positive else "no scored row has the outcome",
    }


def _coarse(found: _Figures, compared: ConstantComparison, *, base: int) -> _Figures:
    """The figures in steps that fit rounded counts: precision, recall and balanced accuracy by the
    rows of their denominators, AUC by the rows of the rarer outcome, since one such row moves it
    that much, and weighted accuracy by as many as the heaviest rows would be."""
    rows: dict[str, int] = {}
    if compared.ranking is not None:
        rows = dict.fromkeys(_SCORED, compared.ranking.rows)
        rows |= dict.fromkeys(_ORDERED, compared.ranking.fewer)
        heaviest = 2 * max(compared.threshold, 1 - compared.threshold)
        rows["weighted_accuracy_over_baseline"] = int(compared.decided.sum() / heaviest)
    if compared.counts is not None:
        true, false, true_negative, false_negative = compared.counts.tolist()
        positive = true + false_negative
        rows["recall"], rows["precision"] = positive, true + false
        rows["balanced_accuracy"] = min(positive, true_negative + false)
    coarse = dict(found)
    for name, of in rows.items():
        step, exact = step_of(of, base=base), found[name]
        # Also of none: why there is none would be a count.
        if step == 1 or exact == TOO_FEW:
            coarse[name] = ROUNDED_AWAY
        elif isinstance(exact, IntervalSection):
            low, high = outward(exact.low, exact.high, step)
            low, high = min(low, coarse["auc"]), max(high, coarse["auc"])
            coarse[name] = exact.model_copy(update={"low": max(0.0, low), "high": min(1.0, high)})
        elif not isinstance(exact, str | bool):
            coarse[name] = min(1.0, nearest(exact, step))
    return coarse
