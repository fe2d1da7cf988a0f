"""What a run in this process says of its hypotheses: between them, and in their plane."""

import numpy as np
import pytest

from fedaudit.cli.local_run import run_locally
from fedaudit.ledger.entries import Outcome
from fedaudit.reports.document.document import Report
from fedaudit.reports.page.html import render
from fedaudit.reports.sections.parameter_plot_section import rounds_to_draw
from fedaudit.spec.parse import parse_spec

PAPER = {
    "name": "section-5.1",
    "seed": 1,
    "federation": {
        "source": "synthetic-linear",
        "clients": 200,
        "rows_per_client": 10,
        "thetas": [[5, 6], [4, -4.5]],
        "validation_fraction": 0.5,
    },
    "model": {"kind": "linear", "intercept": False},
    "training": {
        "loss": "rmse",
        "hypotheses": 2,
        "rounds": 90,
        "cohort": {"clients": 7},
        "local": {"epochs": 1, "batch_size": 10, "step_size": 0.1},
        "clustering": {"method": "k-means", "empty_cluster": "keep"},
        "stopping": {"patience": None},
    },
    "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 5},
}


def run(spec):
    """The spec's run."""
    return run_locally(parse_spec(spec), sources_dir=None, device="cpu", progress=lambda _: None)


@pytest.fixture(scope="module")
def paper():
    """The paper's own task."""
    return run(PAPER)


def test_the_plane_is_that_of_figure_1(paper):
    plane, best = paper.report["plane"], paper.report["utility"]["best_round"]
    assert paper.report["plane_reason"] is None
    assert plane["truth"] == [[5, 6], [4, -4.5]]
    assert plane["parameters"] == ["weight of x1", "weight of x2"]
    assert plane["round"] == best
    (entry,) = [entry for entry in paper.ledger.entries if entry.round == best]
    assert plane["clusters"] == entry.clusters[entry.outcomes == Outcome.RELEASED].tolist()
    for cluster, hypothesis in enumerate(plane["hypotheses"]):
        own = [
            upload
            for upload, put in zip(plane["uploads"], plane["clusters"], strict=True)
            if put == cluster
        ]
        if own:
            np.testing.assert_allclose(np.mean(own, axis=0), hypothesis, rtol=1e-5)


def test_the_path_leads_from_the_start_to_the_best_round(paper):
    plane = paper.report["plane"]
    rounds = [point["round"] for point in plane["path"]]
    assert rounds[0] == 0
    assert rounds[1] == plane["first"]["round"] == 1
    assert rounds == sorted(set(rounds))
    assert rounds[-1] < plane["round"]
    assert len(rounds) <= 50
    assert plane["path"][1]["hypotheses"] == plane["first"]["hypotheses"]
    Report.model_validate(paper.report)


def test_the_page_draws_the_first_and_the_best_round(paper):
    text = render(paper.report, paper.series)
    best = paper.report["utility"]["best_round"]
    assert "Uploads and hypotheses in the plane, round 1<" in text
    assert f"Uploads and hypotheses in the plane, round {best}, the best<" in text
    assert "Largest leakage in each cluster, by round" in text
    assert "Between two hypotheses" in text


@pytest.mark.parametrize(
    ("validated", "best", "expected"),
    [
        ([1, 2, 3], 2, [1, 2]),
        ([5, 10, 12], 5, [5]),
        ([5, 10, 12], 7, []),
        ([], 0, []),
        (range(1, 50), 49, [*range(1, 50)]),
    ],
)
def test_which_rounds_are_drawn(validated, best, expected):
    assert rounds_to_draw(list(validated), best_round=best) == expected


def test_of_many_rounds_some_are_drawn_evenly():
    found = rounds_to_draw(list(range(1, 5001)), best_round=4000)
    assert len(found) == 50
    assert (found[0], found[-2], found[-1]) == (1, 3999, 4000)
    assert max(np.diff(found[:-1])) - min(np.diff(found[:-1])) <= 1


def test_best_round_first(paper):
    short = {**PAPER, "training": {**PAPER["training"], "rounds": 1}}
    plane = run(short).report["plane"]
    assert plane["first"] is None
    assert plane["reasons"] == {"first": "the best round is the first that was validated"}
    assert [point["round"] for point in plane["path"]] == [0]
    assert "plane, round 1, the best<" in render({**paper.report, "plane": plane})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model": {"kind": "linear", "intercept": True}}, "3 parameters"),
        ({"model": {"kind": "mlp", "hidden": [1], "intercept": False}}, "not the linear one"),
        (
            {
                "privacy": {
                    "mechanism": "gaussian-central",
                    "noise_multiplier": 4,
                    "clip": 1.0,
                    "delta": 1e-5,
                }
            },
            "no client's upload",
        ),
    ],
)
def test_where_nothing_can_be_drawn_there_is_a_reason(changes, why):
    training = {**PAPER["training"], "rounds": 2, "hypotheses": 1}
    report = run({**PAPER, "training": training, **changes}).report
    assert report["plane"] is None
    assert why in report["plane_reason"]


def test_exponents_are_those_of_the_best_rounds_radii(paper):
    best = paper.report["utility"]["best_round"]
    (entry,) = [entry for entry in paper.ledger.entries if entry.round == best]
    exact = 2 / (5 * entry.radii[entry.outcomes == Outcome.RELEASED])
    (pair,) = paper.report["privacy"]["between_hypotheses"]["pairs"]
    assert exact.max() <= pair["epsilon_max"] <= 1.1 * exact.max()
    assert np.median(exact) <= pair["epsilon_median"] <= 1.1 * np.median(exact)
    first, second = paper.report["plane"]["hypotheses"]
    assert pair["distance"] == pytest.approx(float(np.linalg.norm(np.subtract(first, second))))


@pytest.mark.parametrize("radius", ["adaptive", 0.5])
def test_layers_have_exponents_of_their_own(small_spec, radius):
    spec = {
        **small_spec,
        "model": {"kind": "mlp", "hidden": [2]},
        "privacy": {**small_spec["privacy"], "per_layer": True, "radius": radius},
    }
    (pair,) = run(spec).report["privacy"]["between_hypotheses"]["pairs"]
    assert pair["epsilon_max"] is None
    assert "each layer" in pair["reasons"]["epsilon_max"]
    assert 0 < pair["indistinguishability_median"] <= pair["indistinguishability"]
