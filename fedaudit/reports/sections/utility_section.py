"""How well the model predicts, beside a prediction that looks at nothing."""

import math
from typing import Any, assert_never

from fedaudit.fairness.gaps import NO_ACCURACY
from fedaudit.fairness.intervals import GAIN_METHOD
from fedaudit.fairness.noised_intervals import METHOD
from fedaudit.fairness.published_counts import (
    ExactCounts,
    NoisedCounts,
    RoundedCounts,
    digit_step,
    nearest,
    outward,
    step_of,
    without_dust,
)
from fedaudit.reports.document.held_out_document import IntervalSection
from fedaudit.reports.document.material import ScoredMaterial
from fedaudit.reports.document.utility_document import Utility
from fedaudit.reports.sections.group_gains import interval_section
from fedaudit.reports.sections.method_section import method_section
from fedaudit.reports.sections.noised_fairness import WITHHELD
from fedaudit.reports.sections.noised_gain import NOISED_OUTCOMES, NoisedGain, noised_gain
from fedaudit.spec.models import ArtifactStart
from fedaudit.utility.constant import ConstantComparison
from fedaudit.utility.degenerate import (
    NO_INTERVALS,
    Judgement,
    OverConstant,
    judge_comparison,
    over_constant,
)

_MEASURED = ("validation_loss", "selection_loss", "accuracy", "start_loss")
_COMPARED = (
    "baseline",
    "baseline_accuracy",
    "baseline_loss",
    "accuracy_over_baseline",
    "loss_under_baseline",
    "prediction_share",
    "outcome_share",
)
_GAINS = ("accuracy_over_baseline", "loss_under_baseline")
_INTERVALS = tuple(f"{name}_interval" for name in _GAINS)
_NOISED_INTERVALS = ("accuracy_over_baseline_interval", "prediction_share_interval")
_NOT_SCORED = "the run did not hand over what a constant prediction gets on its rows"
_NOT_FINITE = "there was no finite loss to report"
_NO_OUTCOME = "the target is a number and no outcome was declared favourable"
_NOT_BY_HYPOTHESIS = (
    "counts with noise do not say which hypothesis, or whose model, predicted a row, so a model of "
    "one constant for each looks like any other"
)
_OF_NOISE_ALONE = "only counts with noise give this share an interval"
_ONE_CONSTANT = (
    f"{NOISED_OUTCOMES}; beside one constant for all hypotheses or models: with one for each, a "
    "gain is at most this and a share at least this"
)
_NOT_LEARNT = (
    "no round was better than the start, so the best of them was picked by chance on the rows that "
    "it is scored on"
)
_ONE_HYPOTHESIS = "one hypothesis is trained in every round"
_STILL = 1e-12
"""Of the loss at the start: a difference so small is rounding."""


def utility_section(material: ScoredMaterial) -> Utility:
    """The section, from exact or rounded counts, or from counts with noise alone."""
    published, gain = material.published, None
    match published:
        case NoisedCounts():
            gain = noised_gain(published, hypotheses=_constants(material))
            found = _from_noise(material, gain)
        case RoundedCounts():
            found = _coarse(_exact(material), _rows_step(material, base=published.rounder.base))
        case ExactCounts():
            found = _exact(material)
        case _:
            assert_never(published)
    improved = _improved(found)
    judged = _judgement(material, gain, improved=improved)
    reasons = {**found["reasons"]}
    if judged.reason is not None:
        reasons["degenerate"] = judged.reason
    if improved is None:
        reasons["improved"] = found["reasons"].get("start_loss", _NOT_FINITE)
    result, collapsed = material.result, None
    if material.spec.training.hypotheses > 1:
        collapsed = result.collapsed_rounds
    else:
        reasons["collapsed_rounds"] = _ONE_HYPOTHESIS
    return Utility(
        method=method_section(material.spec),
        **{**found, "reasons": reasons},
        degenerate=judged.degenerate,
        improved=improved,
        rounds=result.rounds,
        best_round=result.best_round,
        collapsed_rounds=collapsed,
        stopped_by=result.stopped_by,
    )


# -- where the figures come from ------------------------------------------------------------------


def _exact(material: ScoredMaterial) -> dict[str, Any]:
    result = material.result
    values: dict[str, Any] = {
        "validation_loss": _finite(result.validation_loss),
        "selection_loss": _finite(result.selection_loss),
        "accuracy": _finite(result.accuracy),
        "start_loss": _finite(result.start_loss),
    }
    reasons = {name: _NOT_FINITE for name, value in values.items() if value is None}
    values["prediction_share_interval"] = None
    reasons["prediction_share_interval"] = _OF_NOISE_ALONE
    if not material.spec.classifies:
        reasons["accuracy"] = NO_ACCURACY
    found = result.against_constant
    if found is None or values["validation_loss"] is None:
        why = _NOT_SCORED if found is None else _NOT_FINITE
        missing = (*_COMPARED, *_INTERVALS)
        return {
            **values,
            **dict.fromkeys(missing),
            "reasons": reasons | dict.fromkeys(missing, why),
        }
    return _with_comparison(material, found, values, reasons)


def _with_comparison(
    material: ScoredMaterial,
    found: ConstantComparison,
    values: dict[str, Any],
    reasons: dict[str, str],
) -> dict[str, Any]:
    asked = material.spec.fairness.intervals
    compared = over_constant(found, level=None if asked is None else asked.level)
    values |= {"baseline": found.constant}
    values |= {name: getattr(compared, name) for name in _COMPARED[1:]}
    for name in ("baseline_accuracy", "accuracy_over_baseline"):
        if values[name] is None:
            reasons[name] = NO_ACCURACY
    for name in ("prediction_share", "outcome_share"):
        if values[name] is None:
            reasons[name] = _NO_OUTCOME
    for name in _GAINS:
        values[f"{name}_interval"], why = _interval(material, compared, name)
        if why is not None:
            reasons[f"{name}_interval"] = reasons.get(name, why)
    return {**values, "reasons": reasons}


def _interval(
    material: ScoredMaterial, compared: OverConstant, name: str
) -> tuple[IntervalSection | None, str | None]:
    asked, found = material.spec.fairness.intervals, compared.intervals[name]
    if asked is None:
        return None, NO_INTERVALS
    return interval_section(found, level=asked.level, method=GAIN_METHOD), found.reason


def _rows_step(material: ScoredMaterial, *, base: int) -> float:
    """The step of shares of all scored rows."""
    found = material.result.against_constant
    return step_of(2**31 if found is None else int(found.rows.sum()), base=base)


def _coarse(found: dict[str, Any], step: float) -> dict[str, Any]:
    """The constant's figures in steps as wide as rounded counts make them.

    A gain is what is published of the model less what is published of the constant, so that it says
    no more of the rows than the two do.
    """
    coarse = dict(found)
    for name in ("baseline_accuracy", "baseline_loss", "prediction_share", "outcome_share"):
        if found[name] is not None:
            coarse[name] = nearest(found[name], _step(name, found[name], step))
    pairs = (("accuracy", "baseline_accuracy", 1), ("validation_loss", "baseline_loss", -1))
    for gain, (own, baseline, sign) in zip(_GAINS, pairs, strict=True):
        if found[gain] is None:
            continue
        coarse[gain] = without_dust(sign * (found[own] - coarse[baseline]))
        interval = found[f"{gain}_interval"]
        if interval is not None:
            low, high = outward(
                interval.low, interval.high, _step(baseline, coarse[baseline], step)
            )
            coarse[f"{gain}_interval"] = interval.model_copy(
                update={"low": min(low, coarse[gain]), "high": max(high, coarse[gain])}
            )
    return coarse


def _step(name: str, value: float, step: float) -> float:
    return digit_step(value) if "loss" in name else step


def _from_noise(material: ScoredMaterial, gain: NoisedGain | None) -> dict[str, Any]:
    """What counts with noise say; nothing else of the held-out people is published."""
    missing = (*_MEASURED, *_COMPARED, *_INTERVALS, *_NOISED_INTERVALS)
    values: dict[str, Any] = dict.fromkeys(missing)
    reasons = dict.fromkeys(missing, WITHHELD)
    asked = material.spec.fairness.intervals
    if gain is None:
        return {**values, "reasons": reasons}
    shown = ("accuracy_over_baseline", "prediction_share", "outcome_share")
    reasons |= dict.fromkeys(shown, NOISED_OUTCOMES if gain.one_hypothesis else _ONE_CONSTANT)
    values |= {name: getattr(gain, name) for name in shown}
    if asked is None:
        return {**values, "reasons": reasons | dict.fromkeys(_NOISED_INTERVALS, NO_INTERVALS)}
    found = (gain.gain_interval(asked.level), gain.share_interval(asked.level))
    for name, (low, high) in zip(_NOISED_INTERVALS, found, strict=True):
        del reasons[name]
        values[name] = IntervalSection(
            low=low, high=high, level=asked.level, method=METHOD, samples=None
        )
    return {**values, "reasons": reasons}


# -- what follows from them -----------------------------------------------------------------------


def _constants(material: ScoredMaterial) -> int:
    """How many constants a model could be: one a hypothesis, or one a held-out client."""
    training = material.spec.training
    if training.method.personalises:
        return material.federation.clients - material.federation.training_clients
    return training.hypotheses


def _judgement(
    material: ScoredMaterial, gain: NoisedGain | None, *, improved: bool | None
) -> Judgement:
    """Whether the model is degenerate, by the exact figures, or by counts with noise alone."""
    compared = material.result.against_constant
    if isinstance(material.published, NoisedCounts):
        if _constants(material) > 1:
            return Judgement(None, _NOT_BY_HYPOTHESIS)
        return Judgement(None, WITHHELD) if gain is None else gain.judgement
    if compared is None or _finite(material.result.validation_loss) is None:
        return Judgement(None, _NOT_SCORED if compared is None else _NOT_FINITE)
    judged = judge_comparison(compared)
    warm = isinstance(material.spec.model.start, ArtifactStart)
    if judged.degenerate is False and improved is False and not warm:
        return Judgement(None, _NOT_LEARNT)
    return judged


def _improved(found: dict[str, Any]) -> bool | None:
    """Whether the best hypotheses fit better than those that training started from."""
    start, best = found["start_loss"], found["selection_loss"]
    if start is None or best is None:
        return None
    return bool(best < start * (1 - _STILL))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
