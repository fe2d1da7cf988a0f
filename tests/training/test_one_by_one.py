"""Clients computed one after the other."""

from typing import Any

import numpy as np
import pytest
import torch

from fedaudit.federations.federation import Federation
from fedaudit.training.base.rounds import FinalResult
from fedaudit.training.stack import Stack
from tests.training.bits import assert_repeats
from tests.training.federations import (
    RULE,
    TABLE,
    image_cell,
    image_federation,
    one_by_one,
    random_federation,
    table_cell,
    threads,
)
from tests.training.gaussian import ALONE, COINS, MECHANISMS, MOVING, REPORTED, SERVER, state
from tests.training.round_records import RoundRecord
from tests.training.specs import play, train


def classifying(**changes: Any) -> dict[str, Any]:
    """Changes for a logistic model of three classes, with noise and two groups."""
    return {
        "federation": {**TABLE},
        "model": {"kind": "logistic"},
        "training__loss": "cross-entropy",
        "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 1.0},
        "fairness": {"sensitive": ["group"], "favourable": {"op": "in", "value": ["class-0"]}},
        **changes,
    }


DEEP = {"kind": "mlp", "hidden": [64, 32, 16]}
NAMED = {
    "kind": "layers",
    "layers": [
        {"kind": "dense", "units": 12},
        {"kind": "tanh"},
        {"kind": "dense", "units": 6},
        {"kind": "gelu"},
    ],
}


def scored(fraction: float) -> dict[str, Any]:
    return {**TABLE, "scoring": {"method": "split", "fraction": fraction}}


VARIANTS: dict[str, dict[str, Any]] = {
    "logistic": {},
    "deep": {"model": DEEP},
    "named layers": {"model": NAMED},
    "no intercept": {"model": {"kind": "mlp", "hidden": [4], "intercept": False}},
    "rmse": {"training__loss": "rmse"},
    "batches": {"training__local": {"epochs": 3, "batch_size": 3, "step_size": 0.1}},
    "steps": {"training__local": {"steps": 8, "batch_size": 2, "step_size": 0.1}},
    "whole data": {"training__local": {"steps": 3, "batch_size": 50, "step_size": 0.1}},
    "clipped": {"privacy__clip": 0.05, "privacy__radius": 0.1},
    "layers": {"model": DEEP, "privacy__per_layer": True},
    "clipped layers": {
        "model": DEEP,
        "privacy": {
            "mechanism": "laplace-l2",
            "noise_multiplier": 0.1,
            "per_layer": True,
            "clip": 0.05,
        },
    },
    "no noise": {"privacy": {"mechanism": "none"}},
    "reported": {"training__clustering": {"method": "reported"}},
    "one hypothesis": {"training__hypotheses": 1},
    "scored rows": {"federation": scored(0.4)},
    "sampled validation": {"training__stopping": {"validation_clients": 5, "validate_every": 3}},
    "budget": {"privacy__client_budget": 40.0},
    "noise of clients": ALONE,
    "noise of a server": SERVER,
    "moving clip": {"privacy": MOVING, **REPORTED},
    "coins": {"privacy": MOVING, "training__cohort": COINS, **REPORTED},
    "adam": MECHANISMS["adam"],
    "server momentum": MECHANISMS["server-momentum"],
}


def assert_alike(one: RoundRecord, other: RoundRecord) -> None:
    """The same decisions; figures agree up to rounding."""
    for name in ("subjects", "outcomes", "releases", "chosen", "clusters"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in ("selection_loss", "validation_loss", "accuracy", "separation"):
        found, expected = getattr(one, name), getattr(other, name)
        assert (found is None) == (expected is None), name
        assert found is None or found == pytest.approx(expected, rel=1e-3), name
    np.testing.assert_allclose(one.radii, other.radii, rtol=1e-3)
    assert one.cluster_sizes == other.cluster_sizes
    for name, counts in one.fairness.items():
        assert np.array_equal(counts, other.fairness[name])


def assert_alike_at_the_end(result: FinalResult, expected: FinalResult) -> None:
    """The same models and rows; losses agree up to rounding."""
    np.testing.assert_allclose(result.hypotheses, expected.hypotheses, rtol=1e-3, atol=1e-4)
    assert result.validation_loss == pytest.approx(expected.validation_loss, rel=1e-3)
    assert (result.accuracy is None) == (expected.accuracy is None)
    assert result.accuracy is None or result.accuracy == pytest.approx(expected.accuracy)
    assert result.single_row_clients == expected.single_row_clients
    assert np.array_equal(result.fairness["group"], expected.fairness["group"])
    scores, others = result.scores["group"], expected.scores["group"]
    assert np.array_equal(scores.rows, others.rows)
    assert np.array_equal(scores.correct, others.correct)
    np.testing.assert_allclose(scores.loss, others.loss, rtol=1e-3)
    assert np.array_equal(result.predicted["group"].truth, expected.predicted["group"].truth)


def assert_engines_agree(data: Federation, **changes: Any) -> None:
    """Clients one after the other, and as they are computed otherwise."""
    results = []
    for form in (data, one_by_one(data)):
        stack = Stack([table_cell(form, **{"training__rounds": 4, **changes})])
        results.append((play(stack), stack.result(0), stack.releases(0)))
    (one, result, releases), (other, expected, charged) = results
    for pair in zip(one, other, strict=True):
        assert_alike(*pair)
    assert_alike_at_the_end(result, expected)
    assert np.array_equal(releases, charged)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_the_algorithm_is_that_of_clients_side_by_side(changes: dict[str, Any]) -> None:
    data = random_federation(clients=24, classes=3)
    assert_engines_agree(data, **classifying(**changes))


def test_numbers_are_predicted_as_well_as_classes() -> None:
    local = {"step_size": 0.01}
    data = random_federation(clients=24)
    assert_engines_agree(data, model=DEEP, fairness=RULE, training__local=local)


CONVOLUTIONS = {
    "kind": "layers",
    "input": [28, 28, 1],
    "layers": [
        {"kind": "convolution", "filters": 4, "size": 5, "stride": 2},
        {"kind": "relu"},
        {"kind": "average-pooling", "size": 2},
        {"kind": "flatten"},
        {"kind": "dense", "units": 16},
        {"kind": "tanh"},
    ],
}


@pytest.mark.parametrize("model", [{"kind": "cnn-femnist"}, CONVOLUTIONS], ids=["cnn", "layers"])
def test_images_are_learned(model: dict[str, Any]) -> None:
    cell = image_cell(
        image_federation(clients=16, max_rows=14),
        model=model,
        training__rounds=3 if model["kind"] == "cnn-femnist" else 20,
        training__cohort={"clients": 5},
        training__local={"epochs": 3, "batch_size": 4, "step_size": 0.1},
        privacy__noise_multiplier=0.1,
    )
    last = train(cell)[0][-1]
    assert (last.accuracy or 0.0) > 0.9
    assert last.fairness["group"].sum() == len(cell.validation_rows.place)


# -- the same bits -------------------------------------------------------------------------------

IMAGES = image_federation(clients=9, max_rows=6)


@pytest.mark.parametrize("name", ["laplace", "coins"])
def test_threads_cuts_and_interruptions_do_not_matter(name: str) -> None:
    cohort = {"sampling": "poisson", "rate": 0.5}
    own = {"coins": {"training__cohort": cohort, "model": CONVOLUTIONS}}
    assert_repeats(image_cell(IMAGES, **{**MECHANISMS[name], **own.get(name, {})}))


def test_an_error_leaves_the_threads_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack([image_cell(IMAGES)])
    monkeypatch.setattr(stack._engine, "_server", None)
    with threads(2):
        with pytest.raises(TypeError):
            stack.advance(1)
        assert torch.get_num_threads() == 2


def test_a_cell_is_alone_in_its_stack() -> None:
    with pytest.raises(ValueError, match="one shape"):
        Stack([image_cell(IMAGES, seed=seed) for seed in range(2)])
    cell = image_cell(IMAGES)
    with pytest.raises(ValueError, match="stack of one"):
        Stack([cell, cell])


# -- what leaves the clients ---------------------------------------------------------------------


def test_a_checkpoint_holds_the_best_hypotheses_once_while_they_are_the_present_ones() -> None:
    few = {"minimum_group_size": 1, "minimum_group_clients": 1}  # their losses choose the best
    stack = Stack([image_cell(IMAGES, training__hypotheses=1, fairness=few)])
    sizes = []
    for _ in range(4):
        stack.advance(1)
        found, size = state(stack), len(stack.checkpoint(0))
        best = found.best_round == found.round
        assert best == (found.best_hypotheses.tobytes() == found.hypotheses.tobytes())
        assert found.best_hypotheses is not found.hypotheses
        sizes.append((best, round(size / (4 * stack.n))))
    assert set(sizes) == {(True, 1), (False, 2)}
