"""One answer: may the model be released?"""

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from fedaudit.reports.page.html import render
from fedaudit.reports.report import assemble, gate_checks, gated
from fedaudit.reports.verdict import release, verdict, worst_off
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verdict.verdict import answer_by_codes, concerns_of
from fedaudit.spec.gates import Gate
from tests.reports.conftest import verdict_parts
from tests.reports.verdict.test_parts import ONE, PASSING, RELEASED

OPEN = {"figure": "auc", "op": "ge", "value": 0.7}
"""A gate without evidence: the model is a regression."""
LOOSE = {"figure": "participations_max", "op": "le", "value": 1e9}
FAILING = {"figure": "equalized_odds_difference", "op": "le", "value": 0.01}
ANY_COST = {"figure": "log_ratio_max", "op": "ge", "value": 0}
"""A gate that any cost meets."""
BESIDE = ["no-gate-on-guarantee", "gap-may-be-wide"]
SIMULATED = ["guarantee-not-in-force", "gates-failed"]
PASSED = PASSING["gates"]
NONE = {"privacy": {"mechanism": "none"}, "gates": []}
CASES: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "passed": ({**RELEASED, **PASSING}, "release", ["gates-passed"]),
    "no gates": ({**RELEASED, "gates": []}, "not-decided", ["no-gates"]),
    "beside": ({**RELEASED, "gates": [LOOSE]}, "not-decided", BESIDE),
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


@pytest.fixture
def released(material) -> dict[str, Any]:
    """A report without an objection."""
    return copy.deepcopy(assemble(material({**ONE, **RELEASED, **PASSING})))


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


DEGENERATE = "No: the model is degenerate, it decides nothing: "


@pytest.mark.parametrize(
    ("section", "name", "value", "code", "words"),
    [
        ("utility", "stopped_by", "diverged", "training-diverged", "No: training diverged"),
        ("utility", "degenerate", True, "model-decides-nothing", DEGENERATE),
        (
            "utility",
            "degenerate",
            None,
            "model-not-shown-useful",
            "the report does not say whether",
        ),
        ("utility", "too_good", True, "model-too-good", "the model predicts suspiciously well"),
        ("guarantee", "kind", "none", "no-guarantee", "No: there is no privacy guarantee"),
        ("guarantee", "in_force", False, "guarantee-not-in-force", "No: the noise was simulated"),
        ("guarantee", "delta", 0.5, "delta-gives-data-away", "No: a delta of 0.5 allows"),
        ("privacy", "log_ratio_max", 182.0, "guarantee-bounds-nothing", "too large to protect"),
    ],
)
def test_each_objection_alone_makes_it_a_no(released, section, name, value, code, words) -> None:
    released[section][name] = value
    found = answer_by_codes(released)
    assert (found.outcome, found.reasons[0].code) == ("do-not-release", code)
    parts = verdict_parts(released)
    assert parts.release.startswith("No: ")
    assert words in parts.release
    assert ("no one in particular is protected" in parts.cost) == (name == "delta")


def test_a_gate_that_an_earlier_version_passed_by_the_rounds_played_releases_nothing(released):
    """Losses ended the run: the report stays as it was signed, and its answer too."""
    report = released
    gate = Gate(figure="epsilon_max", op="le", value=3.0)
    report["privacy"] |= {"epsilon_max": 2.5, "epsilon_planned": None}
    report["guarantee"] |= {"delta": 1e-5, "adjacency": "replace-one"}
    report["utility"]["stopped_by"] = "patience"
    report |= gated([gate], report)
    assert report["gate_outcome"] == "pass"
    report["privacy"]["epsilon_planned"] = 4.7
    found = answer_of(report)
    assert found.outcome == "not-decided"
    assert found.reasons[0].code == "proven-for-planned-rounds"
    assert {one.outcome for one in gate_checks([gate], report)} == {"pass"}
    assert gated([gate], report)["gate_outcome"] == "insufficient_evidence"
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
    # Nor does a spec that asks for no intervals get around it.
    unasked = without_interval(wide, asked=False)
    assert answer_of(unasked).reasons[0].code == "gap-not-judged"
    assert "without an interval" in answer_of(unasked).reasons[0].text
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
    ):
        gate = {"figure": figure, "op": op, "bound": 0.0, "attribute": None, "outcome": "pass"}
        judged = {**unsure, "gates": [*unsure["gates"], gate]}
        assert answer_of(judged).outcome == outcome, figure
    # An earlier version signed its answer without this.
    assert answer_of({**unsure, "answer": {"gap_size": 0.1}}).outcome == "release"


def test_a_release_names_the_gap_that_may_be_wide_and_that_no_gate_judges(material) -> None:
    wide = with_gap(material, low=0, high=0.9, value=0.12, gates=BOUND)
    found = answer_of(wide)
    assert (found.outcome, found.reasons[-1].code) == ("release", "gap-may-be-wide")
    assert found.reasons[-1].text.endswith("it may be as wide as 0.9")
    assert found.reasons[-1].text in verdict_parts(wide).release
    for one in (
        with_gap(material, low=0, high=0.1, value=0.05, gates=BOUND),
        with_gap(material, low=0, high=0.9, value=0.12, gates=PASSED),
        {**wide, "answer": {"gap_size": 0.1}},
    ):
        assert [reason.code for reason in answer_of(one).reasons] == ["gates-passed"]


def test_a_gate_at_a_bound_that_protects_hardly_anyone_decides_nothing(released) -> None:
    report = released
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
