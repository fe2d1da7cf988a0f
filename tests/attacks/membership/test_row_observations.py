"""Under which hypothesis a row is looked at, and what is seen of it."""

from typing import Any

import numpy as np
import pytest
import torch

from fedaudit.attacks.membership.member_scores import RowObserver
from fedaudit.attacks.membership.shadow_design import AttackedRows
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from tests.training.federations import TABLE, federation
from tests.training.specs import groups_spec


def observer(features: Any, target: Any, *, classes: tuple[str, ...] = (), **spec: Any) -> Any:
    data = federation(features, target, classes=classes)
    every = np.arange(data.rows)
    rows = AttackedRows(every, data.client_of, every >= 0)
    parsed = parse_spec(groups_spec(federation=TABLE, fairness={}, **spec))
    return RowObserver(Cell(parsed, data), rows, torch.device("cpu"))


def test_a_row_has_no_say_in_its_hypothesis_unless_it_is_alone() -> None:
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
