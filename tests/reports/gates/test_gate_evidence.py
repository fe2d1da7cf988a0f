"""A figure is evidence only as far as its guarantee is proven, and in force."""

from typing import Any

import pytest

from fedaudit.reports.gates.gate_evaluation import evaluate
from fedaudit.reports.report import assemble
from fedaudit.spec.gates import Gate

NO_EVIDENCE = "insufficient_evidence"


def laplace(*, hypotheses: int = 1, **privacy: Any) -> dict[str, Any]:
    return {
        "training": {
            "loss": "rmse",
            "hypotheses": hypotheses,
            "rounds": 50,
            "cohort": {"clients": 7},
        },
        "privacy": {
            "mechanism": "laplace-l2",
            "noise_multiplier": 5,
            "noise": "release",
            **privacy,
        },
    }


def judged(report: dict[str, Any], **gate: Any) -> tuple[str, str]:
    [found] = evaluate([Gate(**{"op": "le", "value": 1e300, **gate})], report)
    return found["outcome"], found["reason"]


def test_the_same_noise_cannot_be_given_a_smaller_figure(material):
    """Noise depends on nu * r alone: with nu a million times larger and r as much smaller, n/nu is
    a millionth, and the theorem's sum the same."""
    honest = assemble(material(laplace(radius=0.5, clip=0.25, noise_multiplier=1)))
    renamed = assemble(
        material(laplace(radius=0.5 / 2**20, clip=0.25, noise_multiplier=float(2**20)))
    )
    assert renamed["privacy"]["leakage_max"] * 2**20 == honest["privacy"]["leakage_max"]
    assert renamed["privacy"]["log_ratio_max"] == honest["privacy"]["log_ratio_max"]
    gate = {"figure": "leakage_max", "value": 150}
    assert judged(honest, **gate)[0] == "pass"
    outcome, reason = judged(renamed, **gate)
    assert outcome == NO_EVIDENCE
    assert "n/nu holds within the radius of 4.76837e-07" in reason
    bound = honest["privacy"]["log_ratio_max"]
    for report in (honest, renamed):
        assert judged(report, figure="log_ratio_max", value=bound)[0] == "pass"
        assert judged(report, figure="log_ratio_max", value=bound / 2)[0] == "fail"


@pytest.mark.parametrize(
    ("privacy", "label", "is_evidence"),
    [
        ({"radius": 1e-9}, "formal within the radius", False),
        ({"radius": 1e-9, "clip": 10}, "formal", False),
        ({"radius": 1.0, "clip": 0.5000001}, "formal", False),
        ({"radius": 1.0, "clip": 0.5}, "formal", True),
        ({"radius": 1.0, "clip": 0.25}, "formal", True),
    ],
)
def test_leakage_is_evidence_only_where_the_clip_keeps_uploads_within_the_radius(
    material, privacy, label, is_evidence
):
    report = assemble(material(laplace(**privacy)))
    assert report["guarantee"]["label"] == label
    for figure in ("leakage_max", "leakage_median"):
        assert judged(report, figure=figure)[0] == ("pass" if is_evidence else NO_EVIDENCE)
        assert judged(report, figure=figure, allow_conditional=True)[0] == "pass"
        assert (figure in report["guarantee"]["conditions"]) != is_evidence
    assert judged(report, figure="log_ratio_max")[0] == (
        "pass" if "clip" in privacy else NO_EVIDENCE
    )


def test_with_several_hypotheses_a_bound_is_one_on_datasets_that_choose_alike(material):
    report = assemble(material(laplace(hypotheses=2, radius=1.0, clip=0.5)))
    for figure in ("leakage_max", "log_ratio_max"):
        outcome, reason = judged(report, figure=figure)
        assert outcome == NO_EVIDENCE
        assert "choose the same hypothesis" in reason
        assert judged(report, figure=figure, allow_conditional=True)[0] == "pass"


def test_simulated_noise_is_no_evidence_whatever_else_a_gate_allows(material):
    report = assemble(material(laplace(radius=1.0, clip=0.5, noise="simulation")))
    assert report["guarantee"]["kind"] == "formal"
    assert report["guarantee"]["in_force"] is False
    outcome, reason = judged(report, figure="leakage_max", allow_conditional=True)
    assert outcome == NO_EVIDENCE
    assert "noise: release" in reason
    heuristic = assemble(material(laplace(noise="simulation")))
    assert judged(heuristic, figure="leakage_max", allow_heuristic=True)[0] == NO_EVIDENCE
    assert judged(report, figure="leakage_max", allow_simulation=True)[0] == "pass"
    assert judged(report, figure="validation_loss")[0] == "pass"


def test_a_report_cannot_state_itself_into_force(material):
    report = assemble(material(laplace(radius=1.0, clip=0.5, noise="simulation")))
    report["guarantee"]["in_force"] = True
    assert judged(report, figure="leakage_max")[0] == NO_EVIDENCE


def test_the_report_says_what_simulated_noise_leaves_unprotected(material):
    report = assemble(material(laplace(radius=1.0, clip=0.5, noise="simulation")))
    assert "neither is this report" in report["verdict"]
    assert "This guarantee is not in force" in report["guarantee"]["statement"]
    assert any("This report is itself unprotected" in one for one in report["limits"])
    secret = assemble(material(laplace(radius=1.0, clip=0.5)))
    assert "not in force" not in secret["verdict"] + secret["guarantee"]["statement"]
