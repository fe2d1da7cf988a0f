"""One answer: may the model be released?"""

import copy
from typing import Any

import pytest

from fedaudit.reports.page.html import render
from fedaudit.reports.report import assemble
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verdict.verdict import answer_by_codes, concerns_of
from tests.reports.verdict.test_parts import ONE, PASSING, RELEASED

OPEN = {"figure": "auc", "op": "ge", "value": 0.7}
"""A gate without evidence: the model is a regression."""
LOOSE = {"figure": "participations_max", "op": "le", "value": 1e9}
FAILING = {"figure": "equalized_odds_difference", "op": "le", "value": 0.01}
CASES: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "passed": ({**RELEASED, **PASSING}, "release", ["gates-passed"]),
    "no gates": ({**RELEASED, "gates": []}, "not-decided", ["no-gates"]),
    "beside": ({**RELEASED, "gates": [LOOSE]}, "not-decided", ["no-gate-on-guarantee"]),
    "open": (
        {**RELEASED, "gates": [*PASSING["gates"], OPEN]},
        "not-decided",
        ["gates-lack-evidence"],
    ),
    "failed": (
        {**RELEASED, "gates": [*PASSING["gates"], FAILING]},
        "do-not-release",
        ["gates-failed"],
    ),
    "simulated": (
        {"gates": [FAILING]},
        "do-not-release",
        ["guarantee-not-in-force", "gates-failed"],
    ),
    "none": ({"privacy": {"mechanism": "none"}, "gates": []}, "do-not-release", ["no-guarantee"]),
}
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


@pytest.mark.parametrize(
    ("section", "name", "value", "code"),
    [
        ("utility", "stopped_by", "diverged", "training-diverged"),
        ("utility", "degenerate", True, "model-decides-nothing"),
        ("utility", "too_good", True, "model-too-good"),
        ("guarantee", "delta", 0.5, "delta-gives-data-away"),
        ("privacy", "log_ratio_max", 900.0, "guarantee-bounds-nothing"),
    ],
)
def test_what_stands_against_a_release(material, section, name, value, code) -> None:
    report = copy.deepcopy(assemble(material({**ONE, **RELEASED, **PASSING})))
    report[section][name] = value
    found = answer_by_codes(report)
    assert found.outcome == "do-not-release"
    assert found.reasons[0].code == code


def test_a_release_says_what_its_gates_allow(material) -> None:
    heuristic = {"mechanism": "laplace-l2", "noise_multiplier": 1e9, "noise": "release"}
    gate = {"figure": "leakage_max", "op": "le", "value": 1, "allow_heuristic": True}
    report = assemble(material({**ONE, "privacy": heuristic, "gates": [gate]}))
    assert report["answer"]["outcome"] == "release"
    assert [one["code"] for one in report["answer"]["reasons"]] == [
        "gates-passed",
        "allow-heuristic",
    ]


def test_what_is_proven_for_all_planned_rounds_decides(material) -> None:
    """Losses ended the run: the epsilon of the rounds that were played is not what is proven."""
    report = copy.deepcopy(assemble(material({**ONE, **RELEASED, **PASSING})))
    report["gates"] = [{"figure": "epsilon_max", "op": "le", "bound": 3.0, "outcome": "pass"}]
    report["privacy"] |= {"epsilon_planned": 4.7}
    report["utility"]["stopped_by"] = "patience"
    found = answer_of(report)
    assert found.outcome == "not-decided"
    assert found.reasons[0].code == "proven-for-planned-rounds"
    report["utility"]["stopped_by"] = "rounds"
    assert answer_of(report).outcome == "release"


GAP = "equalized_odds_difference"


def with_gap(material, *, low: float, high: float, value: float, gates: Any) -> dict[str, Any]:
    """A report before its answer, of one attribute with this gap."""
    report = copy.deepcopy(assemble(material({**ONE, **RELEASED, "gates": gates})))
    del report["answer"]
    report["fairness"] = report["fairness"][:1]
    report["fairness"][0]["metrics"][GAP] |= {
        "value": value,
        "interval": {"low": low, "high": high, "level": 0.95, "method": "score-pairs"},
    }
    return report


def test_a_wide_gap_that_no_gate_judges_leaves_a_release_undecided(material) -> None:
    bound = [PASSING["gates"][1]]
    wide = with_gap(material, low=0.2, high=0.33, value=0.27, gates=bound)
    found = answer_of(wide)
    assert (found.outcome, found.reasons[0].code) == ("not-decided", "gap-not-judged")
    assert "27 percentage points (wide), its interval 0.2 to 0.33" in found.reasons[0].text
    assert answer_by_codes(wide).reasons[0].code == "gap-not-judged"
    # What may be below the size that counts, and what a gate judges, do not.
    assert answer_of(with_gap(material, low=0.1, high=0.4, value=0.27, gates=bound)).outcome == (
        "release"
    )
    judged = with_gap(material, low=0.2, high=0.33, value=0.27, gates=PASSING["gates"])
    assert answer_of(judged).outcome == "release"
    # Nor does a spec that asks for no intervals get around it.
    without = copy.deepcopy(wide)
    without["fairness"][0]["metrics"][GAP]["interval"] = None
    assert answer_of(without).outcome == "release", "asked for, and unknown"
    without["spec"]["fairness"]["intervals"] = None
    assert answer_of(without).reasons[0].code == "gap-not-judged"
    assert "without an interval" in answer_of(without).reasons[0].text
    # An earlier version signed that this may be chance, and answered by it.
    wide["fairness"][0]["metrics"][GAP]["null"] = {"p_value": 0.3}
    assert answer_of(wide).outcome == "release"


def test_an_answer_that_was_signed_before_gaps_counted_still_follows(material) -> None:
    bound = [PASSING["gates"][1]]
    wide = with_gap(material, low=0.2, high=0.33, value=0.27, gates=bound)
    assert answer_of({**wide, "answer": {"outcome": "release", "reasons": []}}).outcome == "release"
    again = {**wide, "answer": answer_of(wide).model_dump(mode="json")}
    assert answer_of(again) == answer_of(wide)
