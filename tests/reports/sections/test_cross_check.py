"""What a report says of groups; Fairlearn, on the rows, has every figure of it."""

import re
from dataclasses import replace
from typing import Any

import fairlearn
import numpy as np
import pytest
from numpy.typing import NDArray

from fedaudit.fairness.gaps import NO_OUTCOME, GroupScores, gaps, score_gaps
from fedaudit.fairness.joint_disclosure import PredictedRows
from fedaudit.reports.page.html import render
from fedaudit.reports.report import Report, assemble
from fedaudit.reports.sections.cross_check import TOLERANCE, cross_checked
from fedaudit.reports.sections.fairness import (
    FiguresDisagreeError,
    group_sections,
    rate_columns,
    score_columns,
)
from fedaudit.spec.metrics import METRICS, RATES
from tests.fairness.disclosures import disclosed_counts, with_disclosures
from tests.reports.conftest import counts_of_clients

_KINDS = ((True, True), (False, True), (False, False), (True, False))  # true, predicted


def rows_of(counts: Any, *, classifier: bool = False) -> PredictedRows:
    """Rows with these counts [groups, 4], in random order."""
    table = np.asarray(counts)
    groups, kinds = (index.ravel() for index in np.indices(table.shape))
    order = np.random.default_rng(1).permutation(int(table.sum()))
    group, kind = (np.repeat(index, table.ravel())[order] for index in (groups, kinds))
    truth, predicted = np.array(_KINDS)[kind].T
    return PredictedRows(
        groups=group.astype(np.int64),
        truth=truth,
        predicted=predicted,
        true_classes=truth.astype(np.int64) if classifier else None,
        predicted_classes=predicted.astype(np.int64) if classifier else None,
    )


def without_outcome(rows: PredictedRows) -> PredictedRows:
    return PredictedRows(rows.groups, None, None, None, None)


def section_of(
    counts: NDArray[np.int64], *, minimum: int, reference: str | None, classifier: bool
) -> dict[str, Any]:
    """What a report says of counts [groups, 4]."""
    names = tuple(f"g{place}" for place in range(len(counts)))
    right = counts[:, 0] + counts[:, 2]
    scores = GroupScores(
        rows=counts.sum(-1)[np.newaxis],
        correct=right[np.newaxis] if classifier else None,
        loss=np.ones((1, len(counts))),
    )
    disclosure = disclosed_counts(
        counts,
        minimum_group_size=minimum,
        reference=None if reference is None else names.index(reference),
    )
    measured = score_columns(
        scores,
        root_mean=False,
        right=right if classifier else None,
        rows=counts.sum(-1),
        coarse=False,
    )
    columns = {**rate_columns(counts, has_favourable_outcome=True), **measured}
    groups = group_sections(names, columns, disclosure)
    found = [*gaps(counts, disclosure)[0], *score_gaps(scores, disclosure, root_mean=False)]
    return {
        "attribute": "site",
        "reference_group": reference,
        "groups": [group.model_dump() for group in groups],
        "metrics": {figure.metric: {"value": figure.value} for figure in found},
    }


def checked(section: dict[str, Any], rows: PredictedRows, counts: Any) -> dict[str, Any]:
    of_clients = np.asarray(counts)[np.newaxis]
    report = cross_checked({"fairness": [section]}, {"site": rows}, counts={"site": of_clients})
    [found] = report["fairness"]
    return found


@pytest.mark.parametrize("reference", [None, "g1"])
@pytest.mark.parametrize("minimum", [1, 12])
def test_both_agree_on_what_is_defined(minimum: int, reference: str | None) -> None:
    """Groups without positives, negatives or any rows, hidden groups, and rates of 0."""
    random, compared = np.random.default_rng(7), set()
    for turn in range(25):
        counts = random.integers(0, 9, (random.integers(1, 6) + 1, 4))
        counts[random.random(counts.shape) < 0.25] = 0
        classifier = turn % 2 == 0
        section = section_of(counts, minimum=minimum, reference=reference, classifier=classifier)
        found = checked(section, rows_of(counts, classifier=classifier), counts)
        check = found["cross_check"]
        values = {name: one["value"] for name, one in section["metrics"].items()}
        if check is None:
            assert found["cross_check_reason"]
            assert all(values[metric] is None for metric in METRICS)
            continue
        assert found["cross_check_reason"] is None
        assert (check["library"], check["version"]) == ("fairlearn", fairlearn.__version__)
        assert check["largest_difference"] <= TOLERANCE
        gaps_there = {name for name, value in values.items() if value is not None}
        # Losses are computed once.
        assert gaps_there - set(check["metrics"]) <= {"loss_difference", "loss_ratio"}
        assert set(check["metrics"]) - {*RATES, "accuracy"} <= gaps_there
        compared |= set(check["metrics"])
    assert compared == {*RATES, "accuracy", *METRICS, "accuracy_difference"}


COUNTS = np.array([[30, 10, 40, 20], [10, 5, 45, 40]])


def test_a_wrong_count_is_named_with_both_values() -> None:
    wrong = COUNTS + np.array([[0, 0, 0, 0], [0, 1, -1, 0]])
    section = section_of(wrong, minimum=1, reference=None, classifier=False)
    with pytest.raises(FiguresDisagreeError) as raised:
        checked(section, rows_of(COUNTS), wrong)
    said = (
        r"selection_rate by site = g1 is (\S+) in the report, and Fairlearn \S+ computes (\S+) from"
    )
    assert re.match(said, str(raised.value)).groups() == ("0.16", "0.15")


GAP, RATE, TRUE = "demographic_parity_difference", "selection_rate", "true_positive_rate"
NO_POSITIVES = np.array([[30, 10, 40, 20], [0, 5, 45, 0]])


@pytest.mark.parametrize(
    ("counts", "place", "value", "said"),
    [
        # A gap is named without a group.
        (COUNTS, ("metrics", GAP, "value"), 0.25 + 1e-9, f"{GAP} by site is 0\\.25"),
        (COUNTS, ("metrics", GAP, "value"), None, f"{GAP} by .* is undefined in the report"),
        (COUNTS, ("groups", 0, RATE), None, f"{RATE} by .* is undefined in the report"),
        # Fairlearn's answer to a rate without denominator.
        (NO_POSITIVES, ("groups", 1, TRUE), 0.0, "computes undefined from the rows"),
    ],
)
def test_another_figure_is_named(counts: Any, place: Any, value: float | None, said: str) -> None:
    section = section_of(counts, minimum=1, reference=None, classifier=False)
    part, name, field = place
    section[part][name][field] = value
    with pytest.raises(FiguresDisagreeError, match=said):
        checked(section, rows_of(counts), counts)


def test_rows_lost_by_the_counts_are_missed_though_their_group_is_hidden() -> None:
    counts = np.array([*COUNTS, [1, 2, 13, 4]])
    wrong = counts.copy()
    wrong[2] = [1, 2, 1, 4]
    section = section_of(wrong, minimum=10, reference=None, classifier=False)
    with pytest.raises(FiguresDisagreeError, match="numbers of scored rows") as raised:
        checked(section, rows_of(counts), wrong)
    assert not re.search(r"\d", str(raised.value))


@pytest.mark.parametrize(
    "counts", [[[12, 4, 16, 5]], [[30, 10, 40, 20], [10, 5, 45, 40], [2, 2, 3, 1], [1, 2, 3, 1]]]
)
def test_no_count_of_rows_is_published(counts: list[list[int]]) -> None:
    """Counts are confidential: of one group, its number of rows would be its size."""
    section = section_of(np.array(counts), minimum=10, reference=None, classifier=False)
    check = checked(section, rows_of(counts), counts)["cross_check"]
    assert set(check) == {"library", "version", "largest_difference", "metrics"}


def test_what_cannot_be_compared_says_why() -> None:
    nothing = np.zeros((2, 4), dtype=np.int64)
    section = section_of(nothing, minimum=1, reference=None, classifier=False)
    found = checked(section, rows_of(nothing), nothing)
    assert (found["cross_check"], found["cross_check_reason"]) == (None, "no row was scored")
    few = np.array([[3, 1, 4, 2], [1, 5, 4, 4]])
    section = section_of(few, minimum=100, reference=None, classifier=False)
    assert checked(section, rows_of(few), few)["cross_check_reason"] == "every group is suppressed"
    undeclared = without_outcome(rows_of(few))
    nothing_known = dict.fromkeys((*RATES, "accuracy"))
    section["groups"] = [{**group, **nothing_known} for group in section["groups"]]
    found = checked(section, undeclared, nothing)
    assert (found["cross_check"], found["cross_check_reason"]) == (None, NO_OUTCOME)


def test_the_document_and_the_page_have_it(material) -> None:
    made = material()
    report = assemble(made)
    assert "not handed over" in report["fairness"][0]["cross_check_reason"]
    assert "Not computed a second time: the rows were not handed over" in render(report)
    counts = made.result.fairness
    twice = cross_checked(report, {"group": rows_of(counts["group"].sum(0))}, counts=counts)
    Report.model_validate(twice)
    assert report["fairness"][0]["cross_check"] is None, "the report given is left as it is"
    page = render(twice)
    assert (
        f"Fairlearn {fairlearn.__version__} computed {len(RATES) + len(METRICS)} kinds of rates "
        "and gaps a second time from the rows of the groups shown; they agree exactly. "
    ) in page
    twice["fairness"][0]["cross_check"]["largest_difference"] = 2.2e-16
    assert "they agree to within 2e-16. " in render(twice)


# -- scores of groups, and rates where there is an outcome ----------------------------------------


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


def scored_section(made) -> dict[str, Any]:
    document = assemble(made)
    Report.model_validate(document)
    return document["fairness"][0]


def test_losses_are_in_the_unit_of_the_validation_loss(material):
    section = scored_section(with_scores(material))
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
    for group in scored_section(with_scores(material, spec))["groups"]:
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
