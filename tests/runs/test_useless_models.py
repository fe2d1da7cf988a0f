"""Models that learnt nothing, and noise that drowns the signal, are reported as such."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedaudit.privacy.planning.cost_projection import DROWNED, drowning_words, noise_ratio
from fedaudit.reports.page.html import render
from fedaudit.reports.report import gate_checks
from fedaudit.reports.verdict.verdict import concerns_of, judged
from fedaudit.spec.parse import parse_spec
from tests.runs.tables import FEATURES, central, laplace, local, write_table
from tests.training.specs import ran, table_spec

GATES = [
    {"figure": "equalized_odds_difference", "op": "le", "value": 0.1},
    {"figure": "accuracy", "op": "ge", "value": 0.85},
    {"figure": "participations_max", "op": "le", "value": 1000},
    {"figure": "prediction_share", "op": "le", "value": 0.95},
]


def table(path: Path, *, base_rate: float, informative: bool, ranked: bool = False) -> None:
    """Sixty clients of 40 people in two groups; group a has fewer of the frequent outcome.

    `ranked`: how likely the outcome is follows from x, and is seldom above one half.
    """
    random = np.random.default_rng(4)
    lines = ["town,sex,x,z,passed"]
    for row in range(60 * 40):
        is_a, (x, z) = random.random() < 0.3, random.normal(size=2)
        passed = random.random() < base_rate + (0.05, -0.05)[is_a]
        if ranked:
            passed = random.random() < 1 / (1 + np.exp(3.3 - 1.2 * x))
        if informative:
            passed = x + 0.3 * z > 0
        lines.append(f"t{row // 40},{'ba'[is_a]},{x:.4f},{z:.4f},{('no', 'yes')[int(passed)]}")
    path.write_text("\n".join(lines))


def report_of(
    folder: Path,
    *,
    base_rate: float = 0.9,
    informative: bool = False,
    ranked: bool = False,
    leak_reviewed: list[str] | None = None,
    **changes: Any,
):
    table(folder / "people.csv", base_rate=base_rate, informative=informative, ranked=ranked)
    spec = table_spec(
        "people.csv",
        ["x", "z"],
        federation__validation_fraction=0.5,
        federation__leak_reviewed=leak_reviewed or [],
        seed=3,
        **{"fairness": {"sensitive": ["sex"], "intervals": {"samples": 200}}, "gates": GATES},
    )
    return ran({**spec, **changes}, folder).report


def training_of(**changes: Any) -> dict[str, Any]:
    """Of the spec, with changes."""
    return {**table_spec("people.csv", [])["training"], **changes}


def outcomes(report) -> dict[str, str]:
    return {gate["figure"]: gate["outcome"] for gate in report["gates"]}


def test_a_model_that_predicts_the_frequent_outcome_for_everybody_passes_nothing(tmp_path):
    allowed = [{**gate, "allow_degenerate": True} for gate in GATES[:2]]
    report = report_of(tmp_path, gates=GATES + allowed)
    utility = report["utility"]
    assert utility["prediction_share"] > 0.99
    assert utility["accuracy"] == pytest.approx(utility["baseline_accuracy"], abs=0.005)
    assert utility["degenerate"] is True
    gates = [gate["outcome"] for gate in report["gates"]]
    assert gates[:2] == ["insufficient_evidence"] * 2
    assert gates[2:4] == ["pass", "fail"]
    assert gates[4:] == ["pass", "pass"], "a policy may say that it takes such a model"
    parts = report["verdict_parts"]
    assert parts["release"].startswith("No: the model is degenerate, it decides nothing: one outc")
    assert parts["fairness"].startswith("The model decides nothing, so these gaps say nothing")
    assert parts["next"].startswith("The steps are too short, the loss was still falling")
    # The gates follow from the figures, and no longer where the report calls the model useful.
    spec = parse_spec(report["spec"])
    assert next(gate_checks(spec.gates, report)).outcome == "pass"
    report["utility"]["degenerate"] = False
    assert next(gate_checks(spec.gates, report)).outcome == "fail"


def test_a_model_that_learnt_is_not_called_useless(tmp_path):
    report = report_of(tmp_path, informative=True)
    utility = report["utility"]
    assert (utility["degenerate"], utility["improved"]) == (False, True)
    assert utility["accuracy_over_baseline_interval"]["low"] > 0.3
    assert set(outcomes(report).values()) == {"pass"}
    assert "no privacy guarantee" in report["verdict_parts"]["release"]


def test_a_model_that_predicts_too_well_is_signed_off_only_after_an_answer(tmp_path):
    """`x + 0.3 z > 0` is the outcome in other words, for a model that is trained long enough."""
    training = training_of(rounds=60, cohort={"clients": 30}, local={"step_size": 50})
    noise = {"mechanism": "discrete-laplace", "epsilon": 2.94, "unit": "record"}
    for fairness in ({"sensitive": ["sex"]}, {"sensitive": ["sex"], "noise": noise}):
        asked = {"informative": True, "training": training, "fairness": fairness}
        report = report_of(tmp_path, **asked)
        assert report["utility"]["too_good"] is True
        assert "suspiciously well" in report["verdict_parts"]["release"]
        assert "leak_reviewed" in report["verdict_parts"]["next"]
        assert "model-too-good" in concerns_of(report)
    reviewed = report_of(tmp_path, **asked, leak_reviewed=["x", "z"])
    assert "The spec says by `leak_reviewed` that x, z were checked for" in reviewed["verdict"]
    assert reviewed["utility"]["too_good"] is False
    assert "suspiciously" not in reviewed["verdict"]
    some = report_of(tmp_path, **asked, leak_reviewed=["x"])
    assert some["utility"]["too_good"] is True


@pytest.mark.parametrize("hypotheses", [1, 2])
def test_a_rare_outcome_that_is_ranked_needs_another_threshold(tmp_path, hypotheses):
    training = training_of(hypotheses=hypotheses, local={"step_size": 1.0, "epochs": 3})
    gates = [
        {"figure": "auc", "op": "ge", "value": 0.6},
        {"figure": "balanced_accuracy", "op": "ge", "value": 0.6},
        {"figure": "recall", "op": "ge", "value": 0.5},
    ]
    asked = {"ranked": True, "training": training, "gates": gates}
    report = report_of(tmp_path, **asked)
    utility, parts = report["utility"], report["verdict_parts"]
    assert utility["degenerate"] is True
    assert utility["auc_interval"]["low"] > 0.6
    assert list(outcomes(report).values()) == ["pass", "fail", "insufficient_evidence"]
    assert parts["release"].startswith(
        "No: at the threshold 0.5 the model gives nearly everyone the same answer, although it "
        f"ranks people better than chance (AUC {utility['auc']:.3g}, "
    )
    rate = f"{utility['base_rate']:.2g}"
    assert parts["next"].startswith(
        "Declare another threshold (decision.threshold), such as the share in which passed = yes is"
    )
    # Neither the gates nor advice after them say that training is at fault.
    assert report["gates"][2]["reason"] == utility["reasons"]["degenerate"]
    assert "balanced_accuracy has to be" not in parts["next"]
    # No number of the people who were held out is proposed: they would judge it.
    assert rate not in parts["next"]
    assert report["advice"]["changes"] == []
    page = render(report)
    assert "This model needs another threshold" in page
    assert "decides nothing" not in page.replace("allow_degenerate", "")

    # Noise may make a loss a little larger than a constant's: a threshold is missing all the same.
    for high, threshold, advised in ((0.001, 0.5, True), (0.001, 0.1, False), (-0.001, 0.5, False)):
        interval = {**utility["loss_under_baseline_interval"], "low": -0.003, "high": high}
        utility |= {"loss_under_baseline": -0.002, "loss_under_baseline_interval": interval}
        utility |= {"threshold": threshold}
        assert judged(report)["advice"]["text"].startswith("Declare another") is advised

    declared = report_of(tmp_path, **asked, decision={"threshold": float(rate)})
    found = declared["utility"]
    for name in ("auc", "auc_interval", "brier", "validation_loss"):
        assert found[name] == utility[name]
    assert found["threshold"] == float(rate)
    assert found["accuracy"] < found["baseline_accuracy"]
    assert found["weighted_accuracy_over_baseline"] > 0.2
    assert found["degenerate"] is False
    assert set(outcomes(declared).values()) == {"pass"}
    assert f"at the threshold {rate}" in declared["verdict_parts"]["release"]


def test_noise_that_drowned_everything_is_said_to(tmp_path):
    report = report_of(tmp_path, informative=True, privacy=local(20_000.0, 1.0))
    utility = report["utility"]
    # Of forty random planes the best on these rows is right more often than a constant, by luck.
    assert utility["accuracy_over_baseline"] > 0
    assert utility["degenerate"] is None
    assert "by loss the model is no better" in utility["reasons"]["degenerate"]
    assert outcomes(report)["accuracy"] == "insufficient_evidence"
    assert utility["improved"] is False
    assert "times as long as all updates together" in report["verdict_parts"]["next"]


def test_counts_with_noise_decide_by_their_intervals_or_not_at_all(tmp_path):
    gates = [
        {"figure": "accuracy_over_baseline", "op": "ge", "value": 0.3},
        {"figure": "prediction_share", "op": "le", "value": 0.95},
        {"figure": "loss_under_baseline", "op": "ge", "value": 0.1},
    ]
    fairness: dict[str, Any] = {
        "sensitive": ["sex"],
        "noise": {"mechanism": "discrete-laplace", "epsilon": 2.94, "unit": "record"},
    }
    open_ = "insufficient_evidence"
    useless = report_of(tmp_path, fairness=fairness, gates=GATES[:1])
    assert useless["utility"]["degenerate"] is True
    assert useless["utility"]["baseline_accuracy"] is None
    assert outcomes(useless) == {"equalized_odds_difference": open_}
    sure = report_of(tmp_path, fairness=fairness, informative=True, gates=gates)
    assert list(outcomes(sure).values()) == ["pass", "pass", open_]
    assert sure["utility"]["degenerate"] is False
    for name in ("accuracy_over_baseline", "prediction_share"):
        interval = sure["utility"][f"{name}_interval"]
        assert interval["low"] < sure["utility"][name] < interval["high"]
    # Of scores nothing has noise, so nothing is shown; of decisions, what follows from the counts.
    hidden = ("auc", "auc_interval", "brier", "expected_calibration_error", "base_rate")
    for name in (*hidden, "weighted_accuracy_over_baseline", "ranks_above_chance"):
        assert sure["utility"][name] is None
        assert "fairness.noise protects" in sure["utility"]["reasons"][name]
    assert all(group["auc"] is None for group in sure["fairness"][0]["groups"])
    for name in ("balanced_accuracy", "precision", "recall"):
        assert 0.8 < sure["utility"][name] <= 1
        assert "from counts with noise" in sure["utility"]["reasons"][name]
    decided = [{"figure": name, "op": "ge", "value": 0.1} for name in ("auc", "recall")]
    low = {"threshold": 0.3}
    blurred = report_of(tmp_path, fairness=fairness, informative=True, gates=decided, decision=low)
    assert set(outcomes(blurred).values()) == {open_}
    assert blurred["utility"]["degenerate"] is None
    assert next(gate_checks(parse_spec(sure["spec"]).gates, sure)).outcome == "pass"
    narrow = {**fairness, "intervals": {"level": 0.1}}
    unsure = report_of(tmp_path, fairness=narrow, informative=True, gates=gates)
    assert set(outcomes(unsure).values()) == {open_}
    unsure["gates"][0]["outcome"] = "pass"
    assert next(gate_checks(parse_spec(unsure["spec"]).gates, unsure)).outcome == "fail"
    # Noise as large as the gain, or no intervals at all: nothing is decided.
    fairness["noise"]["epsilon"] = 0.01
    drowned = report_of(tmp_path, fairness=fairness, informative=True, gates=gates)
    assert outcomes(drowned)["accuracy_over_baseline"] == open_
    assert drowned["utility"]["degenerate"] is not False
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
    # Rows with the outcome are few and count for more: each moves this figure further.
    for threshold in (0.1, 0.15, 0.2):
        decision = {"threshold": threshold}
        asked = {"informative": True, "fairness": fairness, "decision": decision}
        steps = report_of(tmp_path, **asked)["utility"]["weighted_accuracy_over_baseline"] / 0.01
        assert steps == pytest.approx(round(steps), abs=1e-9)


SIZES = (len(FEATURES) + 1,)


def spec(privacy: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """30 of 42 training clients a round."""
    return table_spec(
        "people.csv",
        FEATURES,
        privacy=privacy,
        training__rounds=60,
        training__cohort={"clients": 30},
        training__local={"step_size": 0.3},
        **changes,
    )


def test_a_run_that_is_warned_of_learns_nothing_and_one_that_is_not_learns(tmp_path: Path) -> None:
    write_table(tmp_path / "people.csv", largest=20)
    beats_the_baseline = {}
    for noise_multiplier in (4.0, 60.0):
        asked = spec(central(noise_multiplier, 0.3))
        words = drowning_words(parse_spec(asked), sizes=SIZES, training_clients=42, rows=20)
        utility = ran(asked, tmp_path).report["utility"]
        improved = utility["validation_loss"] < utility["baseline_loss"]
        beats_the_baseline[words is not None] = improved
    assert beats_the_baseline == {False: True, True: False}


@pytest.mark.parametrize(
    ("privacy", "ratio"),
    [
        ({"mechanism": "none"}, 0),
        (laplace(3.0, radius=1.0), 0),
        (laplace(3.0), 3 * (10 / 9) ** 0.5 / 30**0.5),
        (laplace(3.0, radius=2.0, clip=0.5), 4 * 3 * (10 / 9) ** 0.5 / 30**0.5 * 0.5 / 0.12),
        (local(3.0, 9.0), 3 * 3 / 30**0.5 * 9 / 0.12),
        (central(20.0, 0.3), 20 * 3 / 30 * 0.3 / 0.12),
    ],
)
def test_the_ratio_follows_from_public_numbers(privacy, ratio):
    asked = parse_spec(spec(privacy))
    found = noise_ratio(asked, sizes=SIZES, training_clients=59, rows=10)
    # A step of 0.3 makes updates of about 0.12; 60 rounds add up.
    assert found == pytest.approx(ratio / 60**0.5)
    words = drowning_words(asked, sizes=SIZES, training_clients=59, rows=10)
    assert (words is not None) == (found >= DROWNED)


def test_fewer_clients_than_the_cohort_and_more_hypotheses_average_less() -> None:
    one, two = (parse_spec(spec(laplace(3.0), training__hypotheses=k)) for k in (1, 2))
    few = noise_ratio(one, sizes=SIZES, training_clients=15, rows=10)
    split = noise_ratio(two, sizes=SIZES, training_clients=59, rows=10)
    assert few == pytest.approx(split)
    assert few == pytest.approx(3 * (10 / 9) ** 0.5 / 15**0.5 / 60**0.5)
