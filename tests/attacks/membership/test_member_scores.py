"""What is seen of rows under a model, and scores of shadow runs with statistics of a known law."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from fedaudit.attacks.membership.member_scores import (
    RowObserver,
    ShadowObservations,
    likelihood_ratios,
    not_normal,
    relative_likelihoods,
)
from fedaudit.attacks.membership.shadow_design import AttackedRows
from fedaudit.spec.attacks.membership_spec import ShadowVariant
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from tests.training.federations import TABLE, federation
from tests.training.specs import groups_spec

ROWS, SHADOWS = 4000, 128
BEST = norm.cdf(1 / np.sqrt(2))
"""The AUC of two normal laws that lie a deviation apart. Of 2,000 of each it is measured with a
standard error of 0.008."""


def observer(features: Any, target: Any, *, classes: tuple[str, ...] = (), **spec: Any) -> Any:
    data = federation(features, target, classes=classes)
    every = np.arange(data.rows)
    rows = AttackedRows(every, data.client_of, every >= 0)
    parsed = parse_spec(groups_spec(federation=TABLE, fairness={}, **spec))
    return RowObserver(Cell(parsed, data), rows, torch.device("cpu"))


def test_a_row_does_not_choose_its_hypothesis_unless_it_is_alone() -> None:
    linear = {"model": {"kind": "linear", "intercept": False}, "training__loss": "mse"}
    looks = observer([np.ones((3, 1)), np.ones((1, 1))], [[1, 1, -1], [-1]], **linear)
    seen = looks.observe(np.array([[1.0], [-1.0]], dtype=np.float32))
    # The third row fits the second hypothesis; its client's others fit the first.
    assert seen.loss.tolist() == [0.0, 0.0, 4.0, 0.0]
    assert seen.statistic.tolist() == [0.0, 0.0, 2.0, 0.0]


@pytest.mark.parametrize("classes", [2, 3])
def test_the_statistic_is_the_logit_of_the_true_class(classes: int) -> None:
    random = np.random.default_rng(3)
    features, target = random.normal(size=(6, 4)), random.integers(0, classes, 6)
    spec = {"model": {"kind": "logistic"}, "training__loss": "cross-entropy"}
    names = tuple("abc"[:classes])
    spec["training__hypotheses"] = 1
    looks = observer([features], [target], classes=names, **spec)
    n = 5 if classes == 2 else 15
    seen = looks.observe(random.normal(size=(1, n)).astype(np.float32))
    probability = np.exp(-seen.loss)  # the loss is the cross-entropy
    logit = np.log(probability / (1 - probability))
    np.testing.assert_allclose(seen.statistic, logit, rtol=1e-4, atol=1e-4)


def test_a_logit_is_exact_where_the_probability_has_been_rounded_to_one() -> None:
    spec = {
        "model": {"kind": "logistic", "intercept": False},
        "training__loss": "cross-entropy",
        "training__hypotheses": 1,
    }
    looks = observer([np.array([[40.0], [80.0]])], [[1, 1]], classes=("a", "b"), **spec)
    assert looks.observe(np.ones((1, 1), dtype=np.float32)).statistic.tolist() == [40.0, 80.0]


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
def test_likelihood_ratios_are_nearly_the_best_test(variant, variance):
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


def test_statistics_that_are_not_normal_are_counted() -> None:
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
