"""Gates: pass, fail, or not enough evidence, each with its reason."""

import pytest

from fedaudit.reports.assemble import assemble
from fedaudit.reports.gates import evaluate, overall
from fedaudit.spec.gates import Gate

FIXED = {"privacy": {"mechanism": "laplace-l2", "noise_multiplier": 5, "radius": 1.0}}
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
    report = assemble(material())
    assert outcome(report, figure="leakage_max") == "insufficient_evidence"
    assert outcome(report, figure="leakage_median", value=0.0) == "insufficient_evidence"
    assert outcome(report, figure="leakage_max", allow_heuristic=True) == "pass"
    assert outcome(report, figure="participations_max") == "pass"


def test_without_a_guarantee_no_privacy_figure_is_evidence(material):
    report = assemble(material(NONE))
    for figure in ("leakage_max", "leakage_median", "epsilon_max"):
        assert outcome(report, figure=figure, allow_heuristic=True) == "insufficient_evidence"
    assert outcome(report, figure="participations_max") == "pass"


def test_a_null_figure_is_insufficient_evidence_with_its_reason(material):
    report = assemble(material(FIXED))
    [found] = evaluate([Gate(figure="epsilon_max", op="le", value=1.0)], report)
    assert found["outcome"] == "insufficient_evidence"
    assert found["value"] is None
    assert found["reason"] == report["privacy"]["reasons"]["epsilon_max"]
    assert outcome(report, figure="accuracy") == "insufficient_evidence"
    assert outcome(report, figure="validation_loss") == "pass"


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
