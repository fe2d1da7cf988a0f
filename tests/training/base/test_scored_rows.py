"""The figures of a finished run's rows."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import brier_score_loss, roc_auc_score

from fedaudit.federations.federation import Attribute, ClientRows, Federation
from fedaudit.federations.groups import with_intersections
from fedaudit.spec.errors import InvalidInputError
from fedaudit.training.base.cell import Cell, stack_key
from fedaudit.training.base.rounds import FinalResult
from fedaudit.training.stack import Stack
from tests.training.federations import (
    COUNTS,
    RECORD_SPLIT,
    TABLE,
    image_cell,
    image_federation,
    one_by_one,
    table_cell,
    two_distributions,
    uneven,
)
from tests.training.personalised import records_spec
from tests.training.specs import cell, kinds_of, train

BOTH: dict[str, Any] = {"sensitive": ["group", "site"], "intersections": [["group", "site"]]}
RULE: dict[str, Any] = {**BOTH, "favourable": {"op": "ge", "value": 0.2}}
CLASSES: dict[str, Any] = {
    "model": {"kind": "logistic"},
    "training__loss": "cross-entropy",
    "fairness": {**BOTH, "favourable": {"op": "in", "value": ["class-1"]}},
}
SPLIT = {**TABLE, "validation_fraction": 0.4, "scoring": {"method": "split", "fraction": 0.4}}


def people(*, classes: int = 0, least: int = 2) -> Federation:
    """Clients with `least` to 7 rows, in two groups and at three sites, some in none."""
    random = np.random.default_rng(3)
    counts = random.integers(least, 8, 30)
    counts[0] = 7
    data = two_distributions(random, counts.tolist(), classes=classes, first_group=-1)
    sites = random.integers(-1, 3, data.rows).astype(np.int16)
    attributes = (*data.attributes, Attribute("site", ("n", "s", "w"), sites))
    return with_intersections(
        replace(data, attributes=attributes), {"group_site": ("group", "site")}
    )


def end_of(one: Cell) -> tuple[FinalResult, NDArray[np.int64]]:
    """The result, and where the held-out rows are."""
    return train(one)[1], one.validation_rows.place


def check_consistent(result: FinalResult, *, declared: bool = True) -> None:
    """The rows one by one add up to the counts, of which they know nothing."""
    for name, scores in result.scores.items():
        rows, counts = result.predicted[name], result.fairness[name]
        groups = counts.shape[1]
        assert scores.rows.dtype == np.int64
        assert (scores.loss[scores.rows == 0] == 0).all()
        assert (np.bincount(rows.groups, minlength=groups) == scores.rows.sum(0)).all()
        assert (rows.truth is None) == (rows.predicted is None) == (not declared)
        if rows.truth is not None and rows.predicted is not None:
            assert (scores.rows == counts.sum(-1)).all()
            kinds = rows.groups * 4 + kinds_of(rows.predicted, rows.truth)
            found = np.bincount(kinds, minlength=groups * 4)
            assert (found.reshape(groups, 4) == counts.sum(0)).all()
        assert (rows.true_classes is None) == (scores.correct is None)
        if scores.correct is not None:
            assert (scores.correct <= scores.rows).all()
            right = rows.groups[rows.true_classes == rows.predicted_classes]
            assert (np.bincount(right, minlength=groups) == scores.correct.sum(0)).all()


@pytest.mark.parametrize("loss", ["rmse", "mse"])
def test_a_regression_row_by_row(loss: str) -> None:
    data = people()
    one = table_cell(
        data, fairness=RULE, training__loss=loss, training__hypotheses=2, training__rounds=4
    )
    result, place = end_of(one)
    check_consistent(result)
    _, client_of = np.unique(data.client_of[place], return_inverse=True)
    predictions = data.side_by_side[place] @ result.hypotheses[:, :3].T + result.hypotheses[:, 3]
    errors = (predictions - data.target[place, None]).astype(np.float64) ** 2
    sums = np.zeros((client_of.max() + 1, 2))
    np.add.at(sums, client_of, errors)
    # Each row by the hypothesis that fits its client's other rows.
    chosen = (sums[client_of] - errors).argmin(1)
    assert len(np.unique(chosen)) == 2
    rows = np.arange(len(place))
    for attribute in data.attributes:
        codes, scores = attribute.codes[place], result.scores[attribute.name]
        known = codes >= 0
        found = np.zeros((*scores.rows.shape, 3))
        selected = predictions[rows, chosen] >= 0.2
        figures = np.column_stack([np.ones(len(place)), errors[rows, chosen], selected])
        np.add.at(found, (client_of[known], codes[known]), figures[known])
        assert scores.correct is None
        assert (scores.rows == found[..., 0]).all()
        np.testing.assert_allclose(scores.loss, found[..., 1], rtol=1e-4)
        assert (result.fairness[attribute.name][..., :2].sum(-1) == found[..., 2]).all()


@pytest.mark.parametrize("changes", [{}, {"federation": SPLIT}], ids=["all rows", "split"])
def test_of_a_classifier_the_right_rows_are_counted(changes: dict[str, Any]) -> None:
    result, _ = end_of(table_cell(people(classes=2), **CLASSES, **changes))
    check_consistent(result)
    for name, scores in result.scores.items():
        true_positives, _, true_negatives, _ = np.moveaxis(result.fairness[name], -1, 0)
        assert scores.correct is not None
        # Of two classes the favourable one is predicted rightly where it is and where it is not.
        assert (scores.correct == true_positives + true_negatives).all()


def test_of_several_classes_more_is_wrong_than_the_outcome() -> None:
    result, _ = end_of(table_cell(people(classes=4), **CLASSES))
    check_consistent(result)
    scores, counts = result.scores["group"], result.fairness["group"].sum((0, 1))
    assert scores.correct is not None
    assert scores.correct.sum() < counts[0] + counts[2]


def test_without_a_favourable_outcome_losses_are_all_there_is() -> None:
    data = people()
    with_rule, _ = end_of(table_cell(data, fairness=RULE))
    without, _ = end_of(table_cell(data, fairness=BOTH))
    check_consistent(without, declared=False)
    for name, scores in without.scores.items():
        assert not without.fairness[name].any()
        assert (scores.rows == with_rule.scores[name].rows).all()
        assert (scores.loss == with_rule.scores[name].loss).all()


def test_rows_of_which_no_rule_speaks_are_in_no_figure() -> None:
    rules = [{"group": {"group": "g1"}, "op": "ge", "value": 0.0}]
    data = people()
    result, place = end_of(table_cell(data, fairness={**BOTH, "favourable": rules}))
    check_consistent(result)
    assert not result.scores["group"].rows[:, 1].any()
    spoken_of = (data.attribute("group").codes == 0) & (data.attribute("site").codes >= 0)
    assert result.scores["site"].rows.sum() == spoken_of[place].sum()


def test_without_sensitive_attributes_there_is_nothing_by_group() -> None:
    result, _ = end_of(table_cell(people()))
    assert result.scores == {}


def test_a_stack_gives_what_its_cells_give_alone() -> None:
    data = people()
    chosen = [table_cell(data, fairness=RULE, seed=seed, training__rounds=3) for seed in (1, 2)]
    stack = Stack(chosen)
    stack.advance(3)
    for position, one in enumerate(chosen):
        stacked = stack.result(position)
        check_consistent(stacked)
        for name, scores in end_of(one)[0].scores.items():
            assert (stacked.scores[name].loss == scores.loss).all()


TWO: dict[str, Any] = {
    **CLASSES,
    "fairness": {"sensitive": ["group"]},
    "training__hypotheses": 1,
    "training__rounds": 5,
}
RECORDS: dict[str, Any] = {
    **TWO,
    "privacy": {
        "mechanism": "record-personalised",
        "budgets": {"distribution": "three-levels"},
        "delta": 1e-3,
    },
    "training__cohort": {"sampling": "poisson", "rate": 0.6},
    "training__local": {"steps": 5, "batch_size": 4, "step_size": 0.05, "optimiser": "adam"},
    "training__clustering": {"method": "k-means"},
    "federation": RECORD_SPLIT,
}
TWO_CLASSES: dict[str, Any] = {
    "side by side": lambda: (people(classes=2), TWO),
    "by length": lambda: (uneven([*COUNTS, 900], classes=2), TWO),
    "one by one": lambda: (one_by_one(people(classes=2)), TWO),
    "records": lambda: (people(classes=2, least=5), RECORDS),
}


@pytest.mark.parametrize("threshold", [0.5, 0.2])
@pytest.mark.parametrize("name", TWO_CLASSES)
def test_two_classes_are_scored_and_decided_as_the_model_says(name: str, threshold: float) -> None:
    data, spec = TWO_CLASSES[name]()
    one = table_cell(data, **spec, decision={"threshold": threshold})
    result, place = end_of(one)
    features = data.features
    inputs = (features.values if isinstance(features, ClientRows) else features)[place]
    [theta] = result.hypotheses
    logits = inputs @ theta[:-1] + theta[-1]
    truth, shares = data.target[place] == 1, 1 / (1 + np.exp(-logits))
    found = result.against_constant
    assert found is not None
    assert found.ranking is not None
    assert found.ranking.ordering is not None
    assert found.ranking.ordering.auc == pytest.approx(roc_auc_score(truth, logits), abs=1e-4)
    assert found.ranking.brier == pytest.approx(brier_score_loss(truth, shares), abs=1e-5)
    codes = data.attribute("group").codes[place]
    for group, auc in enumerate(found.ranking.by_group["group"]):
        own = codes == group
        assert auc == pytest.approx(roc_auc_score(truth[own], logits[own]), abs=1e-3)
    predicted = shares > threshold
    assert (predicted != (shares > 0.5)).any() == (threshold != 0.5)
    assert result.threshold == threshold
    assert result.accuracy == pytest.approx((predicted == truth).mean())
    losses = np.logaddexp(0, np.where(truth, -logits, logits))
    clients = np.ones(len(place)) if name == "records" else data.counts[data.client_of[place]]
    assert result.validation_loss == pytest.approx(np.average(losses, weights=1 / clients))
    kinds = kinds_of(predicted, truth)
    assert found.counts is not None
    assert found.counts.tolist() == np.bincount(kinds, minlength=4).tolist()
    for group, counts in enumerate(result.fairness["group"].sum(0)):
        assert counts.tolist() == np.bincount(kinds[codes == group], minlength=4).tolist()


def test_rows_without_a_rule_are_in_no_figure_of_scores() -> None:
    data = people(classes=2)
    first, _ = data.attribute("group").values
    rule = {"group": {"group": first}, "op": "in", "value": ["class-1"]}
    fairness = {"sensitive": ["group"], "favourable": [rule]}
    result, place = end_of(table_cell(data, **{**TWO, "fairness": fairness}))
    truth = (data.target[place] == 1)[data.attribute("group").codes[place] == 0]
    found = result.against_constant
    assert found is not None
    assert found.true_outcomes is not None
    assert found.ranking is not None
    assert found.ranking.rows == len(truth) == found.true_outcomes.sum() < found.rows.sum()
    # As the outcomes beside it, so that nothing is left of the other rows by subtraction.
    assert found.ranking.base_rate == truth.mean() == found.true_outcomes[1] / len(truth)
    assert found.ranking.ordering is not None
    assert found.ranking.ordering.auc == found.ranking.by_group["group"][0]


def test_the_base_rate_is_that_of_the_rows_that_train() -> None:
    data = people(classes=2)
    one = table_cell(data, **TWO, decision={"threshold": "base-rate"})
    result, place = end_of(one)
    trains = np.ones(data.rows, np.bool_)
    trains[place] = False
    assert result.threshold == (data.target[trains] == 1).mean()
    alike = table_cell(data, **TWO, decision={"threshold": result.threshold})
    assert end_of(alike)[0].accuracy == result.accuracy
    # Cells that decide otherwise are not trained side by side.
    assert stack_key(alike) == stack_key(one) != stack_key(table_cell(data, **TWO))
    with pytest.raises(InvalidInputError, match="of one class"):
        _ = replace(one, federation=replace(data, target=np.ones_like(data.target))).threshold


@cache
def cells() -> dict[str, Cell]:
    numbers, classes = people(), people(classes=2)
    several: dict[str, Any] = {"training__hypotheses": 2, "training__rounds": 4}
    records = records_spec()
    by_client = {**records["federation"], "validation_unit": "client"}
    return {
        "rmse": table_cell(numbers, fairness=RULE, training__loss="rmse", **several),
        "mse": table_cell(numbers, fairness=RULE, training__loss="mse", training__rounds=4),
        "no groups": table_cell(numbers, fairness={}, training__loss="mse", **several),
        "classes": table_cell(classes, **{**CLASSES, **several}),
        "split": table_cell(classes, federation=SPLIT, **{**CLASSES, **several}),
        "one by one": table_cell(one_by_one(classes), **{**CLASSES, **several}),
        "images": image_cell(image_federation(), training__rounds=2),
        "records": cell(records),
        "records of clients": cell({**records, "federation": by_client}),
    }


@pytest.mark.parametrize("name", list(cells()))
def test_the_model_beside_the_constant_is_the_model_of_the_report(name):
    one = cells()[name]
    result, _ = end_of(one)
    check_consistent(result, declared=one.spec.fairness.favourable is not None)
    found = result.against_constant
    assert found is not None
    loss = np.average(found.loss, weights=found.weights)
    assert loss == pytest.approx(result.validation_loss, rel=1e-9)
    if result.accuracy is None:
        assert found.correct is None
    else:
        assert found.correct.sum() / found.rows.sum() == pytest.approx(result.accuracy)
        # No constant is right more often, and this one is not right less often.
        target = one.federation.target
        assert found.constant_correct.sum() <= found.rows.sum()
        assert found.constant_correct.sum() >= found.rows.sum() / len(np.unique(target))
    for attribute, scores in result.scores.items():
        if one.spec.fairness.favourable is None or name in ("rmse", "mse", "classes"):
            assert (found.rows_by_group[attribute] == scores.rows.sum(0)).all()
    assert np.isfinite(result.start_loss)
    if one.spec.training.hypotheses == 1:
        assert found.outcomes is None or len(found.outcomes) == 1
