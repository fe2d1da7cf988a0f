"""Scores of shadow runs whose statistics have a known law."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from fedaudit.attacks.membership.member_scores import (
    ShadowObservations,
    likelihood_ratios,
    not_normal,
    relative_likelihoods,
)
from fedaudit.spec.attacks.membership_spec import ScoreVariance, ShadowVariant

ROWS, SHADOWS = 4000, 128
BEST = norm.cdf(1 / np.sqrt(2))
"""The AUC of two normal laws that lie a deviation apart. Of 2,000 of each it is measured with a
standard error of 0.008."""


def logits(*, heavy: bool = False) -> tuple[ShadowObservations, np.ndarray, np.ndarray]:
    """Each row lies elsewhere, and one deviation higher where it was trained on."""
    random = np.random.default_rng(11)
    level = random.normal(scale=5, size=ROWS)
    trained = random.random((SHADOWS, ROWS)) < 0.5
    draw = random.exponential if heavy else random.normal
    statistic = level + trained + draw(size=(SHADOWS, ROWS))
    member = np.arange(ROWS) % 2 == 0
    return ShadowObservations(trained, statistic), level + member + draw(size=ROWS), member


@pytest.mark.parametrize("variant", ["online", "offline"])
@pytest.mark.parametrize("variance", ["per-record", "global"])
def test_likelihood_ratios_are_nearly_the_best_test(
    variant: ShadowVariant, variance: ScoreVariance
) -> None:
    shadows, target, member = logits()
    scores = likelihood_ratios(target, shadows, residuals=False, variant=variant, variance=variance)
    assert roc_auc_score(member, scores) == pytest.approx(BEST, abs=0.03)
    # A threshold that knows nothing of the rows is lost among their levels.
    assert roc_auc_score(member, target) < 0.6


@pytest.mark.parametrize("variant", ["online", "offline"])
def test_a_residual_fits_well_where_it_is_small(variant: ShadowVariant) -> None:
    random = np.random.default_rng(12)
    trained = random.random((SHADOWS, ROWS)) < 0.5
    deviation = np.where(trained, 0.5, 1.0)
    shadows = ShadowObservations(trained, random.normal(size=trained.shape) * deviation)
    member = np.arange(ROWS) % 2 == 0
    target = random.normal(size=ROWS) * np.where(member, 0.5, 1.0)
    scores = likelihood_ratios(
        target, shadows, residuals=True, variant=variant, variance="per-record"
    )
    best = roc_auc_score(member, -np.abs(target))
    assert roc_auc_score(member, scores) == pytest.approx(best, abs=0.03)


def test_relative_likelihoods_take_a_row_by_what_is_usual_of_it() -> None:
    shadows, target, member = logits()
    scores = relative_likelihoods(target, shadows, residuals=False)
    assert ((scores >= 0) & (scores <= 1 + 1 / ROWS)).all()
    # Rows whose probability is next to 1 anyway have no ratio, which costs it some power.
    assert roc_auc_score(member, scores) > 0.7
    assert len(np.unique(scores)) > 0.9 * ROWS


def test_statistics_that_are_not_normal_are_told() -> None:
    rows = np.arange(400)
    # 5 % of 400 is 20 with a deviation of 4.4: beyond 40 once in 100,000 times.
    assert not_normal(logits()[0], rows).sum() <= 40
    assert not_normal(logits(heavy=True)[0], rows).mean() > 0.95


def test_a_statistic_that_overflowed_is_left_out() -> None:
    shadows, target, member = logits()
    statistic = shadows.statistic.copy()
    statistic[0], statistic[1] = np.inf, np.nan
    spoilt = ShadowObservations(shadows.trained, statistic)
    scores = likelihood_ratios(
        target, spoilt, residuals=False, variant="online", variance="per-record"
    )
    assert np.isfinite(scores).all()
    assert roc_auc_score(member, scores) == pytest.approx(BEST, abs=0.03)
