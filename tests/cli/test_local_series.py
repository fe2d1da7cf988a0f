"""What a run in this process says of its rounds agrees with its report."""

import pytest

from fedaudit.cli.local_run import run_locally
from fedaudit.reports.page.html import render
from fedaudit.spec.parse import parse_spec


def run(spec):
    """The spec's run."""
    return run_locally(parse_spec(spec), sources_dir=None, device="cpu", progress=lambda _: None)


def test_the_last_round_has_spent_what_the_report_says(small_spec):
    done = run(small_spec)
    figures, privacy = done.series.figures, done.report["privacy"]
    assert done.series.rounds == tuple(range(1, 13))
    assert figures["leakage_max"][-1] == privacy["leakage_max"]
    assert figures["leakage_median"][-1] == privacy["leakage_median"]
    assert set(figures["epsilon_max"]) == {None}
    assert {cluster: values[-1] for cluster, values in done.series.cluster_leakage.items()} == {
        one["cluster"]: one["leakage_max"] for one in privacy["leakage_by_cluster"]
    }
    assert all(sum(sizes) for sizes in done.series.cluster_sizes)
    assert done.series.gaps["group"].rounds == done.series.rounds


def test_the_best_round_has_the_loss_of_the_report(small_spec):
    done = run({**small_spec, "fairness": {}, "gates": []})
    utility = done.report["utility"]
    place = done.series.rounds.index(utility["best_round"])
    assert done.series.figures["selection_loss"][place] == utility["selection_loss"]
    assert done.series.gaps == {}
    assert "Loss, by round" in render(done.report, done.series)


@pytest.mark.parametrize("mechanism", ["gaussian-central", "gaussian-local"])
def test_epsilon_is_counted_by_round(small_spec, mechanism):
    privacy = {"mechanism": mechanism, "noise_multiplier": 4, "clip": 1.0, "delta": 1e-5}
    training = {**small_spec["training"], "hypotheses": 1}
    done = run({**small_spec, "privacy": privacy, "training": training, "gates": []})
    spent = done.series.figures["epsilon_max"]
    assert spent[-1] == pytest.approx(done.report["privacy"]["epsilon_max"])
    assert list(spent) == sorted(spent)
    assert set(done.series.figures["leakage_max"]) == {None}
    assert done.series.cluster_leakage == {}
