"""Gates: pass, fail, or not enough evidence, each with its reason."""

from typing import get_args

import pytest

from fedaudit.reports.assemble import assemble
from fedaudit.reports.document.report_figures import COUNTED
from fedaudit.reports.gates.gate_evaluation import evaluate, overall
from fedaudit.spec.gate_figures import PLAIN_FIGURES, GateFigure, PlainFigure
from fedaudit.spec.gates import Gate

ONE = {"loss": "rmse", "hypotheses": 1, "rounds": 50, "cohort": {"clients": 7}}
FIXED = {
    "training": ONE,
    "privacy": {
        "mechanism": "laplace-l2",
        "noise_multiplier": 5,
        "radius": 1.0,
        "clip": 0.5,
        "noise": "release",
    },
}
SECRET = {"privacy": {"mechanism": "laplace-l2", "noise_multiplier": 5, "noise": "release"}}
NONE = {"privacy": {"mechanism": "none"}, "gates": []}


def outcome(report, **gate):
    [found] = evaluate([Gate(**{"op": "le", "value": 100.0, **gate})], report)
    assert found["reason"]
    return found["outcome"]


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [("le", 2.4, "pass"), ("le", 2.39, "fail"), ("ge", 2.4, "pass"), ("ge", 2.5, "fail")],
)
def test_a_figure_against_its_bound(material, op, value, expected):
    report = assemble(material(FIXED))
    assert report["privacy"]["leakage_max"] == 2.4
    assert outcome(report, figure="leakage_max", op=op, value=value) == expected


def test_a_figure_just_beyond_its_bound_does_not_read_like_it(material):
    report = assemble(material(FIXED))
    report["privacy"]["leakage_max"] = 2.4000000001
    [found] = evaluate([Gate(figure="leakage_max", op="le", value=2.4)], report)
    assert found["reason"] == "2.4000000001 is not at most 2.4"
    [found] = evaluate([Gate(figure="leakage_max", op="le", value=2.4000000001)], report)
    assert found["reason"] == "2.4 is at most 2.4"


def test_heuristic_figures_are_evidence_only_where_the_gate_says_so(material):
    report = assemble(material(SECRET))
    assert outcome(report, figure="leakage_max") == "insufficient_evidence"
    assert outcome(report, figure="leakage_median", value=0.0) == "insufficient_evidence"
    assert outcome(report, figure="leakage_max", allow_heuristic=True) == "pass"
    assert outcome(report, figure="participations_max") == "pass"


def test_without_a_guarantee_no_privacy_figure_is_evidence(material):
    report = assemble(material(NONE))
    for figure in ("leakage_max", "leakage_median", "epsilon_max"):
        assert outcome(report, figure=figure, allow_heuristic=True) == "insufficient_evidence"
    assert outcome(report, figure="participations_max") == "pass"


def test_a_figure_rests_on_the_guarantee_unless_its_row_says_that_it_does_not(material):
    assert set(get_args(PlainFigure)) == set(PLAIN_FIGURES)
    assert GateFigure(section="privacy").rests_on_guarantee
    counted = {name for name, row in PLAIN_FIGURES.items() if not row.rests_on_guarantee}
    assert counted == {"participations_max", "validation_loss", "accuracy"}
    for name, row in PLAIN_FIGURES.items():
        if row.section == "privacy":
            assert row.rests_on_guarantee == (name not in COUNTED)
    report = assemble(material(NONE))
    for name, row in PLAIN_FIGURES.items():
        report[row.section][name] = 1.0
        expected = "insufficient_evidence" if row.rests_on_guarantee else "pass"
        assert outcome(report, figure=name, allow_heuristic=True) == expected


def test_a_guarantee_of_an_unknown_kind_is_no_evidence(material):
    report = assemble(material(FIXED))
    report["guarantee"]["kind"] = "empirical"
    assert outcome(report, figure="leakage_max", allow_heuristic=True) == "insufficient_evidence"
    assert outcome(report, figure="participations_max") == "pass"


def test_a_null_figure_is_insufficient_evidence_with_its_reason(material):
    report = assemble(material(FIXED))
    [found] = evaluate([Gate(figure="epsilon_max", op="le", value=1.0)], report)
    assert found["outcome"] == "insufficient_evidence"
    assert found["value"] is None
    assert found["reason"] == report["privacy"]["reasons"]["epsilon_max"]
    assert outcome(report, figure="accuracy") == "insufficient_evidence"
    assert outcome(report, figure="validation_loss") == "pass"


@pytest.mark.parametrize("figure", ["leakage_max", "leakage_median"])
def test_a_figure_of_the_other_kind_is_no_evidence(material, figure):
    """A leakage is no epsilon: `allow_heuristic` makes neither of the other."""
    report = assemble(material(FIXED))
    assert outcome(report, figure="epsilon_max", allow_heuristic=True) == "insufficient_evidence"
    report["privacy"] |= {"epsilon_max": 0.5, figure: None}
    report["privacy"]["reasons"][figure] = "it is counted as an epsilon"
    assert outcome(report, figure=figure, allow_heuristic=True) == "insufficient_evidence"


def test_an_epsilon_of_a_run_that_ended_early_says_which_rounds_it_is_of(material):
    report = assemble(material(FIXED))
    report["privacy"]["epsilon_max"] = 0.5
    report["guarantee"] |= {"delta": 1e-5, "adjacency": "replace-one"}
    for ending, stated in (("patience", True), ("rounds", False)):
        report["utility"]["stopped_by"] = ending
        [found] = evaluate([Gate(figure="epsilon_max", op="le", value=1.0)], report)
        assert found["reason"].startswith("0.5 is at most 1, at delta = 1e-05 under replace-one")
        assert ("larger epsilon of all planned rounds" in found["reason"]) == stated


def test_a_report_of_before_the_figure_lacks_it(material):
    report = assemble(material())
    del report["fairness"][0]["metrics"]["equalized_odds_ratio"]
    [found] = evaluate([Gate(figure="equalized_odds_ratio", op="ge", value=0.8)], report)
    assert found["outcome"] == "insufficient_evidence"
    assert found["reason"] == "the report does not have this figure"


def test_fairness_gates_look_at_their_attribute(material):
    report = assemble(material())
    gate = {"figure": "demographic_parity_difference", "value": 1.0}
    assert outcome(report, **gate) == "pass"
    assert outcome(report, attribute="group", **gate) == "pass"
    assert outcome(report, attribute="age", **gate) == "insufficient_evidence"
    hidden = assemble(
        material({"fairness": {**material().spec.fairness.model_dump(), "minimum_group_size": 150}})
    )
    assert outcome(hidden, **gate) == "insufficient_evidence"


def test_the_worst_outcome_counts(material):
    assert overall([]) is None
    outcomes = ["pass", "insufficient_evidence", "fail"]
    for worst, upto in enumerate(outcomes, start=1):
        assert overall([{"outcome": one} for one in outcomes[:worst]]) == upto
    report = assemble(material())
    assert report["gate_outcome"] == "fail"
    assert [gate["outcome"] for gate in report["gates"]] == ["pass", "fail"]


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(0.01, 0.09, "pass"), (0.05, 0.2, "insufficient_evidence"), (0.11, 0.3, "fail")],
)
def test_a_gap_from_noised_counts_is_decided_by_its_whole_interval(material, low, high, outcome):
    report = assemble(material())
    metric = report["fairness"][0]["metrics"]["equalized_odds_difference"]
    metric["value"] = (low + high) / 2
    metric["interval"] = {**metric["interval"], "low": low, "high": high}
    report["fairness_privacy"] = {"epsilon": 1.0}
    gate = Gate(figure="equalized_odds_difference", op="le", value=0.1)
    [found] = evaluate([gate], report)
    assert found["outcome"] == outcome
    metric["interval"] = None
    [found] = evaluate([gate], report)
    assert found["outcome"] == "insufficient_evidence"
