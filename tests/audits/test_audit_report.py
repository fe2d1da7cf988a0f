"""What the report of an audit says: Fairlearn's figures, and nothing of privacy."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fairlearn.metrics import equalized_odds_difference
from sklearn.metrics import (
    balanced_accuracy_score,
    brier_score_loss,
    precision_score,
    recall_score,
    roc_auc_score,
)

from fedaudit.audits.audit_material import audit_report
from fedaudit.audits.audit_table import AuditedRows, read_audit
from fedaudit.federations.reading.source_files import Files
from fedaudit.reports.page.html import render
from fedaudit.spec.audits import parse_audit
from tests.audits.tables import asking, audited, people, write
from tests.refusals import refused_by


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("tables")
    write(found, people())
    return found


@pytest.fixture(scope="module")
def report(folder: Path) -> dict[str, Any]:
    """With intersections, labels and gates."""
    return audited(
        folder,
        intersections=[["sex", "race"]],
        labels={"sex": {"F": "women", "M": "men"}},
        favourable={"op": "in", "value": ["yes"], "label": "hired"},
        gates=[
            {"figure": "equalized_odds_difference", "op": "le", "value": 0.9},
            {"figure": "epsilon_max", "op": "le", "value": 100},
            {"figure": "participations_max", "op": "le", "value": 1e9},
        ],
    )


def test_gaps_are_fairlearns(report: dict[str, Any]) -> None:
    table = people()
    truth, predicted = (np.array(table[name]) == "yes" for name in ("hired", "predicted"))
    for section in report["fairness"]:
        parts = section["intersection_of"] or [section["attribute"]]
        groups = [", ".join(row) for row in zip(*(table[name] for name in parts), strict=True)]
        found = equalized_odds_difference(truth, predicted, sensitive_features=groups)
        gap = section["metrics"]["equalized_odds_difference"]
        assert gap["value"] == pytest.approx(found, abs=1e-12)
        assert gap["interval"]["method"] == "score-pairs"
        assert section["cross_check"]["library"] == "fairlearn"
    assert report["predictions"]["drawn"] == "rows"
    assert report["utility"]["accuracy"] == pytest.approx((truth == predicted).mean())


def test_every_missing_figure_has_a_reason_and_nothing_reads_like_a_guarantee(report):
    assert report["guarantee"]["kind"] == "none"
    for name in ("guarantee", "privacy", "utility"):
        section = report[name]
        nulls = {field for field, value in section.items() if value is None}
        assert nulls <= section["reasons"].keys(), name
    assert all(
        value in (None, []) for name, value in report["privacy"].items() if name != "reasons"
    )
    for section in report["fairness"]:
        assert section["favourable"] == "hired (hired = yes)"
        assert all(one["value"] is not None or one["reason"] for one in section["metrics"].values())
    assert {group["label"] for group in report["fairness"][0]["groups"]} == {"women", "men"}
    assert "concerns fairness alone" in report["verdict_parts"]["release"]
    assert report["answer"]["outcome"] == "not-decided"
    assert [one["code"] for one in report["answer"]["reasons"]] == ["training-not-audited"]
    assert "no privacy cost is stated" in report["verdict_parts"]["cost"]
    outcomes = {gate["figure"]: gate["outcome"] for gate in report["gates"]}
    assert outcomes == {
        "equalized_odds_difference": "pass",
        "epsilon_max": "insufficient_evidence",
        "participations_max": "insufficient_evidence",
    }
    assert report["utility"]["too_good"] is False
    assert report["gate_outcome"] == "insufficient_evidence"
    assert "training is not known here" in report["gates"][1]["reason"]


def test_the_page_escapes_and_shows_labels(report: dict[str, Any], folder: Path) -> None:
    page = render(report)
    assert "women" in page
    assert "Nothing is guaranteed" in page
    table = people() | {"race": ["<b>x", *people()["race"][1:]]}
    write(folder, table, "odd.csv")
    odd = render(audited(folder, path="odd.csv", name="<script>"))
    assert "<script" not in odd
    assert "<b>x" not in odd


def test_rounded_counts_are_multiples(folder: Path) -> None:
    section = audited(folder, rounding={"base": 5})["fairness"][0]
    exact = audited(folder)["fairness"][0]
    assert section["cross_check"] is None
    for mine, theirs in zip(section["groups"], exact["groups"], strict=True):
        assert mine["selection_rate"] == pytest.approx(theirs["selection_rate"], abs=0.05)
        for name, interval in mine["rate_intervals"].items():
            assert interval["low"] <= mine[name] <= interval["high"]
            assert interval["low"] * 100 == pytest.approx(round(interval["low"] * 100), abs=1e-9)
    assert section["groups"] != exact["groups"]


EVEN = {"sex": ["F", "M"] * 270, "hired": ["yes", "yes", "no", "no"] * 135}


@pytest.mark.parametrize(
    ("unnamed", "even", "doubted"),
    [
        (0, False, {False}),
        (61, False, {False, True}),
        (61, True, {False, True}),
        (100, True, {True}),
    ],
)
def test_with_rounded_counts_no_doubt_counts_people(
    tmp_path: Path, unnamed: int, even: bool, doubted: set[bool]
) -> None:
    """One in no group more than a tenth of all made it, with exact counts, under every key. `even`:
    the groups have multiples of the base, so that only the number of the others is rounded."""
    table = people(540 + unnamed)
    if even:
        table |= {name: [*table[name][:unnamed], *one] for name, one in EVEN.items()}
    write(tmp_path, table | {"sex": [""] * unnamed + table["sex"][unnamed:]})
    asked = asking(sensitive=["sex"], rounding={"base": 5}, intervals=None)
    rows = read_audit(parse_audit(asked), files=Files(tmp_path))
    found = set()
    for key in range(12):
        report = audit_report(
            rows, audit_id="here", started_at=datetime.now(UTC), rounding_key=bytes([key])
        )
        found.add(report["fairness"][0]["doubt"] is not None)
    assert found == doubted


def test_what_is_odd_about_predictions_is_said(tmp_path: Path) -> None:
    table, turned = people(), {"yes": "no", "no": "yes"}
    gates = [{"figure": "demographic_parity_difference", "op": "le", "value": 0.1}]

    def predicting(values: list[str]) -> dict[str, Any]:
        write(tmp_path, table | {"predicted": values})
        return audited(tmp_path, gates=gates)

    report = predicting(["yes"] * 600)
    assert report["utility"]["degenerate"] is True
    assert "decide nothing" in report["verdict_parts"]["release"]
    assert report["answer"]["outcome"] == "do-not-release"
    assert report["answer"]["reasons"][0]["code"] == "model-decides-nothing"
    assert report["gate_outcome"] == "insufficient_evidence"
    assert "the other outcome" not in report["verdict_parts"]["next"]
    shown = predicting([turned[hired] for hired in table["hired"]])["verdict_parts"]["next"]
    assert "make sure that the column is not of the other outcome" in shown
    report = predicting([turned[table["hired"][0]], *table["hired"][1:]])
    assert report["utility"]["too_good"] is True
    assert report["verdict_parts"]["release"].startswith("Suspiciously good: make sure that no ")
    report = predicting(table["hired"])
    assert report["predictions"]["equal_truth"] is True
    assert "predictions equal the truth in every row" in report["verdict"]
    assert any("predictions equal the truth in every row" in limit for limit in report["limits"])


def test_a_score_shows_its_threshold_and_what_others_would_have_shown(folder: Path) -> None:
    report = audited(folder, prediction=None, score="score", threshold=0.5)
    same = audited(folder)["fairness"][0]
    assert report["fairness"][0]["metrics"] == same["metrics"]
    threshold = report["predictions"]["threshold"]
    assert threshold["value"] == 0.5
    others = [one["threshold"] for one in threshold["others"]]
    assert others == [tenth / 10 for tenth in range(1, 10) if tenth != 5]
    other = audited(folder, prediction=None, score="score", threshold=0.7)["fairness"][0]
    at = next(one for one in threshold["others"] if one["threshold"] == 0.7)
    for name, value in at["metrics"]["sex"].items():
        assert value == other["metrics"][name]["value"]


def test_scores_are_ranked_as_scikit_learn_does(folder: Path) -> None:
    table = people()
    truth, predicted = (np.array(table[name]) == "yes" for name in ("hired", "predicted"))
    score, sex = np.array(table["score"]), np.array(table["sex"])
    asked = {"prediction": None, "score": "score", "threshold": 0.5}
    gate = {"figure": "auc", "op": "ge", "value": 0.7}
    report = audited(folder, **asked, client_key="town", gates=[gate])
    utility = report["utility"]
    assert (report["data"]["clients"], report["predictions"]["drawn"]) == (30, "clients")
    assert utility["auc"] == pytest.approx(roc_auc_score(truth, score))
    assert utility["auc_interval"]["low"] < utility["auc"] < utility["auc_interval"]["high"]
    assert utility["ranks_above_chance"] is True
    assert utility["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(truth, predicted))
    assert utility["precision"] == pytest.approx(precision_score(truth, predicted))
    assert utility["recall"] == pytest.approx(recall_score(truth, predicted))
    assert utility["brier"] == pytest.approx(brier_score_loss(truth, score))
    assert utility["base_rate"] == truth.mean()
    for group in report["fairness"][0]["groups"]:
        own = sex == group["value"]
        assert group["auc"] == pytest.approx(roc_auc_score(truth[own], score[own]))
    assert report["gate_outcome"] == "pass"
    assert "AUC" in render(report)

    decided = audited(folder)["utility"]
    assert decided["precision"] == utility["precision"]
    assert decided["auc"] is None
    assert "no scores" in decided["reasons"]["auc"]
    write(folder, table | {"score": (10 * score).tolist()}, "tens.csv")
    tens = audited(folder, **{**asked, "path": "tens.csv", "threshold": 5})["utility"]
    assert (tens["auc"], tens["brier"]) == (utility["auc"], None)

    rounded = audited(folder, **asked, rounding={"base": 5})
    for figures in (rounded["utility"], rounded["fairness"][0]["groups"][0]):
        assert figures["auc"] == pytest.approx(round(figures["auc"], 2), abs=1e-12)


def test_rounding_leaves_as_little_of_an_order_as_of_the_rarer_outcome(tmp_path: Path) -> None:
    table = people(2000)
    reports = []
    for women, men in ((1, 3), (1, 4), (1, 5), (1, 40)):
        left = {"F": women, "M": men}
        hired = []
        for sex in table["sex"]:
            hired.append("yes" if left[sex] > 0 else "no")
            left[sex] -= 1
        write(tmp_path, table | {"hired": hired})
        asked = {"prediction": None, "score": "score", "threshold": 0.5, "rounding": {"base": 10}}
        reports.append(audited(tmp_path, **asked))
    for report in reports[:3]:
        for name in ("auc", "auc_interval", "ranks_above_chance", "recall"):
            assert report["utility"][name] is None
            assert "rounding leaves nothing" in report["utility"]["reasons"][name]
    for report in reports:
        groups = {group["value"]: group for group in report["fairness"][0]["groups"]}
        assert groups["F"]["auc"] is None
        assert "rounding leaves nothing" in groups["F"]["reasons"]["auc"]
        assert (groups["M"]["auc"] is None) == (report is not reports[-1])
    for figures in (reports[-1]["utility"], groups["M"]):
        assert figures["auc"] in (0, 0.5, 1)  # 10 of 41 make steps of 0.5
    assert reports[-1]["utility"]["ranks_above_chance"] is not None


def test_a_rare_outcome_is_judged_at_the_threshold_of_its_scores(tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    share = 1 / (1 + np.exp(3.3 - 1.5 * draw.normal(size=3000)))
    hired = np.where(draw.random(3000) < share, "yes", "no").tolist()
    table = people(3000) | {"hired": hired, "score": share.round(4).tolist()}
    write(tmp_path, table)
    asked = {"prediction": None, "score": "score", "client_key": "town"}
    half = audited(tmp_path, **asked, threshold=0.9)
    assert "at the threshold 0.9 the score gives nearly everyone" in half["verdict"]
    assert "Declare another threshold (threshold), such as the share" in half["verdict"]
    assert "These scores need another threshold" in render(half)
    rounded = audited(tmp_path, **asked, threshold=0.9, rounding={"base": 5})["utility"]
    assert rounded["precision"] is None
    assert "rounding leaves nothing" in rounded["reasons"]["precision"]
    low = audited(tmp_path, **asked, threshold=0.1)
    assert low["utility"]["accuracy_over_baseline"] < 0
    assert low["utility"]["degenerate"] is False
    tens = table | {"score": (10 * share).round(3).tolist()}
    write(tmp_path, tens)
    assert audited(tmp_path, **asked, threshold=1.0)["utility"]["degenerate"] is True


def test_small_groups_are_suppressed_with_what_gives_them_away(tmp_path: Path) -> None:
    table = people()
    write(tmp_path, table | {"race": ["D"] * 7 + table["race"][7:]})
    asked = {"prediction": None, "score": "score", "threshold": 0.5}
    groups = audited(tmp_path, **asked)["fairness"][1]["groups"]
    hidden = [group["value"] for group in groups if group["suppressed"]]
    assert "D" in hidden
    assert len(hidden) == 2
    for group in groups:
        if group["suppressed"]:
            assert group["selection_rate"] is group["rate_intervals"] is group["auc"] is None
            assert group["reasons"]["rate_intervals"] == group["reasons"]["selection_rate"]
        else:
            interval = group["rate_intervals"]["selection_rate"]
            assert interval["method"] == "score-clustered"
            assert group["auc"] is not None


def test_rows_left_out_are_counted(tmp_path: Path) -> None:
    table = people()
    write(tmp_path, table | {"hired": ["", "", "", *table["hired"][3:]]})
    report = audited(tmp_path, missing="drop-row")
    assert report["predictions"]["rows_left_out"] == 3
    assert report["data"]["rows"] == 597
    assert any("3 of 600 rows were left out" in limit for limit in report["limits"])


# -- every fault of a table names the field, the column and what to do ----------------------------


def faults_of(folder: Path, **asked: Any) -> dict[str, str]:
    return {fault.pointer: fault.message for fault in refused_by(audited, folder, **asked)}


GATE = {"figure": "accuracy_difference", "attribute": "town", "op": "le", "value": 0.1}


@pytest.mark.parametrize(
    ("asked", "pointer", "said"),
    [
        ({"prediction": None, "score": "score"}, "/threshold", "goes with `score`"),
        ({"threshold": 0.5}, "/threshold", "goes with `score`"),
        ({"score": "score", "threshold": 0.5}, "/prediction", "both are given"),
        ({"prediction": "hired"}, "/prediction", "as the truth is"),
        ({"sensitive": ["sex", "hired"]}, "/sensitive/1", "'hired' is the truth"),
        ({"path": "../people.csv"}, "/path", "must not contain '..'"),
        ({"path": None}, "/path", "neither is given"),
        ({"labels": {"town": {"t1": "one"}}}, "/labels/town", "neither the target"),
        ({"intersections": [["sex", "age"]]}, "/intersections/0", "'age' is not in `sensitive`"),
        ({"gates": [GATE]}, "/gates/0/attribute", "'town' is not in `sensitive`"),
        ({"threshhold": 1}, "/threshhold", "unknown field"),
    ],
)
def test_what_contradicts_itself_is_refused_at_its_field(asked, pointer, said):
    caught = refused_by(parse_audit, asking(**asked))
    assert [fault.pointer for fault in caught] == [pointer]
    assert said in caught[0].message


@pytest.mark.parametrize(
    ("columns", "asked", "pointer", "said"),
    [
        ({"hired": lambda _: "no"}, {}, "/truth", "'hired' has one value only"),
        ({"hired": lambda row: "" if row == 4 else "no"}, {}, "/truth", "first of them row 5"),
        ({"predicted": lambda row: row % 2}, {}, "/prediction", "never has: '0', '1'"),
        ({"score": lambda row: "high"}, {"prediction": None, "score": "score", "threshold": 0.5},
         "/score", "row 1 of column 'score' is not a number"),
        ({"town": lambda row: f"t{row}"}, {"client_key": "town"}, "/client_key",
         "different in every one of the 600 rows"),
        ({}, {"favourable": "maybe"}, "/favourable/value/0", "no class 'maybe'"),
        ({}, {"favourable": ["yes", "no"]}, "/favourable", "every outcome of 'hired'"),
        ({}, {"minimum_group_size": 500}, "/minimum_group_size", "has 500 rows"),
        ({}, {"reference_group": "X"}, "/reference_group", "no sensitive attribute has a group"),
        ({}, {"truth": "fired"}, "/truth", "no column 'fired'; it has 'town'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_names_column_and_remedy(tmp_path, columns, asked, pointer, said):
    rows = range(600)
    write(tmp_path, people() | {name: [*map(made, rows)] for name, made in columns.items()})
    assert said in faults_of(tmp_path, **asked)[pointer]


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    different = [f"v{row}" for row in range(1200)]
    write(tmp_path, people(1200) | dict.fromkeys(("age", "hired", "town"), different))
    found = faults_of(tmp_path, sensitive=["sex", "age"], client_key="town")
    assert found.keys() == {"/truth", "/client_key", "/sensitive/1"}
    assert "1200 distinct values" in found["/truth"]
    assert "1200 distinct values, and 1000 groups are allowed" in found["/sensitive/1"]


def test_files_of_another_form_say_so(tmp_path: Path) -> None:
    path = write(tmp_path, people())
    text = path.read_text()
    path.write_text(text.replace(",", "|"))
    assert "has a single column" in faults_of(tmp_path)["/path"]
    path.write_bytes(text.encode("utf-16"))
    assert "not in UTF-8" in faults_of(tmp_path)["/path"]
    path.write_text(text.replace("race", "sex"))
    assert "names a column twice" in faults_of(tmp_path)["/path"]


def read(folder: Path, **asked: Any) -> AuditedRows:
    return read_audit(parse_audit(asking(**asked)), files=Files(folder))


def test_a_byte_order_mark_and_parquet_are_read_alike(tmp_path: Path) -> None:
    path = write(tmp_path, people())
    plain = read(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    pq.write_table(pa.table(people()), tmp_path / "people.parquet")
    for same in (read(tmp_path), read(tmp_path, path="people.parquet")):
        assert (same.truth == plain.truth).all()
        assert (same.predicted == plain.predicted).all()
        assert (same.codes("race") == plain.codes("race")).all()


def test_codes_are_compared_as_numbers_and_rare_outcomes_may_be_predicted(tmp_path: Path) -> None:
    codes = {"yes": "1", "no": "0"}
    table = people()
    hired, predicted = ([codes[one] for one in table[name]] for name in ("hired", "predicted"))
    write(tmp_path, table | {"hired": hired, "predicted": [f"{one}.0" for one in predicted]})
    rows = read(tmp_path, favourable=1)
    assert [rows.federation.classes[one] for one in rows.predicted] == predicted
    three = ["2" if row % 3 == 0 else one for row, one in enumerate(hired)]
    write(tmp_path, table | {"hired": three, "predicted": ["7", *predicted[1:]]})
    rows = read(tmp_path, favourable=1)
    assert rows.federation.classes[rows.predicted[0]] == "7"
