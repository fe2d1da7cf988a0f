"""The warning of noise that drowns what is learnt, held against runs: one that drowns, one not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedaudit.cli.run import run_locally
from fedaudit.privacy.planning.cost_projection import DROWNED, drowning_words, noise_ratio
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec

FEATURES = [f"x{place}" for place in range(8)]
SIZES = (len(FEATURES) + 1,)


def table(path: Path) -> None:
    """84 clients of 10 rows, whose outcome four of eight features say a little about."""
    random = np.random.default_rng(4)
    weights = np.array([0.8, -0.6, 0.5, 0.4, 0, 0, 0, 0])
    lines = [",".join(["town", *FEATURES, "passed"])]
    for town in range(84):
        for _ in range(10):
            x = random.normal(size=8)
            passed = random.random() < 1 / (1 + np.exp(-x @ weights))
            lines.append(",".join([f"t{town}", *map(str, x.round(3)), "yes" if passed else "no"]))
    path.write_text("\n".join(lines))


def spec(privacy: dict[str, Any], *, hypotheses: int = 1) -> ExperimentSpec:
    """30 of 59 training clients a round."""
    return parse_spec(
        {
            "name": "drowned",
            "seed": 1,
            "federation": {
                "source": "table",
                "path": "people.csv",
                "client_key": "town",
                "target": "passed",
                "positive": "yes",
                "features": FEATURES,
            },
            "model": {"kind": "logistic"},
            "training": {
                "loss": "cross-entropy",
                "hypotheses": hypotheses,
                "rounds": 60,
                "cohort": {"clients": 30},
                "local": {"step_size": 0.3},
            },
            "privacy": privacy,
        }
    )


def central(noise_multiplier: float) -> dict[str, Any]:
    return {
        "mechanism": "gaussian-central",
        "noise_multiplier": noise_multiplier,
        "clip": 0.3,
        "delta": 1e-3,
    }


def test_a_run_that_is_warned_of_learns_nothing_and_one_that_is_not_learns(tmp_path: Path) -> None:
    table(tmp_path / "people.csv")
    beats_the_baseline = {}
    for noise_multiplier in (4.0, 30.0):
        asked = spec(central(noise_multiplier))
        warned = drowning_words(asked, sizes=SIZES, training_clients=59) is not None
        ran = run_locally(asked, sources_dir=tmp_path, device="cpu", progress=lambda _: None)
        utility = ran.report["utility"]
        beats_the_baseline[warned] = utility["validation_loss"] < utility["baseline_loss"]
    assert beats_the_baseline == {False: True, True: False}


@pytest.mark.parametrize(
    ("privacy", "ratio"),
    [
        ({"mechanism": "none"}, None),
        ({"mechanism": "laplace-l2", "noise_multiplier": 3.0, "radius": 1.0}, None),
        ({"mechanism": "laplace-l2", "noise_multiplier": 3.0}, 3 * (10 / 9) ** 0.5 / 30**0.5),
        (
            {"mechanism": "laplace-l2", "noise_multiplier": 3.0, "radius": 2.0, "clip": 0.5},
            4 * 3 * (10 / 9) ** 0.5 / 30**0.5,
        ),
        (
            {"mechanism": "gaussian-local", "noise_multiplier": 3.0, "clip": 9.0, "delta": 1e-5},
            3 * 3 / 30**0.5,
        ),
        (central(20.0), 20 * 3 / 30),
    ],
)
def test_the_ratio_follows_from_public_numbers(
    privacy: dict[str, Any], ratio: float | None
) -> None:
    asked = spec(privacy)
    found = noise_ratio(asked, sizes=SIZES, training_clients=59)
    assert found == (None if ratio is None else pytest.approx(ratio))
    words = drowning_words(asked, sizes=SIZES, training_clients=59)
    assert (words is not None) == (ratio is not None and ratio >= DROWNED)


def test_fewer_clients_than_the_cohort_and_more_hypotheses_average_less() -> None:
    private = {"mechanism": "laplace-l2", "noise_multiplier": 3.0}
    few = noise_ratio(spec(private), sizes=SIZES, training_clients=15)
    split = noise_ratio(spec(private, hypotheses=2), sizes=SIZES, training_clients=59)
    assert few == pytest.approx(split)
    assert few == pytest.approx(3 * (10 / 9) ** 0.5 / 15**0.5)
