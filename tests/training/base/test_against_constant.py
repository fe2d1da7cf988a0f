"""The comparison with a constant is made over the very rows of the run's own figures."""

from typing import Any

import numpy as np
import pytest

from fedaudit.training.base.cell import Cell
from tests.training.base.test_final_groups import CLASSES, RULE, SPLIT, end_of, people
from tests.training.federations import image_cell, image_federation, one_by_one, table_cell
from tests.training.personalised import records_spec
from tests.training.specs import cell


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
        groups = found.by_group[attribute]
        if one.spec.fairness.favourable is None or name in ("rmse", "mse", "classes"):
            assert (groups.rows.sum(0) == scores.rows.sum(0)).all()
        if scores.correct is not None:
            assert (groups.correct.sum(0) == scores.correct.sum(0)).all()
    assert np.isfinite(result.start_loss)
    if one.spec.training.hypotheses == 1:
        assert found.outcomes is None or len(found.outcomes) == 1
