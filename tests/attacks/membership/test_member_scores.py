"""What is seen of rows under a model, and scores of shadow runs with statistics of a known law."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from fedaudit.attacks.membership.membership_attack import (
    RowObserver,
    ShadowObservations,
    likelihood_ratios,
)
from fedaudit.attacks.membership.shadow_design import AttackedRows
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


def logits() -> tuple[ShadowObservations, np.ndarray, np.ndarray]:
    """Each row lies elsewhere, and one deviation higher where it was trained on."""
    random = np.random.default_rng(11)
    level = random.normal(scale=5, size=ROWS)
    trained = random.random((SHADOWS, ROWS)) < 0.5
    statistic = level + trained + random.normal(size=(SHADOWS, ROWS))
    member = np.arange(ROWS) % 2 == 0
    return ShadowObservations(trained, statistic), level + member + random.normal(size=ROWS), member


def test_likelihood_ratios_are_nearly_the_best_test() -> None:
    shadows, target, member = logits()
    scores = likelihood_ratios(target, shadows)
    assert roc_auc_score(member, scores) == pytest.approx(BEST, abs=0.03)
    # A threshold that knows nothing of the rows is lost among their levels.
    assert roc_auc_score(member, target) < 0.6


def test_a_residual_fits_well_where_it_is_small() -> None:
    random = np.random.default_rng(12)
    trained = random.random((SHADOWS, ROWS)) < 0.5
    deviation = np.where(trained, 0.5, 1.0)
    shadows = ShadowObservations(trained, random.normal(size=trained.shape) * deviation)
    member = np.arange(ROWS) % 2 == 0
    target = random.normal(size=ROWS) * np.where(member, 0.5, 1.0)
    scores = likelihood_ratios(target, shadows)
    best = roc_auc_score(member, -np.abs(target))
    assert roc_auc_score(member, scores) == pytest.approx(best, abs=0.03)


def test_a_statistic_that_overflowed_is_left_out() -> None:
    shadows, target, member = logits()
    statistic = shadows.statistic.copy()
    statistic[0], statistic[1] = np.inf, np.nan
    scores = likelihood_ratios(target, ShadowObservations(shadows.trained, statistic))
    assert np.isfinite(scores).all()
    assert roc_auc_score(member, scores) == pytest.approx(BEST, abs=0.03)
