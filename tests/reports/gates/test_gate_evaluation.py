"""Gates: pass, fail, or not enough evidence, each with its reason."""

from typing import Any, get_args

import pytest

from fedaudit.reports.figures import COUNTED
from fedaudit.reports.gates.gate_evaluation import evaluate
from fedaudit.reports.gates.gate_results import overall
from fedaudit.reports.report import assemble
from fedaudit.spec.gates import PLAIN_FIGURES, AttackFigure, Gate, GateFigure
from tests.reports.conftest import SPEC

LACKS = "insufficient_evidence"


def laplace(*, hypotheses: int = 1, noise: str = "release", **privacy: Any) -> dict[str, Any]:
    """A spec whose radius follows the updates, unless one is given."""
    mechanism = {"mechanism": "laplace-l2", "noise_multiplier": 5, "noise": noise, **privacy}
    return {"training": {**SPEC["training"], "hypotheses": hypotheses}, "privacy": mechanism}


CLIPPED = {"radius": 1.0, "clip": 0.5}
FIXED = laplace(**CLIPPED)
SIMULATED = {"allow_degenerate": True, "allow_simulation": True}
SWEEP = {
    **{"sweep_epsilon_max": None, "sweep_log_ratio_max": 1.0},
    **{"noises": ["release"], "guarantees": ["formal"], "conditions": [], "reasons": {}},
}


def judged(report: dict[str, Any], **gate: Any) -> dict[str, Any]:
    [found] = evaluate([Gate(**{"op": "le", "value": 100.0, **gate})], report)
    assert found["reason"]
    return found


def outcome(report: dict[str, Any], **gate: Any) -> str:
    return judged(report, **gate)["outcome"]


@pytest.mark.parametrize(
    ("figure", "op", "bound", "expected", "reason"),
    [
        (2.4, "le", 2.4, "pass", "2.4 is at most 2.4"),
        (2.4, "le", 2.39, "fail", "2.4 is not at most 2.39"),
        (2.4, "ge", 2.4, "pass", "2.4 is at least 2.4"),
        (2.4, "ge", 2.5, "fail", "2.4 is not at least 2.5"),
        # One just beyond its bound does not read like it.
        (2.4000000001, "le", 2.4, "fail", "2.4000000001 is not at most 2.4"),
        (2.4000000001, "le", 2.4000000001, "pass", "2.4000000001 is at most 2.4000000001"),
        # A cost is rounded up, and never past the bound that it meets.
        (1.8941, "le", 2.4, "pass", "1.895 is at most 2.4"),
        (1.8941, "le", 1.8945, "pass", "1.8941 is at most 1.8945"),
        (2.999519038761935, "le", 3.0, "pass", "2.9996 is at most 3"),
    ],
)
def test_a_figure_against_its_bound(material, figure, op, bound, expected, reason):
    report = assemble(material(FIXED))
    report["privacy"]["leakage_max"] = figure
    found = judged(report, figure="leakage_max", op=op, value=bound)
    assert (found["outcome"], found["reason"]) == (expected, reason)


LEAKAGES = {"leakage_max", "leakage_median"}
COSTS = {*LEAKAGES, "log_ratio_max"}
RADIUS, ALIKE = "radius", "choose the same hypothesis"
BOTH = "allow_heuristic allow_simulation"


@pytest.mark.parametrize(
    ("spec", "label", "lacking", "allowance", "why"),
    [
        (laplace(), "heuristic", LEAKAGES, "allow_heuristic", "heuristic"),
        (laplace(radius=1e-9), "formal within the radius", LEAKAGES, "allow_conditional", RADIUS),
        (laplace(radius=1e-9, clip=10), "formal", LEAKAGES, "allow_conditional", RADIUS),
        (laplace(radius=1.0, clip=0.5000001), "formal", LEAKAGES, "allow_conditional", RADIUS),
        (FIXED, "formal", set(), "", ""),
        (laplace(radius=1.0, clip=0.25), "formal", set(), "", ""),
        # Datasets between which it is a bound are those that choose alike.
        (laplace(hypotheses=2, **CLIPPED), "formal", COSTS, "allow_conditional", ALIKE),
        (laplace(noise="simulation", **CLIPPED), "formal", COSTS, "allow_simulation", "release"),
        (laplace(noise="simulation"), "heuristic", LEAKAGES, BOTH, ""),
    ],
)
def test_a_cost_is_evidence_as_far_as_it_is_proven(material, spec, label, lacking, allowance, why):
    """Without any one of its allowances it is none."""
    allowed = dict.fromkeys(allowance.split(), True)
    report = assemble(material(spec))
    assert report["guarantee"]["label"] == label
    for figure in COSTS:
        if report["privacy"][figure] is None:
            assert outcome(report, figure=figure, **dict.fromkeys(ALLOWANCES, True)) == LACKS
        elif figure in lacking:
            # Whether or not the figure meets the bound, which simulated noise can miss.
            for bound in (0.0, 1e300):
                found = judged(report, figure=figure, value=bound)
                missed = bound == 0.0 and allowance == "allow_simulation"
                assert found["outcome"] == ("fail" if missed else LACKS)
                assert missed or why in found["reason"]
            assert outcome(report, figure=figure, op="ge", value=1e300) == LACKS
            for one in allowed:
                others = dict.fromkeys(ALLOWANCES - {one}, True)
                assert outcome(report, figure=figure, value=1e300, **others) == LACKS
            assert outcome(report, figure=figure, value=1e300, **allowed) == "pass"
        else:
            assert outcome(report, figure=figure, value=1e300) == "pass"
        conditional = figure in lacking and allowance == "allow_conditional"
        assert (figure in report["guarantee"]["conditions"]) == conditional, figure
    assert outcome(report, figure="participations_max") == "pass"
    assert outcome(report, figure="validation_loss") == "pass"


ALLOWANCES = {"allow_heuristic", "allow_conditional", "allow_simulation"}


def test_the_same_noise_cannot_be_given_a_smaller_figure(material):
    """Noise depends on nu * r alone: with nu a million times larger and r as much smaller, n/nu is
    a millionth, and the theorem's sum the same."""
    honest = assemble(material(laplace(radius=0.5, clip=0.25, noise_multiplier=1)))
    tiny = laplace(radius=0.5 / 2**20, clip=0.25, noise_multiplier=float(2**20))
    renamed = assemble(material(tiny))
    assert renamed["privacy"]["leakage_max"] * 2**20 == honest["privacy"]["leakage_max"]
    assert renamed["privacy"]["log_ratio_max"] == honest["privacy"]["log_ratio_max"]
    assert outcome(honest, figure="leakage_max", value=150) == "pass"
    found = judged(renamed, figure="leakage_max", value=150)
    assert found["outcome"] == LACKS
    assert "n/nu holds within the radius of 4.76837e-07" in found["reason"]
    bound = honest["privacy"]["log_ratio_max"]
    for report in (honest, renamed):
        assert outcome(report, figure="log_ratio_max", value=bound) == "pass"
        assert outcome(report, figure="log_ratio_max", value=bound / 2) == "fail"


def test_a_report_cannot_state_itself_into_force_and_says_what_is_unprotected(material):
    report = assemble(material(laplace(noise="simulation", **CLIPPED)))
    assert "neither is this report" in report["verdict"]
    assert "This guarantee is not in force" in report["guarantee"]["statement"]
    assert any("This report is itself unprotected" in one for one in report["limits"])
    report["guarantee"]["in_force"] = True
    assert outcome(report, figure="leakage_max") == LACKS
    secret = assemble(material(FIXED))
    assert "not in force" not in secret["verdict"] + secret["guarantee"]["statement"]


def test_a_figure_rests_on_the_guarantee_unless_its_row_says_that_it_does_not(material):
    assert GateFigure(section="privacy").rests_on_guarantee
    counted = {name for name, row in PLAIN_FIGURES.items() if not row.rests_on_guarantee}
    of_model = {name for name, row in PLAIN_FIGURES.items() if row.section == "utility"}
    of_attacks = {name for name, row in PLAIN_FIGURES.items() if row.section == "attacks"}
    assert of_attacks == set(get_args(AttackFigure))
    assert counted == {*of_model, *of_attacks, *(COUNTED & PLAIN_FIGURES.keys())}
    report = assemble(material({"privacy": {"mechanism": "none"}, "gates": []}))
    report["sweep"] = dict(SWEEP)
    for name, row in PLAIN_FIGURES.items():
        if row.section == "attacks":
            continue  # `test_attack_gates.py` has their evidence
        report[row.section][name] = 1.0
        expected = LACKS if row.rests_on_guarantee else "pass"
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
    assert outcome(report, figure=figure) == LACKS
    report["sweep"] = {**SWEEP, **changes}
    assert (outcome(report, figure=figure) == "pass") is (exception is None)
    if exception is not None:
        assert outcome(report, figure=figure, **{exception: True}) == "pass"


def test_what_is_unknown_is_no_evidence_and_has_its_reason(material):
    report = assemble(material(FIXED))
    # A leakage is no epsilon: no exception makes one of the other.
    for allowed in (False, True):
        found = judged(report, figure="epsilon_max", allow_heuristic=allowed)
        assert (found["outcome"], found["value"]) == (LACKS, None)
        assert found["reason"] == report["privacy"]["reasons"]["epsilon_max"]
    assert outcome(report, figure="accuracy") == LACKS
    report["guarantee"]["kind"] = "empirical"
    assert outcome(report, figure="leakage_max", allow_heuristic=True) == LACKS
    assert outcome(report, figure="participations_max") == "pass"


def test_an_epsilon_of_a_run_that_ended_early_says_which_rounds_it_is_of(material):
    report = assemble(material(FIXED))
    report["privacy"]["epsilon_max"] = 0.5
    report["guarantee"] |= {"delta": 1e-5, "adjacency": "replace-one"}
    for ending, stated in (("patience", True), ("rounds", False)):
        report["utility"]["stopped_by"] = ending
        found = judged(report, figure="epsilon_max", value=1.0)
        start = "0.5 is at most 1, at delta = 1e-05 under replace-one, for a client"
        assert found["reason"].startswith(start)
        assert ("larger epsilon of all planned rounds" in found["reason"]) == stated
        # The bound is met by the rounds that were played, and not by what is proven.
        report["privacy"]["epsilon_planned"] = 1.25
        found = judged(report, figure="epsilon_max", value=1.0)
        assert (found["outcome"] == LACKS) == stated
        assert ("all planned rounds, 1.25, which is above the gate" in found["reason"]) == stated
        assert outcome(report, figure="epsilon_max", value=0.25) == "fail"
        assert outcome(report, figure="epsilon_max", value=1.25) == "pass"
        report["sweep"] = {**SWEEP, "sweep_epsilon_max": 0.5, "epsilon": []}
        found = outcome(report, figure="sweep_epsilon_max")
        assert (found == LACKS) == stated
        report["privacy"]["epsilon_planned"] = None


@pytest.mark.parametrize("figure", ["epsilon_max", "sweep_epsilon_max"])
def test_an_epsilon_whose_delta_gives_somebody_away_is_no_evidence(material, figure):
    """A delta of one half makes every epsilon small."""
    report = assemble(material(FIXED))
    report["guarantee"] |= {"conditions": {}, "adjacency": "replace-one"}
    report["spec"]["privacy"]["noise"] = "release"
    one_in_all = 1 / report["data"]["training_clients"]
    for delta, expected in ((one_in_all / 2, "pass"), (one_in_all, LACKS)):
        report["guarantee"]["delta"] = delta
        report["privacy"]["epsilon_max"] = 0.5
        report["sweep"] = {**SWEEP, figure: 0.5, "epsilon": [{"delta": delta}]}
        assert outcome(report, figure=figure) == expected
    assert outcome(report, figure=figure, allow_conditional=True, allow_heuristic=True) == expected


def test_no_gate_passes_on_models_that_stay_while_another_leaves(material):
    """A few steps at each client would make any common model look accurate and fair."""
    report = assemble(material(FIXED))

    def outcomes(**allowed):
        figures = ("validation_loss", "prediction_share", GAP, "log_ratio_max")
        found = [judged(report, figure=one, value=1e9, **SIMULATED, **allowed) for one in figures]
        return [one["outcome"] for one in found], [one["reason"] for one in found]

    assert outcomes()[0] == ["pass"] * 4
    report["utility"]["method"] = {"kind": "ditto", "personalised": "x", "sent": "updates"}
    found, reasons = outcomes()
    assert found == [LACKS] * 3 + ["pass"]
    assert "the common model, which may leave, was not measured" in reasons[0]
    # Who uses no common model says so, and the reason names whose figures these are.
    found, reasons = outcomes(allow_personal_models=True)
    assert found == ["pass"] * 4
    whose = "of models that held-out clients made from their rows (ditto)"
    assert [whose in one for one in reasons] == [True, True, True, False]
    # There is no other model where every client trains for itself.
    report["utility"]["method"] = {"kind": "local-only", "personalised": "x", "sent": None}
    assert outcomes()[0] == ["pass"] * 4


GAP = "demographic_parity_difference"


def test_fairness_gates_look_at_their_attribute(material):
    report = assemble(material())
    gate = {"figure": GAP, "value": 1.0}
    assert outcome(report, **gate) == outcome(report, attribute="group", **gate) == "pass"
    assert outcome(report, attribute="age", **gate) == LACKS
    hidden = {"fairness": {**SPEC["fairness"], "minimum_group_size": 150}}
    assert outcome(assemble(material(hidden)), **gate) == LACKS
    report["fairness"][0]["reference_group"] = "g1"
    assert judged(report, **gate)["reason"].endswith("is at most 1, against g1")


def _of_attributes(report, **values):
    """The report with this gap by each attribute, or None where it is unknown."""
    [section] = report["fairness"]

    def of(value):
        reason = "one group is left" if value is None else None
        found = section["metrics"][GAP] | {"value": value, "reason": reason}
        return section["metrics"] | {GAP: found}

    sections = [section | {"attribute": name, "metrics": of(one)} for name, one in values.items()]
    return report | {"fairness": sections}


@pytest.mark.parametrize(
    ("values", "op", "expected"),
    [
        ({"sex": 0.05, "race": 0.09}, "le", ("race", 0.09, "pass")),
        ({"sex": 0.2, "race": 0.3, "age": 0.01}, "le", ("race", 0.3, "fail")),
        ({"sex": 0.05, "race": None}, "le", ("race", None, LACKS)),
        ({"sex": None, "race": 0.3}, "le", ("race", 0.3, "fail")),
        ({"sex": 0.2, "race": 0.3}, "ge", ("sex", 0.2, "pass")),
        ({"sex": 0.05, "race": 0.01}, "ge", ("race", 0.01, "fail")),
    ],
)
def test_a_gate_without_an_attribute_is_one_on_each(material, values, op, expected):
    report = _of_attributes(assemble(material()), **values)
    gate = Gate(figure=GAP, op=op, value=0.1)
    [found] = evaluate([gate], report)
    assert (found["attribute"], found["value"], found["outcome"]) == expected
    assert found["reason"].startswith(f"{expected[0]}, the worst of {len(values)} attributes: ")
    # What is missing by any of them is said, whichever is the worst.
    missing = [name for name in values if values[name] is None]
    assert found["reason"].count("one group is left") == len(missing)
    # The worst of the same gates with their attributes named.
    each = [gate.model_copy(update={"attribute": name}) for name in values]
    assert found["outcome"] == overall(evaluate(each, report))
    # Which is none of the others.
    [named] = evaluate([gate.model_copy(update={"attribute": found["attribute"]})], report)
    assert named["value"] == found["value"]


def test_of_one_attribute_it_reads_as_it_always_did_and_of_none_there_is_no_evidence(material):
    """What is stored of earlier gates is verified by the same rule."""
    one = judged(_of_attributes(assemble(material()), sex=0.05), figure=GAP, value=0.1)
    assert (one["attribute"], one["reason"]) == (None, "0.05 is at most 0.1")
    none = judged(_of_attributes(assemble(material())), figure=GAP, value=0.1)
    assert (none["outcome"], none["reason"]) == (LACKS, "the report has no sensitive attribute")


def test_the_worst_outcome_counts(material):
    assert overall([]) is None
    outcomes = ["pass", LACKS, "fail"]
    for worst, upto in enumerate(outcomes, start=1):
        assert overall([{"outcome": one} for one in outcomes[:worst]]) == upto
    report = assemble(material())
    assert report["gate_outcome"] == "fail"
    assert [gate["outcome"] for gate in report["gates"]] == ["pass", "fail"]


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0.01, 0.09, "pass"), (0.05, 0.2, LACKS), (0.11, 0.3, "fail")]
)
def test_a_gap_from_noised_counts_is_decided_by_its_whole_interval(material, low, high, expected):
    report = assemble(material()) | {"fairness_privacy": {"epsilon": 1.0}}
    metric = report["fairness"][0]["metrics"]["equalized_odds_difference"]
    metric |= {"value": (low + high) / 2, "interval": {"low": low, "high": high, "level": 0.95}}
    gate = {"figure": "equalized_odds_difference", "value": 0.1}
    assert outcome(report, **gate) == expected
    metric["interval"] = None
    assert outcome(report, **gate) == LACKS


@pytest.mark.parametrize(
    ("figure", "op"),
    [("accuracy_over_baseline", "ge"), ("loss_under_baseline", "ge"), ("prediction_share", "le")],
)
def test_so_are_shares_of_noised_counts(material, figure, op):
    report = assemble(material())
    met, missed = ((0.7, 0.8), (0.4, 0.5)) if op == "ge" else ((0.4, 0.5), (0.7, 0.8))

    def of(low, high, **changed):
        interval = {"low": low, "high": high, "level": 0.95, **changed}
        utility = {figure: (low + high) / 2, f"{figure}_interval": interval, "degenerate": False}
        noised = {"utility": report["utility"] | utility, "fairness_privacy": {"epsilon": 1.0}}
        return judged(report | noised, figure=figure, op=op, value=0.6)

    for expected, ends in (("pass", met), ("fail", missed), (LACKS, (0.5, 0.8))):
        assert of(*ends)["outcome"] == expected
    # Whoever writes the spec chooses the level: one that makes a point of the interval is none.
    for ends in (met, missed):
        assert of(*ends, level=0.5)["outcome"] == LACKS
    assert "fairness.intervals.level" in of(*met, level=0.5)["reason"]


def test_a_share_of_exact_counts_needs_no_interval(material):
    report = assemble(material())
    report["utility"] |= {"accuracy_over_baseline": 0.4, "degenerate": False}
    gate = {"figure": "accuracy_over_baseline", "op": "ge", "value": 0.1}
    assert outcome(report, **gate) == "pass"
    report |= {"fairness_privacy": {"epsilon": 1.0}}
    for interval in ({}, {"accuracy_over_baseline_interval": None}):
        report["utility"] |= interval
        assert outcome(report, **gate) == LACKS
