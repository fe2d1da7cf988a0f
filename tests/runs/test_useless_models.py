"""Tables on which a model decides nothing, from file to verdict: no figure of theirs is praised."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedaudit.cli.run import run_locally
from fedaudit.reports.verification.report_checks import check_gates
from fedaudit.spec.parse import parse_spec

GATES = [
    {"figure": "equalized_odds_difference", "op": "le", "value": 0.1},
    {"figure": "accuracy", "op": "ge", "value": 0.85},
    {"figure": "participations_max", "op": "le", "value": 1000},
    {"figure": "prediction_share", "op": "le", "value": 0.95},
]


def table(path: Path, *, base_rate: float, informative: bool) -> None:
    """Sixty clients of 40 people in two groups; group a has fewer of the frequent outcome."""
    random = np.random.default_rng(4)
    lines = ["town,sex,x,z,passed"]
    for town in range(60):
        for _ in range(40):
            sex = "a" if random.random() < 0.3 else "b"
            x, z = random.normal(size=2)
            shift = -0.05 if sex == "a" else 0.05
            passed = random.random() < base_rate + shift
            if informative:
                passed = x + 0.3 * z > 0
            lines.append(f"t{town},{sex},{x:.4f},{z:.4f},{'yes' if passed else 'no'}")
    path.write_text("\n".join(lines))


def report_of(folder: Path, *, base_rate: float = 0.9, informative: bool = False, **changes: Any):
    table(folder / "people.csv", base_rate=base_rate, informative=informative)
    spec = {
        "name": "people",
        "seed": 3,
        "federation": {
            "source": "table",
            "path": "people.csv",
            "client_key": "town",
            "target": "passed",
            "positive": "yes",
            "features": ["x", "z"],
            "validation_fraction": 0.5,
        },
        "model": {"kind": "logistic"},
        "training": {
            "loss": "cross-entropy",
            "hypotheses": 1,
            "rounds": 40,
            "cohort": {"clients": 20},
            "local": {"step_size": 0.5},
        },
        "privacy": {"mechanism": "none"},
        "fairness": {"sensitive": ["sex"], "intervals": {"samples": 200}},
        "gates": GATES,
        **changes,
    }
    parsed = parse_spec(spec)
    return run_locally(parsed, sources_dir=folder, device="cpu", progress=lambda _: None).report


def outcomes(report) -> dict[str, str]:
    return {gate["figure"]: gate["outcome"] for gate in report["gates"]}


def test_a_model_that_predicts_the_frequent_outcome_for_everybody_passes_nothing(tmp_path):
    report = report_of(tmp_path)
    utility = report["utility"]
    assert utility["prediction_share"] > 0.99
    assert utility["accuracy"] == pytest.approx(utility["baseline_accuracy"], abs=0.005)
    assert utility["degenerate"] is True
    assert outcomes(report) == {
        "equalized_odds_difference": "insufficient_evidence",
        "accuracy": "insufficient_evidence",
        "participations_max": "pass",
        "prediction_share": "fail",
    }
    parts = report["verdict_parts"]
    assert parts["release"].startswith(
        "No: the model is degenerate, it decides nothing: one outcome"
    )
    assert parts["fairness"].startswith("The model decides nothing, so these gaps say nothing")
    assert parts["next"].startswith("Train a model that predicts something first")
    by_group = {one["value"]: one for one in report["fairness"][0]["groups"]}
    assert by_group["a"]["baseline_accuracy"] < by_group["b"]["baseline_accuracy"]
    for one in by_group.values():
        assert one["accuracy_over_baseline"] == pytest.approx(0, abs=0.01)
        assert one["accuracy_over_baseline_interval"] is not None
    # The gates follow from the figures, and no longer where the report calls the model useful.
    spec = parse_spec(report["spec"])
    assert check_gates(spec, report).outcome == "pass"
    report["utility"]["degenerate"] = False
    assert check_gates(spec, report).outcome == "fail"


def test_only_a_policy_that_says_so_takes_a_degenerate_model(tmp_path):
    allowed = [{**gate, "allow_degenerate": True} for gate in GATES[:2]]
    report = report_of(tmp_path, gates=allowed)
    assert set(outcomes(report).values()) == {"pass"}
    # The answer is still no.
    assert report["verdict_parts"]["release"].startswith("No: the model is degenerate")


def test_a_model_that_learnt_is_not_called_useless(tmp_path):
    report = report_of(tmp_path, informative=True)
    utility = report["utility"]
    assert utility["degenerate"] is False
    assert utility["improved"] is True
    assert utility["accuracy_over_baseline_interval"]["low"] > 0.3
    assert set(outcomes(report).values()) == {"pass"}
    assert "no privacy guarantee" in report["verdict_parts"]["release"]


def test_noise_that_drowned_everything_is_said_to(tmp_path):
    privacy = {
        "mechanism": "gaussian-local",
        "noise_multiplier": 20000.0,
        "clip": 1.0,
        "delta": 1e-5,
    }
    report = report_of(tmp_path, informative=True, privacy=privacy)
    utility = report["utility"]
    # Of forty random planes the best on these rows is right more often than a constant, by luck.
    assert utility["accuracy_over_baseline"] > 0
    assert utility["degenerate"] is None
    assert "in loss_under_baseline the model is no better" in utility["reasons"]["degenerate"]
    assert outcomes(report)["accuracy"] == "insufficient_evidence"
    assert utility["improved"] is False
    assert "noise drowned what there was to learn" in report["verdict_parts"]["release"]
    assert "a larger cohort" in report["verdict_parts"]["next"]


def test_counts_with_noise_tell_it_too(tmp_path):
    fairness = {
        "sensitive": ["sex"],
        "noise": {"mechanism": "discrete-laplace", "epsilon": 5.0, "unit": "record"},
    }
    useless = report_of(tmp_path, fairness=fairness, gates=GATES[:1])
    assert useless["utility"]["degenerate"] is True
    assert useless["utility"]["baseline_accuracy"] is None
    assert outcomes(useless) == {"equalized_odds_difference": "insufficient_evidence"}
    useful = report_of(tmp_path, fairness=fairness, informative=True, gates=GATES[:1])
    assert useful["utility"]["degenerate"] is False
    # Noise as large as the gain leaves it open.
    fairness["noise"]["epsilon"] = 0.01
    hidden = report_of(tmp_path, fairness=fairness, informative=True, gates=GATES[:1])
    assert hidden["utility"]["degenerate"] is not False


def test_counts_with_noise_decide_by_their_intervals_or_not_at_all(tmp_path):
    gates = [
        {"figure": "accuracy_over_baseline", "op": "ge", "value": 0.3},
        {"figure": "prediction_share", "op": "le", "value": 0.95},
        {"figure": "loss_under_baseline", "op": "ge", "value": 0.1},
    ]
    fairness: dict[str, Any] = {
        "sensitive": ["sex"],
        "noise": {"mechanism": "discrete-laplace", "epsilon": 5.0, "unit": "record"},
    }
    open_ = "insufficient_evidence"
    sure = report_of(tmp_path, fairness=fairness, informative=True, gates=gates)
    assert list(outcomes(sure).values()) == ["pass", "pass", open_]
    for name in ("accuracy_over_baseline", "prediction_share"):
        interval = sure["utility"][f"{name}_interval"]
        assert interval["low"] < sure["utility"][name] < interval["high"]
    # A report made before such intervals decided is verified by the rules of its time.
    spec = parse_spec(sure["spec"])
    assert check_gates(spec, sure).outcome == "pass"
    narrow = {**fairness, "intervals": {"level": 0.1}}
    earlier = report_of(tmp_path, fairness=narrow, informative=True, gates=gates)
    assert set(outcomes(earlier).values()) == {open_}
    spec = parse_spec(earlier["spec"])
    assert check_gates(spec, earlier).outcome == "pass"
    del earlier["utility"]["prediction_share_interval"]
    assert check_gates(spec, earlier).outcome == "fail"
    for gate in earlier["gates"][:2]:
        gate["outcome"] = "pass"
    assert check_gates(spec, earlier).outcome == "pass"
    # Noise as large as the gain, or no intervals at all: nothing is decided.
    fairness["noise"]["epsilon"] = 0.01
    drowned = report_of(tmp_path, fairness=fairness, informative=True, gates=gates)
    assert outcomes(drowned)["accuracy_over_baseline"] == open_
    without = {**fairness, "intervals": None}
    blind = report_of(tmp_path, fairness=without, informative=True, gates=gates)
    assert set(outcomes(blind).values()) == {open_}


def test_rounded_counts_leave_shares_in_steps(tmp_path):
    fairness = {"sensitive": ["sex"], "rounding": {"base": 5}}
    utility = report_of(tmp_path, informative=True, fairness=fairness)["utility"]
    for name in ("baseline_accuracy", "prediction_share", "outcome_share"):
        steps = utility[name] / 0.005  # 1,200 rows are held out
        assert steps == pytest.approx(round(steps), abs=1e-9)
    # A gain says no more than the two figures that it lies between.
    for gain, own, baseline, sign in (
        ("accuracy_over_baseline", "accuracy", "baseline_accuracy", 1),
        ("loss_under_baseline", "validation_loss", "baseline_loss", -1),
    ):
        assert utility[gain] == pytest.approx(sign * (utility[own] - utility[baseline]), abs=1e-9)
    assert utility["degenerate"] is False
