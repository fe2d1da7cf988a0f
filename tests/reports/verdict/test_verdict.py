"""Figures in, one answer and sentences out: may the model be released, and what to do next?"""

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedaudit.fairness.disclosure import PROTECTS
from fedaudit.fairness.scored_groups import EARLIER
from fedaudit.ledger.bundle import Evidence
from fedaudit.privacy.guarantees.cost_sentences import (
    cost_level,
    cost_words,
    guess_words,
    level_words,
    odds_words,
)
from fedaudit.reports.charts.answer_pictures import answer_pictures
from fedaudit.reports.dossier.dossier import dossier
from fedaudit.reports.page.html import render
from fedaudit.reports.report import assemble, gate_checks, gated
from fedaudit.reports.verdict import release, verdict, worst_off
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verdict.verdict import answer_by_codes, concerns_of, judged
from fedaudit.reports.verdict.worst_off import counted_by, gap_sentence, judging
from fedaudit.spec.gates import Gate, can_fail
from tests.reports.conftest import SPEC, verdict_parts
from tests.reports.reading_documents import contradicted, gaussian

RELEASED = {"privacy": {"mechanism": "laplace-l2", "noise_multiplier": 5.0, "radius": 1.0,
                        "clip": 0.5, "noise": "release"}}  # fmt: skip
ONE = {"training": {**SPEC["training"], "hypotheses": 1}}
GAP = "equalized_odds_difference"
NONE = {"privacy": {"mechanism": "none"}, "gates": []}
FAILING = {"figure": GAP, "op": "le", "value": 0.01}
PASSING = {
    "gates": [
        {"figure": GAP, "op": "le", "value": 0.9},
        {"figure": "log_ratio_max", "op": "le", "value": 10},
    ]
}


@pytest.fixture
def good(material) -> dict[str, Any]:
    """A report without an objection."""
    return assemble(material({**RELEASED, **ONE, **PASSING}))


def parts_with(report: dict[str, Any], **changes: Any) -> Any:
    """The parts after `section__name=value` changes."""
    changed = copy.deepcopy(report)
    for path, value in changes.items():
        section, name = path.split("__")
        changed[section][name] = value
    return verdict_parts(changed)


# -- may it be released ---------------------------------------------------------------------------


def test_yes_needs_all_of_it(good):
    release = good["verdict_parts"]["release"]
    assert release.startswith("Yes, by the gates that its submitter set: 2 passed.")
    assert "The guarantee is formal and in force." in release
    assert "Training ended with round 41, when its patience ran out." in release
    assert "with a validation loss of 0.5." in release
    assert "Always predicting the same number, the best there is, has a loss of 1." in release


@pytest.mark.parametrize(
    ("privacy", "stated", "doubt"),
    [
        ({"radius": 1e-9}, "formal within the radius", "allow-conditional"),
        ({"radius": "adaptive"}, "heuristic and bounds some", "allow-heuristic"),
    ],
)
def test_a_guarantee_that_is_not_proven_needs_a_gate_that_says_it_will_do(
    material, privacy, stated, doubt
):
    """The radius is free, and with it the figure: gates on other figures say nothing of it."""
    tiny = {**RELEASED["privacy"], "noise_multiplier": 1e9, "clip": None, **privacy}
    beside = {"figure": "participations_max", "op": "le", "value": 1e9}
    parts = assemble(material({**ONE, "privacy": tiny, "gates": [beside]}))["verdict_parts"]
    assert parts["release"].startswith(f"No: the guarantee is {stated}")
    assert "strong protection" not in parts["cost"]
    allowed = {"allow_heuristic": True, "allow_conditional": True}
    gate = {"figure": "leakage_max", "op": "le", "value": 1, **allowed}
    report = assemble(material({**ONE, "privacy": tiny, "gates": [gate]}))
    release = report["verdict_parts"]["release"]
    assert release.startswith("Yes, by the gates")
    within = "a guarantee that holds within a condition, by allow_conditional"
    for words in ("a heuristic guarantee, by allow_heuristic", within):
        assert f"gates of the spec allow {words}" in release
    codes = [one["code"] for one in report["answer"]["reasons"]]
    assert (codes[0], codes[-1], doubt in codes) == ("gates-passed", "gap-may-be-wide", True)


def test_a_failed_gate_is_named_with_its_figure(material):
    report = assemble(material({**RELEASED, **ONE, "gates": [FAILING]}))
    parts = report["verdict_parts"]
    assert parts["release"].startswith(f"No: the gates failed: 1 failed; {GAP}")
    assert "is not at most 0.01" in parts["release"]
    few = "its interval has 0.01 in it, so few people may be why"
    for words in (f"{GAP} has to be at most 0.01: ", "two hypotheses", few):
        assert words in parts["next"]
    report["fairness"][0]["metrics"][GAP]["interval"]["low"] = 0.02
    assert few not in verdict_parts(report).next


def judged_by(report: dict[str, Any], figure: str, **gate: Any) -> dict[str, Any]:
    """The report with this gate alone, which has not passed."""
    found = {"attribute": None, "op": "le", "bound": 0.5, "value": 0.6, "outcome": "fail"}
    found |= {"figure": figure, "reason": "0.6 is not at most 0.5", **gate}
    return with_gates({**report, "gate_outcome": found["outcome"]}, [found])


def with_gates(report: dict[str, Any], gates: list[dict[str, Any]]) -> dict[str, Any]:
    """The report with these outcomes, of as many gates of its spec."""
    asked = [*report["spec"]["gates"], *({} for _ in gates)][: len(gates)]
    return {**report, "gates": gates, "spec": {**report["spec"], "gates": asked}}


def test_a_report_that_judges_other_gates_than_its_spec_has_is_not_read(material) -> None:
    report = assemble(material({**ONE, "gates": [FAILING]}))
    for gates in ([], report["gates"] * 2):
        with pytest.raises(ValueError, match=r"argument 2 is \w+er than"):
            judging({**report, "gates": gates}, report["fairness"][0])


def test_a_gate_on_accuracy_fails_by_design_where_the_threshold_weighs_errors(good):
    useful = {**good["utility"], "threshold": 0.05, "weighted_accuracy_over_baseline": 0.1}
    report = judged_by(good, "accuracy", op="ge", bound=0.7, reason="0.6 is not at least 0.7")
    parts = verdict_parts({**report, "utility": useful})
    assert "set the gate on weighted_accuracy_over_baseline or balanced_accuracy" in parts.next


@pytest.mark.parametrize(
    ("figure", "how"),
    [
        ("participations_max", "train with fewer rounds or a smaller sampling rate."),
        ("membership_tpr_at_1pct", "train with more noise, fewer rounds or"),
        ("accuracy", "try more rounds, another step_size or another model."),
    ],
)
def test_a_gate_on_what_training_reveals_is_not_met_by_more_of_it(good, figure, how):
    parts = verdict_parts(judged_by(good, figure))
    assert f"{figure} has to be at most 0.5: {how}" in parts.next


# -- what was spent -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exponent", "level", "words"),
    [
        (0.5, "up-to-75", "right at most 63% of the time"),
        (1.0, "up-to-75", "24 percentage points for a guess at x, both being equally likely: ri"),
        (2.7, "up-to-95", "right at most 94% of the time"),
        (7.86, "nearly-all", "at x, both being equally likely, is right at most 99.97% of the"),
        (10.0, "nearly-all", "That is hardly any protection: a guess at x, both being equally"),
        (14.0, "nearly-all", "is right at most 99.99992% of the time in place of 50%."),
        (182.0, "nothing", "by a factor of e^182."),
        (720.0, "nothing", "by a factor of e^720"),
        (None, "unbounded", "Nothing bounds"),
        (float("inf"), "unbounded", "Nothing bounds"),
    ],
)
def test_every_cost_has_its_measure(exponent, level, words):
    assert cost_level(exponent) == level
    assert words in cost_words(exponent, guessed="x")
    # No praise beside a rate: what is enough depends on who would guess.
    said = cost_words(exponent, guessed="x")
    if level not in ("nothing", "unbounded"):
        listed = level_words(exponent, delta=0.0, kind="formal", in_force=True)
        assert listed.removeprefix("a guess is ") in said
    assert not re.search("strong|reasonable|moderate|good", said)


def test_a_measure_is_never_rounded_down():
    for exponent in np.linspace(0.01, 19.9, 200):
        stated = float(guess_words(exponent, delta=1e-6).rstrip("%")) / 100
        assert stated >= (np.exp(exponent) + 1e-6) / (np.exp(exponent) + 1) - 1e-12
        if exponent <= 12:
            assert float(odds_words(exponent).replace(",", "")) >= np.exp(exponent) - 1e-9


def test_a_bound_that_is_not_in_force_or_not_proven_is_measured_as_what_it_would_be(material):
    heuristic = assemble(material())["verdict_parts"]["cost"]
    assert "How much that protects cannot be said: it holds between updates within a" in heuristic
    assert "That is" not in heuristic
    huge = {**SPEC["privacy"], "noise_multiplier": 0.1}
    unproven = assemble(material({"privacy": huge}))["verdict_parts"]["cost"]
    assert "Were it proven and were the noise secret, that would be practically no" in unproven
    proven = assemble(material({**RELEASED, **ONE}))["verdict_parts"]["cost"]
    assert "percentage points for a guess at which of two datasets a client has" in proven


def test_without_a_guarantee_the_cost_is_unbounded_and_never_none(material):
    parts = assemble(material(NONE))["verdict_parts"]
    assert parts["cost"].startswith("There is no privacy guarantee, so the cost is unbounded:")
    assert parts["next"].startswith("Choose a privacy mechanism")


# -- who is worst off -----------------------------------------------------------------------------


def by_group(report, true_positive, false_positive, reference=None) -> str:
    """What is said of groups with these rates."""
    changed = copy.deepcopy(report)
    [section, *_] = changed["fairness"]
    section["reference_group"] = reference
    section["groups"] += [{**copy.deepcopy(section["groups"][0]), "value": "g3"}]
    del section["groups"][len(true_positive) :]
    rates = zip(section["groups"], true_positive, false_positive, strict=True)
    for group, true, false in rates:
        group |= {"true_positive_rate": true, "false_positive_rate": false}
    return verdict_parts(changed).fairness


def test_the_worst_off_are_named_with_direction_and_figures(good):
    fairness = by_group(good, (0.4, 0.9), (0.2, 0.3))
    assert fairness.startswith("The favourable outcome is y >= 0.")
    assert "By group, g1 have the lowest rate: of those with y >= 0" in fairness
    assert "in truth, 40% of g1 and 90% of g2 were predicted so." in fairness
    assert "equalized_odds_difference by group is 0.03 (95% interval" in fairness


def test_with_a_reference_group_the_gap_to_it_is_stated_whoever_is_worst_off(good):
    assert "50% of " in by_group(good, (0.9, 0.5), (0.1, 0.1), reference="g2")
    fairness = by_group(good, (0.3, 0.5, 0.9), (0.1, 0.1, 0.1), reference="g2")
    assert "g3 are furthest from the reference group g2: of those with y >= 0" in fairness
    assert "worst off" not in fairness


def test_a_ratio_to_a_reference_group_is_not_said_to_be_that_of_all(good):
    section = copy.deepcopy(good["fairness"][0])
    assert "lowest selection rate is" in gap_sentence(section, "demographic_parity_ratio")
    section["reference_group"] = "g2"
    words = gap_sentence(section, "demographic_parity_ratio")
    assert words.startswith("The lower selection rate of g2 and one other is ")


def test_an_interval_that_reaches_0_does_not_say_who_fares_worse(good):
    for low, said in ((0.0, True), (0.01, False)):
        report = copy.deepcopy(good)
        metric = report["fairness"][0]["metrics"][GAP]
        metric["interval"] = {**metric["interval"], "low": low}
        fairness = verdict_parts(report).fairness
        assert ("its interval reaches 0" in fairness) == said
        assert ("worst off" in fairness) != said


# -- what to do next ------------------------------------------------------------------------------


def test_what_to_do_follows_from_the_figures(good, material):
    assert good["verdict_parts"]["next"] == (
        "Read what this report does not show, and decide whether to sign off."
    )
    assert good["advice"]["changes"] == []
    huge = parts_with(good, privacy__log_ratio_max=182.0).next
    # By the projection of a client that is drawn in all 50 rounds, not by what this run charged.
    assert re.search(r"in the worst case.*a noise_multiplier of [\d.]+ instead of 5", huge)
    simulated = copy.deepcopy(good)
    simulated["guarantee"]["in_force"] = False
    assert "do, train the model for release with `noise: release`" in verdict_parts(simulated).next
    # Gates that are set after a release judge another one, which costs as much again.
    ungated = verdict_parts(with_gates({**simulated, "gate_outcome": None}, [])).next
    assert "set gates for what the model must meet, and train the model for release" in ungated
    assert "the next run" not in ungated
    released = verdict_parts(with_gates({**good, "gate_outcome": None}, [])).next
    assert "the next run, which costs as much again, is judged by them; `fedaudit" in released
    free = assemble(material(NONE))
    diverged = parts_with(free, utility__stopped_by="diverged").next
    assert "training diverged: train with a step_size of 0.01 in place of 0.1" in diverged
    assert "leak_reviewed" in parts_with(good, utility__too_good=True).next
    unsure = parts_with(free, utility__degenerate=None, utility__accuracy_over_baseline=0.1).next
    assert "hold out" in unsure
    useless = parts_with(good, utility__degenerate=True, utility__improved=False).next
    assert "noise_multiplier" not in useless


def test_what_failed_between_groups_comes_before_a_training_for_release(material, good):
    shown = assemble(material({**ONE, "gates": [FAILING]}))["verdict_parts"]["next"]
    assert shown.startswith("equalized_odds_difference has to be at most 0.01")
    assert "If these figures will do" not in shown
    hidden = copy.deepcopy(good)
    hidden["guarantee"]["in_force"] = False
    metric = hidden["fairness"][0]["metrics"][GAP]
    metric |= {"value": None, "interval": None, "reason": "too few"}
    for group in hidden["fairness"][0]["groups"]:
        group["suppressed"] = True
    shown = verdict_parts(hidden).next
    assert shown.startswith("No groups can be compared: hold out more clients or join values of gr")
    by_rows = copy.deepcopy(hidden)
    by_rows["spec"]["federation"]["validation_unit"] = "record"
    assert ": hold out more rows or join" in verdict_parts(by_rows).next
    assert "If these figures will do" not in shown
    metric["reason"] = f"suppressed: the groups differ from those of {EARLIER}"
    # Other clients or joined values are no way out of it, and may lead further in.
    shown = verdict_parts(hidden).next
    assert shown.startswith(f"No groups can be compared beside {EARLIER}: keep to its edges")
    assert "hold out more" not in shown
    hidden["fairness"].append({**hidden["fairness"][0], "attribute": "race"})
    shown = verdict_parts(hidden).fairness
    said = f"by group is unknown: {metric['reason']}. So it is by every other attribute, for"
    assert said in shown
    assert shown.count("unknown") == 1


def test_hidden_groups_are_named_with_what_shows_them(good):
    """Values of an attribute that is cut cannot be joined."""
    [section] = good["fairness"]
    small = {"suppressed": True, "reasons": {"loss": "suppressed: fewer than 30 scored rows"}}
    beside = {"suppressed": True, "reasons": {"loss": f"{PROTECTS}, of fewer than 30 scored rows"}}
    groups = [{**section["groups"][0], "value": value} for value in ("below 40", "40 to below 60")]
    by_age = [groups[0] | small, groups[1] | beside]
    good["fairness"].append({**section, "attribute": "age", "groups": by_age})
    good["spec"]["fairness"] |= {"sensitive": ["group", "age"], "edges": {"age": [40, 60]}}
    assert (
        "age below 40 or 40 to below 60 (to protect a smaller one, or rows in no group). Before "
        "concluding that everybody is treated alike, hold out more clients or cut age at fewer "
        "`fairness.edges`."
    ) in verdict_parts(good).next
    good["fairness"][1]["intersection_of"] = ["group", "age"]
    both = "hold out more clients, join values of group by `fairness.groups` or cut age at fewer"
    assert both in verdict_parts(good).next


@pytest.mark.parametrize(
    "waiver",
    [
        ", or set allow_conditional",
        "; set allow_simulation for research",
        "; set allow_heuristic, or use exact rates",
        ", or set allow_personal_models if the common one is not used",
    ],
)
def test_no_advice_is_to_ask_for_less(good, waiver):
    lacking = {"outcome": "insufficient_evidence", "value": 1.0, "bound": 2.0}
    parts = verdict_parts(judged_by(good, "leakage_max", reason=f"why{waiver}", **lacking))
    assert "allow_" not in parts.release + parts.next
    assert "The gate on leakage_max lacks evidence: why" in parts.next
    # Why the model is of no use is said once, and not by each gate again.
    useless = judged_by(good, GAP, reason="it guesses; train", **lacking)
    utility = {**good["utility"], "degenerate": None, "reasons": {"degenerate": "it guesses"}}
    parts = verdict_parts({**useless, "utility": utility})
    assert (parts.release + parts.next).count("it guesses") == 1


def test_an_attack_on_the_model_is_said_with_its_cost(good):
    found = {"tpr": 0.03, "fpr": 0.01, "interval": None, "reason": None}
    attack = {"kind": "membership", "status": "done", "alarm": None, "tpr_at_fpr": [found]}
    cost = verdict_parts({**good, "attacks": [attack]}).cost
    assert "guesses at members find 3.00% of them where 1% is chance" in cost
    assert "no all-clear: it has no interval" in cost


# -- the verdict in words -------------------------------------------------------------------------


def test_a_leakage_is_never_stated_below_what_was_spent(material):
    report = assemble(material())
    report["privacy"] |= {"leakage_per_release": 1.00012, "leakage_max": 7.00013}
    report["privacy"]["leakage_median"] = 3.5
    stated = "a leakage of 1.001 for each and 7.001 in all, and the median client 3.5."
    assert stated in judged(report)["verdict"]


@pytest.mark.parametrize(("patience", "stated"), [(3, True), (None, False)])
def test_an_epsilon_of_a_sweep_that_losses_may_end_is_that_of_played_rounds(good, patience, stated):
    epsilon = [{"observer": "final_model", "delta": 1e-5}]
    sweep = {"cells": 4, "tries": None, "sweep_epsilon_max": 2.0, "epsilon": epsilon}
    training = {**good["spec"]["training"], "stopping": {"patience": patience}}
    report = {**good, "sweep": sweep, "spec": {**good["spec"], "training": training}}
    assert ("where losses end a cell, more is proven" in verdict_parts(report).cost) == stated


def test_a_cost_that_an_attack_contradicts_or_that_covers_a_part_protects_no_one(material):
    document = gaussian(material)
    assert document["verdict_parts"]["cost"].startswith("Protected: a client, which spent")
    added = {**document["guarantee"], "conditions": {"epsilon_max": "what this run adds"}}
    refuted = contradicted(document)
    for report in (refuted, {**document, "guarantee": added}):
        assert verdict_parts(report).cost.startswith("A client spent")
    stated = "An attack contradicts that, so it bounds nothing."
    assert stated in verdict_parts(refuted).cost
    picture = next(one for one in answer_pictures(refuted) if one.name == "picture-spent")
    assert "an attack contradicts that, so it bounds nothing." in picture.caption


# -- one answer: may it be released? --------------------------------------------------------------


OPEN = {"figure": "auc", "op": "ge", "value": 0.7}
"""A gate without evidence: the model is a regression."""
LOOSE = {"figure": "participations_max", "op": "le", "value": 1e9}
ANY_COST = {"figure": "log_ratio_max", "op": "ge", "value": 0}
"""A gate that any cost meets."""
ANY_BOUND = {"figure": "log_ratio_max", "op": "le", "value": 20.1}
"""One whose bound protects no one."""
BESIDE = ["no-gate-on-guarantee", "gap-may-be-wide"]
SIMULATED = ["guarantee-not-in-force", "gates-failed"]
PASSED = PASSING["gates"]
CASES: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "passed": ({**RELEASED, **PASSING}, "release", ["gates-passed"]),
    "no gates": ({**RELEASED, "gates": []}, "not-decided", ["no-gates"]),
    "beside": ({**RELEASED, "gates": [LOOSE]}, "not-decided", BESIDE),
    "any bound": ({**RELEASED, "gates": [PASSED[0], ANY_BOUND]}, "not-decided", BESIDE[:1]),
    "any cost": ({**RELEASED, "gates": [ANY_COST]}, "not-decided", BESIDE),
    "open": ({**RELEASED, "gates": [*PASSED, OPEN]}, "not-decided", ["gates-lack-evidence"]),
    "failed": ({**RELEASED, "gates": [*PASSED, FAILING]}, "do-not-release", ["gates-failed"]),
    "simulated": ({"gates": [FAILING]}, "do-not-release", SIMULATED),
    "none": (NONE, "do-not-release", ["no-guarantee"]),
}
REASON = re.compile(r'reason\(\s*"([a-z-]+)"(?: if \w+ else "([a-z-]+)")?')


def test_every_reason_of_a_run_has_words_for_lists():
    sources = "".join(Path(one.__file__).read_text() for one in (release, worst_off))
    codes = {code for found in REASON.findall(sources) for code in found if code}
    codes |= {name.replace("_", "-") for name in release._EXCEPTIONS}
    assert codes == set(verdict._REASON_WORDS)


WORDS = {"release": "Yes, ", "do-not-release": "No: ", "not-decided": "Not decided: "}


@pytest.mark.parametrize(("changes", "outcome", "codes"), CASES.values(), ids=CASES)
def test_outcome_and_reasons(material, changes, outcome, codes) -> None:
    report = assemble(material({**ONE, **changes}))
    answer = report["answer"]
    assert answer == answer_of(report).model_dump()
    assert (answer["outcome"], [one["code"] for one in answer["reasons"]]) == (outcome, codes)
    assert report["verdict"].startswith(WORDS[outcome] + answer["reasons"][0]["text"])
    assert f'class="answer answer-{outcome}"' in render(report)
    assert set(concerns_of(report)) <= {*codes}
    brief = answer_by_codes(report)
    assert [one.code for one in brief.reasons] == codes
    assert not any(any(map(str.isdigit, one.text)) for one in brief.reasons)


COUNTS_OF_NOISE = {"epsilon": 20.0, "delta": 0.0, "unit": "client"}
DEGENERATE = "No: the model is degenerate, it decides nothing: "


@pytest.mark.parametrize(
    ("section", "name", "value", "code", "words"),
    [
        ("utility", "stopped_by", "diverged", "training-diverged", "No: training diverged"),
        ("utility", "degenerate", True, "model-decides-nothing", DEGENERATE),
        ("utility", "degenerate", None, "model-not-shown-useful", "does not say whether"),
        ("utility", "too_good", True, "model-too-good", "the model predicts suspiciously well"),
        ("guarantee", "kind", "none", "no-guarantee", "No: there is no privacy guarantee"),
        ("guarantee", "in_force", False, "guarantee-not-in-force", "No: the noise was simulated"),
        ("guarantee", "delta", 0.5, "delta-gives-data-away", "No: a delta of 0.5 allows"),
        ("privacy", "log_ratio_max", 182.0, "guarantee-bounds-nothing", "too large to protect"),
        ("fairness_privacy", "epsilon", 20.1, "fairness-bounds-nothing", "epsilon of 20.1 is too"),
    ],
)
def test_each_objection_alone_makes_it_a_no(good, section, name, value, code, words) -> None:
    good[section] = {**(good[section] or COUNTS_OF_NOISE), name: value}
    found = answer_by_codes(good)
    assert (found.outcome, found.reasons[0].code) == ("do-not-release", code)
    parts = verdict_parts(good)
    assert parts.release.startswith("No: ")
    assert words in parts.release
    assert ("no one in particular is protected" in parts.cost) == (name == "delta")


def test_what_is_not_released_stays_as_it_was_signed(good) -> None:
    good["fairness_privacy"] = {**COUNTS_OF_NOISE, "epsilon": 50.0}
    for outcome, refused in (("not-decided", False), ("release", True)):
        good["answer"] = {"outcome": outcome}
        codes = [one.code for one in answer_of(good).reasons]
        assert ("fairness-bounds-nothing" in codes) == refused


def test_figures_of_clients_own_models_release_no_common_one(good) -> None:
    method = {"kind": "ditto", "personalised": "tuned", "sent": "updates"}
    report = {**good, "utility": {**good["utility"], "method": method}}
    before = {**report, "answer": {**report["answer"], "counts_method": None}}
    assert answer_of(before).outcome == "release"
    found = answer_of(report)
    assert found.outcome == "not-decided"
    assert [one.code for one in found.reasons] == ["common-model-not-measured"]
    # Local training makes none, and a gate may say that it is not used.
    gates = [{**gate, "allow_personal_models": True} for gate in report["spec"]["gates"]]
    assert answer_of({**report, "spec": {**report["spec"], "gates": gates}}).outcome == "release"


def test_a_gate_that_an_earlier_version_passed_by_the_rounds_played_releases_nothing(good):
    """Losses ended the run: the report stays as it was signed, and its answer too."""
    report = good
    gate = Gate(figure="epsilon_max", op="le", value=3.0)
    report["privacy"] |= {"epsilon_max": 2.5, "epsilon_planned": None}
    report["guarantee"] |= {"delta": 1e-5, "adjacency": "replace-one"}
    report["utility"]["stopped_by"] = "patience"
    report |= gated([gate], report)
    report = with_gates(report, report["gates"])
    assert report["gate_outcome"] == "pass"
    report["privacy"]["epsilon_planned"] = 4.7
    found = answer_of(report)
    assert found.outcome == "not-decided"
    assert found.reasons[0].code == "proven-for-planned-rounds"
    assert {one.outcome for one in gate_checks([gate], report)} == {"pass"}
    assert gated([gate], report)["gate_outcome"] == "insufficient_evidence"
    report["utility"]["stopped_by"] = "rounds"
    assert answer_of(report).outcome == "release"


def test_a_gate_that_simulated_noise_misses_has_failed_and_is_not_open_until_it_is_paid_for(good):
    spent = good["privacy"]["log_ratio_max"]
    for factor, outcome in ((0.5, "fail"), (2.0, "insufficient_evidence")):
        gate = Gate(figure="log_ratio_max", op="le", value=factor * spent)
        report = copy.deepcopy(good)
        report["spec"]["privacy"]["noise"], report["guarantee"]["in_force"] = "simulation", False
        report |= gated([gate], report)
        assert report["gate_outcome"] == outcome
        advice = verdict_parts(with_gates(report, report["gates"])).next
        assert advice.startswith("log_ratio_max has to be") is (outcome == "fail")
        assert ("train the model for release" in advice) is (outcome != "fail")
        # Earlier versions left both open, and their reports stay as they were signed.
        report["gates"][0]["outcome"] = report["gate_outcome"] = "insufficient_evidence"
        assert {one.outcome for one in gate_checks([gate], report)} == {"pass"}
        report["gates"][0]["outcome"] = report["gate_outcome"] = "pass"
        assert next(gate_checks([gate], report)).outcome == "fail"
        # Not so where the gate allows simulated noise, or noise is secret.
        report["gates"][0]["outcome"] = report["gate_outcome"] = "insufficient_evidence"
        allowing = gate.model_copy(update={"allow_simulation": True})
        assert next(gate_checks([allowing], report)).outcome == "fail"
        report["spec"]["privacy"]["noise"] = "release"
        assert next(gate_checks([gate], report)).outcome == "fail"


def with_gap(material, *, low: float, high: float, value: float, gates: Any) -> dict[str, Any]:
    """A report before its answer, of one attribute with this gap."""
    report = assemble(material({**ONE, **RELEASED, "gates": gates}))
    del report["answer"]
    interval = {"low": low, "high": high, "level": 0.95, "method": "score-pairs"}
    report["fairness"][0]["metrics"][GAP] |= {"value": value, "interval": interval}
    return report


BOUND = [PASSED[1]]
"""A gate on the guarantee alone."""


def without_interval(report: dict[str, Any], *, asked: bool) -> dict[str, Any]:
    """The report with a gap of unknown interval, which the spec may have asked for."""
    changed = copy.deepcopy(report)
    changed["fairness"][0]["metrics"][GAP]["interval"] = None
    if not asked:
        changed["spec"]["fairness"]["intervals"] = None
    return changed


def test_a_wide_gap_that_no_gate_judges_leaves_a_release_undecided(material) -> None:
    wide = with_gap(material, low=0.2, high=0.33, value=0.27, gates=BOUND)
    found = answer_of(wide)
    assert (found.outcome, found.reasons[0].code) == ("not-decided", "gap-not-judged")
    assert "27 percentage points (wide), its interval 0.2 to 0.33" in found.reasons[0].text
    assert answer_by_codes(wide).reasons[0].code == "gap-not-judged"
    # Nor does a spec get around it that asks for no intervals, or has a gate that no gap fails.
    vacuous = [*BOUND, {**PASSED[0], "value": 1}]
    unjudged = with_gap(material, low=0.2, high=0.33, value=0.27, gates=vacuous)
    assert answer_of(unjudged).reasons[0].code == "gap-not-judged"
    before = {name: one for name, one in counted_by(wide).items() if name != "can_fail"}
    assert answer_of({**unjudged, "answer": before}).outcome == "release"
    unasked = without_interval(wide, asked=False)
    assert answer_of(unasked).reasons[0].code == "gap-not-judged"
    assert "without an interval" in answer_of(unasked).reasons[0].text
    # Nor one whose gap is not known, or leaves out too many: reports without doubts knew neither.
    for attribute in ({"doubt": "whom it leaves out"}, {"doubt": None, "metrics": {}}):
        unknown = with_gap(material, low=0.0, high=0.1, value=0.05, gates=BOUND)
        [section] = unknown["fairness"]
        if "metrics" in attribute:
            section["metrics"][GAP] |= {"value": None, "reason": "whom it leaves out"}
            section["metrics"][GAP]["interval"] = None
        section["doubt"] = attribute["doubt"]
        assert answer_of(unknown).outcome == "not-decided"
        assert answer_of(unknown).reasons[0].code == "gap-not-known"
        assert answer_of(unknown).reasons[0].text.endswith("is not known: whom it leaves out")
        del section["doubt"]
        assert answer_of(unknown).outcome == "release"
    # What may be below the size that counts does not, nor what a gate judges.
    for one in (
        with_gap(material, low=0.1, high=0.4, value=0.27, gates=BOUND),
        with_gap(material, low=0.2, high=0.33, value=0.27, gates=PASSED),
        without_interval(wide, asked=True),
    ):
        assert answer_of(one).outcome == "release"
    # Earlier versions signed their answers before gaps counted, or before those without interval.
    signed = {"outcome": "release", "reasons": []}
    assert answer_of({**wide, "answer": signed}).outcome == "release"
    assert answer_of({**unasked, "answer": {**signed, "gap_size": 0.1}}).outcome == "release"
    again = {**wide, "answer": answer_of(wide).model_dump(mode="json")}
    assert answer_of(again) == answer_of(wide)
    # One signed that this may be chance, and answered by it.
    wide["fairness"][0]["metrics"][GAP]["null"] = {"p_value": 0.3}
    assert answer_of(wide).outcome == "release"


def with_others(report: dict[str, Any], gates: Any, **found: dict[str, Any]) -> dict[str, Any]:
    """The report with more attributes, that have these gaps, and its gates judged again."""
    sections = [copy.deepcopy(report["fairness"][0]) | {"attribute": name} for name in found]
    for section, gap in zip(sections, found.values(), strict=True):
        section["metrics"][GAP] |= gap
    changed = {**report, "fairness": [*report["fairness"], *sections]}
    return changed | gated([Gate.model_validate(one) for one in gates], changed)


WIDER = {"value": 0.5, "interval": {"low": 0.0, "high": 0.6, "level": 0.95}}
HIDDEN = {"value": None, "interval": None, "reason": "suppressed"}


def test_no_interval_is_so_wide_that_it_hides_a_gap(material) -> None:
    report = with_gap(material, low=0.02, high=0.7, value=0.45, gates=BOUND)
    interval = report["fairness"][0]["metrics"][GAP]["interval"]
    for level, counts in ((0.99, False), (1 - 1e-12, True)):
        interval["level"] = level
        codes = [one.code for one in answer_of(report).reasons]
        assert ("gap-not-judged" in codes) == counts


def test_a_gate_that_names_no_attribute_judges_the_gap_by_each_that_is_known(material) -> None:
    report = with_gap(material, low=0.2, high=0.33, value=0.27, gates=PASSED)
    both = with_others(report, PASSED, race=WIDER)
    assert both["gates"][0]["attribute"] == "race"
    assert [one.code for one in answer_of(both).reasons] == ["gates-passed"]
    # Earlier versions took it for a gate on the worst alone, and signed that.
    signed = {"gap_size": 0.1, "counts_doubts": True}
    assert answer_of({**both, "answer": signed}).reasons[0].code == "gap-not-judged"
    hidden = with_others(report, PASSED, race=WIDER, age=HIDDEN, place=HIDDEN)
    assert (hidden["gate_outcome"], hidden["gates"][0]["attribute"]) == (
        "insufficient_evidence",
        "age",
    )
    for report, said in (
        (both, {"group": "0.9: passed.", "race": "0.9: passed."}),
        (hidden, {"race": "lacks evidence by age.", "age": "lacks evidence.", "place": "No gate"}),
    ):
        rows = dossier(Evidence("0190-1", report["spec"], report, []))["figures"]
        reading = {one["label"]: one["reading"] for one in rows}
        assert all(words in reading[f"By {name}"] for name, words in said.items())


def test_the_gap_that_is_wide_for_sure_leads_answer_headline_and_picture(material) -> None:
    report = with_gap(material, low=0.2, high=0.33, value=0.27, gates=BOUND)
    both = with_others(report, BOUND, race=WIDER)
    assert answer_of(both).reasons[0].text.startswith("by group ")
    said = verdict_parts(both).fairness
    assert f"{GAP} by group is 0.27 (95% interval 0.2 to 0.33)" in said
    assert f"Then come gaps of 0.5 by race ({GAP}, 95% interval 0 to 0.6)." in said
    assert "Who is treated worse: by group" in {one.title for one in answer_pictures(both)}


def test_a_model_that_may_be_no_better_than_a_constant_is_not_decided(material) -> None:
    unsure = with_gap(material, low=0, high=0.1, value=0.05, gates=PASSED)
    for figure in ("accuracy_over_baseline_interval", "loss_under_baseline_interval"):
        unsure["utility"][figure] = None
    found = answer_of(unsure)
    assert [one.code for one in found.reasons] == ["usefulness-not-known"]
    assert found.outcome == answer_by_codes(unsure).outcome == "not-decided"
    assert "Set a gate on how good the model has to be" in verdict_parts(unsure).next
    for figure, op, outcome in (
        ("loss_under_baseline", "ge", "release"),
        ("accuracy", "le", "not-decided"),
        ("recall", "ge", "not-decided"),
        ("auc", "ge", "not-decided"),  # every one is at least 0
    ):
        gate = {"figure": figure, "op": op, "bound": 0.0, "attribute": None, "outcome": "pass"}
        judged = with_gates(unsure, [*unsure["gates"], gate])
        assert answer_of(judged).outcome == outcome, figure
    # An earlier version signed its answer without this.
    assert answer_of({**unsure, "answer": {"gap_size": 0.1}}).outcome == "release"


def test_a_release_names_the_gap_that_may_be_wide_and_that_no_gate_judges(material) -> None:
    wide = with_gap(material, low=0, high=0.9, value=0.12, gates=BOUND)
    found = answer_of(wide)
    assert (found.outcome, found.reasons[-1].code) == ("release", "gap-may-be-wide")
    assert found.reasons[-1].text.endswith("it may be as wide as 0.9")
    assert found.reasons[-1].text in verdict_parts(wide).release
    # None that may be wide hides another.
    other = {**wide["fairness"][0], "attribute": "age"}
    several = {**wide, "fairness": [*wide["fairness"], other]}
    texts = [one.text for one in answer_of(several).reasons if one.code == "gap-may-be-wide"]
    assert {text.split()[6] for text in texts} == {"age", "group"}
    before = {**counted_by(several), "counts_method": None}
    assert len(answer_of({**several, "answer": before}).reasons) == 2
    for one in (
        with_gap(material, low=0, high=0.1, value=0.05, gates=BOUND),
        with_gap(material, low=0, high=0.9, value=0.12, gates=PASSED),
        {**wide, "answer": {"gap_size": 0.1}},
    ):
        assert [reason.code for reason in answer_of(one).reasons] == ["gates-passed"]


@pytest.mark.parametrize(
    ("figure", "op", "bound", "fails"),
    [
        ("equalized_odds_difference", "le", 1.0, False),
        ("equalized_odds_difference", "le", 0.999, True),
        ("loss_difference", "le", 1.0, True),
        ("auc", "ge", 0.0, False),
        ("auc", "ge", 1e-9, True),
        ("accuracy_over_baseline", "ge", 0.0, True),
        ("accuracy_over_baseline", "ge", -1.0, False),
        ("loss_under_baseline", "ge", -1e300, True),
        ("brier", "le", 1.0, False),
        ("validation_loss", "ge", 0.0, False),
    ],
)
def test_a_gate_that_no_value_fails_requires_nothing(figure, op, bound, fails) -> None:
    assert can_fail(figure, op, bound) == fails


def test_a_gate_at_a_bound_that_protects_hardly_anyone_decides_nothing(good) -> None:
    report = good
    signed = report.pop("answer")
    assert signed["outcome"] == "release"
    for exponent, outcome in ((9.99, "release"), (18.0, "not-decided")):
        report["privacy"]["log_ratio_max"] = exponent
        found = answer_of(report)
        assert found.outcome == outcome
        assert (found.reasons[0].code == "bound-is-loose") == (outcome == "not-decided")
    # An answer that was signed before this counted stays the same.
    del signed["counts_doubts"]
    assert answer_of({**report, "answer": signed}).outcome == "release"
