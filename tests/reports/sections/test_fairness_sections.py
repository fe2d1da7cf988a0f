"""What a report says of groups: their scores, each hypothesis, and combinations of attributes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaudit.fairness.gaps import NO_OUTCOME, GroupScores
from fedaudit.reports.report import Report, assemble
from tests.fairness.disclosures import with_disclosures
from tests.reports.conftest import counts_of_clients


def with_scores(material, spec=None, *, by_hypothesis=None, loss=2.0, **changes):
    """The material of the fixture with losses, and with counts by hypothesis where given."""
    made = material(spec=spec)
    rows = counts_of_clients().sum(-1)
    of_row = np.broadcast_to(loss * np.array([1.0, 4.0]), rows.shape)
    scores = GroupScores(
        rows, None, np.multiply(rows, of_row, where=rows > 0, out=np.zeros(rows.shape))
    )
    result = replace(
        made.result,
        scores={"group": scores},
        by_hypothesis={} if by_hypothesis is None else {"group": np.array(by_hypothesis)},
        **changes,
    )
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
    section = section_of(with_scores(material, spec))
    for group in section["groups"]:
        assert group["suppressed"]
        assert group["loss"] is None
        assert group["reasons"]["loss"].startswith("suppressed: fewer than 150")


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
    assert section["by_hypothesis"] == []
    assert section["by_hypothesis_reason"] == NO_OUTCOME
    assert "loss_difference by group is" in document["verdict"]
    assert any("losses alone" in limit for limit in document["limits"])


BY_HYPOTHESIS = [[[60, 30, 40, 20], [20, 10, 20, 5]], [[20, 10, 20, 0], [10, 10, 10, 15]]]


def test_each_hypothesis_has_its_rates_and_gaps(material):
    section = section_of(with_scores(material, by_hypothesis=BY_HYPOTHESIS))
    assert section["by_hypothesis_reason"] is None
    first, second = section["by_hypothesis"]
    assert (first["hypothesis"], second["hypothesis"]) == (0, 1)
    assert first["groups"][0]["selection_rate"] == 90 / 150
    assert second["groups"][1]["true_positive_rate"] == 10 / 25
    gap = first["metrics"]["demographic_parity_difference"]
    assert gap == {"value": pytest.approx(90 / 150 - 30 / 55), "reason": None}


def test_small_cells_of_a_hypothesis_take_others_with_them(material):
    counts = np.array(BY_HYPOTHESIS)
    counts[1, 1] = (5, 5, 5, 5)
    section = section_of(with_scores(material, by_hypothesis=counts))
    for one in section["by_hypothesis"]:
        for group in one["groups"]:
            assert group["suppressed"]
            assert "this hypothesis predicted" in group["reasons"]["selection_rate"]
        for metric in one["metrics"].values():
            assert metric["value"] is None
            assert "fewer than two groups are left" in metric["reason"]
    assert not any(group["suppressed"] for group in section["groups"])


def test_an_empty_cell_looks_like_a_small_one(material):
    small, empty = np.array(BY_HYPOTHESIS), np.array(BY_HYPOTHESIS)
    small[1], empty[1] = [[1, 1, 1, 1], [1, 1, 1, 1]], 0
    stated = [
        section_of(with_scores(material, by_hypothesis=counts))["by_hypothesis"][1]
        for counts in (small, empty)
    ]
    assert stated[0] == stated[1]


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        (np.ones((1, 2, 4), dtype=np.int64), "one hypothesis"),
        (np.ones((3000, 2, 4), dtype=np.int64), "more than 5000 cells"),
    ],
)
def test_where_there_are_no_hypotheses_to_tell_apart(material, counts, says):
    section = section_of(with_scores(material, by_hypothesis=counts))
    assert section["by_hypothesis"] == []
    assert says in section["by_hypothesis_reason"]
