"""Gates: pass, fail, or not enough evidence, each with its reason."""

from typing import get_args

import pytest

from fedaudit.reports.figures import COUNTED
from fedaudit.reports.gates.gate_evaluation import evaluate
from fedaudit.reports.gates.gate_results import overall
from fedaudit.reports.report import assemble
from fedaudit.spec.gates import PLAIN_FIGURES, AttackFigure, Gate, GateFigure

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

SIMULATED = {"allow_degenerate": True, "allow_simulation": True}
SWEEP = {
    "sweep_epsilon_max": None,
    "sweep_log_ratio_max": 1.0,
    "noises": ["release"],
    "guarantees": ["formal"],
    "conditions": [],
    "reasons": {},
}


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
    report["privacy"]["leakage_max"] = 1.8941
    [found] = evaluate([Gate(figure="leakage_max", op="le", value=2.4)], report)
    assert found["reason"] == "1.895 is at most 2.4", "a cost is rounded up"
    [found] = evaluate([Gate(figure="leakage_max", op="le", value=1.8945)], report)
    assert found["reason"] == "1.8941 is at most 1.8945", "and never past the bound that it meets"


def test_heuristic_figures_are_evidence_only_where_the_gate_says_so(material):
    report = assemble(material(SECRET))
    assert outcome(report, figure="leakage_max") == "insufficient_evidence"
    assert outcome(report, figure="leakage_median", value=0.0) == "insufficient_evidence"
    assert outcome(report, figure="leakage_max", allow_heuristic=True) == "pass"
    assert outcome(report, figure="participations_max") == "pass"


def test_a_figure_rests_on_the_guarantee_unless_its_row_says_that_it_does_not(material):
    assert GateFigure(section="privacy").rests_on_guarantee
    counted = {name for name, row in PLAIN_FIGURES.items() if not row.rests_on_guarantee}
    of_model = {name for name, row in PLAIN_FIGURES.items() if row.section == "utility"}
    of_attacks = {name for name, row in PLAIN_FIGURES.items() if row.section == "attacks"}
    assert of_attacks == set(get_args(AttackFigure))
    assert counted == {*of_model, *of_attacks, *(COUNTED & PLAIN_FIGURES.keys())}
    report = {**assemble(material(NONE)), "sweep": dict(SWEEP)}
    for name, row in PLAIN_FIGURES.items():
        if row.section == "attacks":
            continue  # `test_attack_gates.py` has their evidence
        report[row.section][name] = 1.0
        expected = "insufficient_evidence" if row.rests_on_guarantee else "pass"
        assert outcome(report, figure=name, allow_heuristic=True) == expected


@pytest.mark.parametrize(
    ("changes", "exception"),
    [
        ({}, None),
        ({"noises": ["simulation"]}, "allow_simulation"),
        ({"guarantees": ["formal", "heuristic"]}, "allow_heuristic"),
        ({"conditions": ["it bounds some datasets only"]}, "allow_conditional"),
    ],
)
def test_a_sweep_is_worth_what_its_worst_cell_is(material, changes, exception):
    report = assemble(material(FIXED))
    report["guarantee"]["conditions"] = {}
    report["spec"]["privacy"]["noise"] = "release"
    figure = "sweep_log_ratio_max"
    assert outcome(report, figure=figure) == "insufficient_evidence"
    report["sweep"] = {**SWEEP, **changes}
    assert (outcome(report, figure=figure) == "pass") is (exception is None)
    if exception is not None:
        assert outcome(report, figure=figure, **{exception: True}) == "pass"


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
    # A leakage is no epsilon: no exception makes one of the other.
    assert outcome(report, figure="epsilon_max", allow_heuristic=True) == "insufficient_evidence"
    assert outcome(report, figure="accuracy") == "insufficient_evidence"
    assert outcome(report, figure="validation_loss") == "pass"


def test_an_epsilon_of_a_run_that_ended_early_says_which_rounds_it_is_of(material):
    report = assemble(material(FIXED))
    report["privacy"]["epsilon_max"] = 0.5
    report["guarantee"] |= {"delta": 1e-5, "adjacency": "replace-one"}
    for ending, stated in (("patience", True), ("rounds", False)):
        report["utility"]["stopped_by"] = ending
        [found] = evaluate([Gate(figure="epsilon_max", op="le", value=1.0)], report)
        assert found["reason"].startswith("0.5 is at most 1, at delta = 1e-05 under replace-one")
        assert ("larger epsilon of all planned rounds" in found["reason"]) == stated
        # The bound is met by the rounds that were played, and not by what is proven.
        report["privacy"]["epsilon_planned"] = 1.25
        [found] = evaluate([Gate(figure="epsilon_max", op="le", value=1.0)], report)
        assert (found["outcome"] == "insufficient_evidence") == stated
        assert ("all planned rounds, 1.25, which is above the gate" in found["reason"]) == stated
        assert outcome(report, figure="epsilon_max", value=0.25) == "fail"
        assert outcome(report, figure="epsilon_max", value=1.25) == "pass"
        report["sweep"] = {**SWEEP, "sweep_epsilon_max": 0.5, "epsilon": []}
        found = outcome(report, figure="sweep_epsilon_max")
        assert (found == "insufficient_evidence") == stated
        report["privacy"]["epsilon_planned"] = None


@pytest.mark.parametrize("figure", ["epsilon_max", "sweep_epsilon_max"])
def test_an_epsilon_whose_delta_gives_somebody_away_is_no_evidence(material, figure):
    """A delta of one half makes every epsilon small."""
    report = assemble(material(FIXED))
    report["guarantee"] |= {"conditions": {}, "adjacency": "replace-one"}
    report["spec"]["privacy"]["noise"] = "release"
    one_in_all = 1 / report["data"]["training_clients"]
    for delta, expected in ((one_in_all / 2, "pass"), (one_in_all, "insufficient_evidence")):
        report["guarantee"]["delta"] = delta
        report["privacy"]["epsilon_max"] = 0.5
        report["sweep"] = {**SWEEP, figure: 0.5, "epsilon": [{"delta": delta}]}
        assert outcome(report, figure=figure) == expected
    assert outcome(report, figure=figure, allow_conditional=True, allow_heuristic=True) == expected


JUDGED = ("validation_loss", "prediction_share", "demographic_parity_difference", "log_ratio_max")


def judged(report, **allowed):
    gates = [Gate(figure=name, op="le", value=1e9, **SIMULATED, **allowed) for name in JUDGED]
    return evaluate(gates, report)


def test_no_gate_passes_on_models_that_stay_while_another_leaves(material):
    """A few steps at each client would make any common model look accurate and fair."""
    report = assemble(material(FIXED))
    assert [found["outcome"] for found in judged(report)] == ["pass"] * 4
    report["utility"]["method"] = {"kind": "ditto", "personalised": "x", "sent": "updates"}
    found = judged(report)
    assert [one["outcome"] for one in found] == ["insufficient_evidence"] * 3 + ["pass"]
    assert "the common model, which may leave, was not measured" in found[0]["reason"]
    # Who uses no common model says so, and the reason names whose figures these are.
    found = judged(report, allow_personal_models=True)
    assert [one["outcome"] for one in found] == ["pass"] * 4
    whose = "of models that held-out clients made from their rows (ditto)"
    assert [whose in one["reason"] for one in found] == [True, True, True, False]
    # There is no other model where every client trains for itself.
    report["utility"]["method"] = {"kind": "local-only", "personalised": "x", "sent": None}
    assert [one["outcome"] for one in judged(report)] == ["pass"] * 4


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


def _of_attributes(report, **values):
    """The report with a section for each attribute, whose demographic parity difference is given;
    None for one that cannot be told."""
    [section] = report["fairness"]
    figure = "demographic_parity_difference"
    return report | {
        "fairness": [
            section
            | {
                "attribute": attribute,
                "metrics": section["metrics"]
                | {
                    figure: section["metrics"][figure]
                    | {"value": value, "reason": "one group is left" if value is None else None}
                },
            }
            for attribute, value in values.items()
        ]
    }


@pytest.mark.parametrize(
    ("values", "op", "expected"),
    [
        ({"sex": 0.05, "race": 0.09}, "le", ("race", 0.09, "pass")),
        ({"sex": 0.2, "race": 0.3, "age": 0.01}, "le", ("race", 0.3, "fail")),
        ({"sex": 0.05, "race": None}, "le", ("race", None, "insufficient_evidence")),
        ({"sex": None, "race": 0.3}, "le", ("race", 0.3, "fail")),
        ({"sex": 0.2, "race": 0.3}, "ge", ("sex", 0.2, "pass")),
        ({"sex": 0.05, "race": 0.01}, "ge", ("race", 0.01, "fail")),
    ],
)
def test_a_gate_without_an_attribute_is_one_on_each(material, values, op, expected):
    report = _of_attributes(assemble(material()), **values)
    gate = Gate(figure="demographic_parity_difference", op=op, value=0.1)
    [found] = evaluate([gate], report)
    assert (found["attribute"], found["value"], found["outcome"]) == expected
    assert found["reason"].startswith(f"{expected[0]}, the worst of {len(values)} attributes: ")
    # The worst of the same gates with their attributes named.
    each = [gate.model_copy(update={"attribute": name}) for name in values]
    assert found["outcome"] == overall(evaluate(each, report))
    # Which is none of the others.
    [named] = evaluate([gate.model_copy(update={"attribute": found["attribute"]})], report)
    assert named["value"] == found["value"]


def test_of_one_attribute_it_reads_as_it_always_did(material):
    """What is stored of earlier gates is verified by the same rule."""
    report = _of_attributes(assemble(material()), sex=0.05)
    [found] = evaluate([Gate(figure="demographic_parity_difference", op="le", value=0.1)], report)
    assert (found["attribute"], found["reason"]) == (None, "0.05 is at most 0.1")


def test_without_any_attribute_there_is_no_evidence(material):
    report = _of_attributes(assemble(material()))
    [found] = evaluate([Gate(figure="equalized_odds_difference", op="le", value=0.1)], report)
    assert found["outcome"] == "insufficient_evidence"
    assert found["reason"] == "the report has no sensitive attribute"


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


@pytest.mark.parametrize(
    ("figure", "op"),
    [("accuracy_over_baseline", "ge"), ("loss_under_baseline", "ge"), ("prediction_share", "le")],
)
def test_so_are_shares_of_noised_counts(material, figure, op):
    report = assemble(material())
    gate = Gate(figure=figure, op=op, value=0.6)
    met, missed = ((0.7, 0.8), (0.4, 0.5)) if op == "ge" else ((0.4, 0.5), (0.7, 0.8))
    cases = {"pass": met, "fail": missed, "insufficient_evidence": (0.5, 0.8)}

    def judged(low, high, **changed):
        interval = {"low": low, "high": high, "level": 0.95, **changed}
        utility = {figure: (low + high) / 2, f"{figure}_interval": interval, "degenerate": False}
        noised = {"utility": report["utility"] | utility, "fairness_privacy": {"epsilon": 1.0}}
        [found] = evaluate([gate], report | noised)
        return found

    for outcome, ends in cases.items():
        assert judged(*ends)["outcome"] == outcome
    # Whoever writes the spec chooses the level: one that makes a point of the interval is none.
    for ends in (met, missed):
        assert judged(*ends, level=0.5)["outcome"] == "insufficient_evidence"
    assert "fairness.intervals.level" in judged(*met, level=0.5)["reason"]


def test_a_share_of_noised_counts_without_an_interval_is_no_evidence(material):
    report = assemble(material())
    utility = report["utility"] | {"accuracy_over_baseline": 0.4, "degenerate": False}
    gate = Gate(figure="accuracy_over_baseline", op="ge", value=0.1)
    assert evaluate([gate], report | {"utility": utility})[0]["outcome"] == "pass"
    noised = report | {"utility": utility, "fairness_privacy": {"epsilon": 1.0}}
    for interval in ({}, {"accuracy_over_baseline_interval": None}):
        [found] = evaluate([gate], noised | {"utility": utility | interval})
        assert found["outcome"] == "insufficient_evidence"
