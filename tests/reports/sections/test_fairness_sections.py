"""What a report says of groups: their scores, and rates where there is an outcome."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaudit.fairness.gaps import NO_OUTCOME, GroupScores
from fedaudit.reports.report import Report, assemble
from tests.fairness.disclosures import with_disclosures
from tests.reports.conftest import counts_of_clients


def with_scores(material, spec=None, *, loss=2.0, **changes):
    """The material of the fixture with losses."""
    made = material(spec=spec)
    rows = counts_of_clients().sum(-1)
    of_row = np.broadcast_to(loss * np.array([1.0, 4.0]), rows.shape)
    scores = GroupScores(
        rows, None, np.multiply(rows, of_row, where=rows > 0, out=np.zeros(rows.shape))
    )
    result = replace(made.result, scores={"group": scores}, **changes)
    return with_disclosures(replace(made, result=result))


def section_of(made) -> dict[str, Any]:
    document = assemble(made)
    Report.model_validate(document)
    return document["fairness"][0]


def test_losses_are_in_the_unit_of_the_validation_loss(material):
    section = section_of(with_scores(material))
    assert [group["loss"] for group in section["groups"]] == pytest.approx([2**0.5, 8**0.5])
    assert section["metrics"]["loss_ratio"]["value"] == pytest.approx(0.5)
    # All rows of a group have one loss: nothing says how it varies.
    assert section["metrics"]["loss_ratio"]["interval"] is None
    assert "alike" in section["metrics"]["loss_ratio"]["interval_reason"]
    for group in section["groups"]:
        assert group["accuracy"] is None
        assert "no accuracy" in group["reasons"]["accuracy"]
        assert "loss" not in group["reasons"]


def test_a_suppressed_group_shows_no_loss(material):
    spec = {"fairness": {"sensitive": ["group"], "minimum_group_size": 150, "favourable": None}}
    for group in section_of(with_scores(material, spec))["groups"]:
        assert group["suppressed"]
        assert group["loss"] is None
        assert "fewer than 150" in group["reasons"]["loss"]


def test_without_an_outcome_rates_are_null_and_losses_are_not(material):
    spec = {"fairness": {"sensitive": ["group"]}, "gates": []}
    made = with_scores(material, spec, fairness={"group": np.zeros((30, 2, 4), dtype=np.int64)})
    document = assemble(made)
    section = document["fairness"][0]
    for name, metric in section["metrics"].items():
        if name.startswith("loss"):
            assert metric["value"] is not None
        elif name != "accuracy_difference":
            assert (metric["value"], metric["reason"]) == (None, NO_OUTCOME)
    for group in section["groups"]:
        assert not group["suppressed"]
        assert group["reasons"]["selection_rate"] == NO_OUTCOME
    assert "loss_difference by group is" in document["verdict"]
    assert any("losses alone" in limit for limit in document["limits"])
