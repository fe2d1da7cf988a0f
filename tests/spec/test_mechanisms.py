"""The mechanisms with an epsilon: what a spec may ask of them, and what it may not."""

from typing import Any

import pytest

from fedaudit.privacy.accounting.privacy_events import Gaussian, Rotated, event_from_dict
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec, spec_hash
from fedaudit.spec.parse import parse_admitted, parse_spec
from fedaudit.spec.privacy import GaussianCentral, RecordPersonalised
from fedaudit.training.base.cell import Cell
from tests.privacy.accounting.spending import spent
from tests.spec.documents import (
    BY_RECORD,
    IMAGES,
    POISSON,
    TABLE,
    assert_refused,
    changed,
    faults,
    gaussian,
)
from tests.training.federations import random_federation

CENTRAL = changed(TABLE, {"training.cohort": POISSON, "privacy": gaussian("central", 1.1)})
LOCAL = changed(TABLE, {"privacy": gaussian("local", 8)})
RECORDS = changed(
    TABLE, {"training.cohort": POISSON, "training.local": {"steps": 5}, "privacy": BY_RECORD}
)
FEW = changed(CENTRAL, {"training.cohort": {"clients": 10}})
SEVERAL = changed(CENTRAL, {"training.hypotheses": 3, "training.clustering.method": "reported"})
UNIFORM = changed(RECORDS, {"privacy.baseline": "uniform", "training.local.batch_size": 16})
COLUMN = changed(RECORDS, {"privacy.budgets": {"column": "age"}})
ALLOCATION = {"sampling": "allocation", "every": 5}
BLOCKS = changed(CENTRAL, {"training.cohort": ALLOCATION, "training.rounds": 20})
ROTATION = changed(
    BLOCKS,
    {
        "training.cohort": {"sampling": "rotation", "every": 5},
        "privacy.correlation": {"kind": "banded", "bands": 5},
    },
)
ADAPTIVE = {"initial": 2.0, "quantile": 0.5, "step_size": 0.2, "count_noise": 5}
MOVING = changed(CENTRAL, {"privacy.clip": {"adaptive": ADAPTIVE}})


def assert_stored(spec: ExperimentSpec) -> None:
    """What is kept of a spec is read to the same."""
    again = parse_admitted(spec.model_dump(mode="json"))
    assert again == spec
    assert spec_hash(again) == spec_hash(spec)


def test_a_stored_clip_that_is_too_small_is_read_and_not_trained() -> None:
    old = parse_spec(LOCAL).model_dump(mode="json")
    old["privacy"]["clip"] = 1e-42
    with pytest.raises(InvalidInputError, match="at least 1e-30"):
        Cell(parse_spec(old), random_federation())


def test_a_stored_run_in_rotation_is_read_and_accounted_for_and_not_trained() -> None:
    refused = {one.pointer: one.message for one in faults(ROTATION)}
    assert refused.keys() == {"/training/cohort/sampling", "/privacy/correlation"}
    assert "use {sampling: allocation, every: 5}" in refused["/training/cohort/sampling"]
    assert "leave it out" in refused["/privacy/correlation"]
    stored = parse_admitted(ROTATION)
    assert_stored(stored)
    plan = mechanism_of(stored).spending_plan(training_clients=18)
    assert plan is not None
    assert event_from_dict(plan.line("final_model").event.as_dict()) == Rotated(
        5, 5, Gaussian(stored.privacy.noise_multiplier)
    )
    alone = spent(Gaussian(stored.privacy.noise_multiplier), 4, delta=stored.privacy.delta)
    assert plan.largest("final_model", 20) == pytest.approx(alone)
    with pytest.raises(InvalidInputError, match="rotation is retired"):
        Cell(stored, random_federation())


def test_a_clip_moves_where_that_is_asked_for() -> None:
    moving, fixed = (parse_spec(one).privacy for one in (MOVING, CENTRAL))
    assert isinstance(moving, GaussianCentral)
    assert isinstance(fixed, GaussianCentral)
    assert moving.adaptive_clip is not None
    assert (moving.initial_clip, moving.adaptive_clip.quantile) == (2.0, 0.5)
    assert (fixed.initial_clip, fixed.adaptive_clip) == (1.0, None)


def test_the_rate_of_clients_is_filled_in_from_either_side() -> None:
    both = changed(RECORDS, {"privacy.client_rate": 0.1})
    under_privacy = changed(both, {"training.cohort": ...})
    specs = [parse_spec(document) for document in (RECORDS, both, under_privacy)]
    assert len({spec_hash(spec) for spec in specs}) == 1
    assert isinstance(specs[0].privacy, RecordPersonalised)
    assert specs[0].privacy.client_rate == 0.1
    assert RECORDS["privacy"].get("client_rate") is None  # what was sent is not changed


@pytest.mark.parametrize(
    ("document", "path", "value", "message"),
    [
        # Numbers out of their range.
        (CENTRAL, "privacy.noise_multiplier", 0, "`mechanism: none"),
        (CENTRAL, "privacy.noise_multiplier", 1e-9, "0.001"),
        (LOCAL, "privacy.noise_multiplier", 1e9, "1000000"),
        (BLOCKS, "privacy.noise_multiplier", ..., "is required"),
        (CENTRAL, "privacy.clip", 0, "greater than 0"),
        (CENTRAL, "privacy.clip", None, "must be a number"),
        (CENTRAL, "privacy.clip", 1e-42, "at least 1e-30"),
        (LOCAL, "privacy.clip", -1, "greater than 0"),
        (LOCAL, "privacy.clip", float("inf"), "finite"),
        (LOCAL, "privacy.clip", {"adaptive": ADAPTIVE}, "must be a number"),
        (LOCAL, "privacy.clip", ..., "is required"),
        (RECORDS, "privacy.clip", 0, "greater than 0"),
        (RECORDS, "privacy.clip", 1e-42, "at least 1e-30"),
        (MOVING, "privacy.clip.adaptive.initial", 1e-42, "at least 1e-30"),
        (MOVING, "privacy.clip.adaptive.count_noise", ..., "is required"),
        (MOVING, "privacy.clip.adaptive.count_noise", 0.55, "it must exceed 0.55"),
        (CENTRAL, "privacy.delta", 0, "greater than 0"),
        (CENTRAL, "privacy.delta", 1, "less than 1"),
        (RECORDS, "privacy.delta", float("nan"), "finite"),
        (RECORDS, "privacy.delta", ..., "is required"),
        (CENTRAL, "privacy.epsilon_budget", 0, "greater than 0"),
        (LOCAL, "privacy.epsilon_budget", float("inf"), "finite"),
        (RECORDS, "privacy.epsilon_max", 0, "greater than 0"),
        (RECORDS, "privacy.epsilon_min", 0, "greater than 0"),
        (RECORDS, "privacy.epsilon_min", 11, "exceed epsilon_max = 10"),
        (RECORDS, "privacy.uniform_epsilon", -5, "greater than 0"),
        (CENTRAL, "privacy.accountant", "moments", "'rdp' or 'pld'"),
        (LOCAL, "privacy.correlation", {"bands": 2}, "unknown"),
        # Cohorts, rounds and steps.
        (CENTRAL, "training.cohort.rate", 0, "greater than 0"),
        (CENTRAL, "training.cohort.rate", 1.01, "less than or equal"),
        (CENTRAL, "training.cohort.rate", ..., "is required"),
        (CENTRAL, "training.cohort.clients", 3, "unknown field"),
        (RECORDS, "privacy.client_rate", 0.2, "is the rate of the cohort, which is 0.1"),
        (BLOCKS, "training.rounds", 21, "use 20 or 25"),
        (BLOCKS, "training.rounds", 3, "use 5"),
        (RECORDS, "training.local.steps", ..., "give `steps`"),
        (LOCAL, "training.hypotheses", 2, "use 1"),
        (RECORDS, "training.hypotheses", 2, "use 1"),
        (RECORDS, "training.loss", "rmse", "use `mse` or `cross-entropy`"),
        (SEVERAL, "training.clustering.method", "k-means", "use `method: reported`"),
        (UNIFORM, "training.local.batch_size", ..., "the baseline uniform"),
        (FEW, "privacy.accountant", "pld", "`accountant: rdp`, or keep `pld` with `cohort: {sampl"),
        # Budgets.
        (RECORDS, "privacy.budgets", {}, "either a `distribution` or a"),
        (RECORDS, "privacy.budgets.column", "e", "either a `distribution` or a"),
        (RECORDS, "privacy.budgets.distribution", "uniform", "'bounded-pareto' or 'bounded-mix-ga"),
        (COLUMN, "federation", IMAGES["federation"], "images has no columns"),
        (COLUMN, "federation.features", ["sex", "age"], "'age' is a feature or the target"),
        # Cohorts that a mechanism does not take.
        (CENTRAL, "training.cohort", {"sampling": "systematic"}, "choose one of 'fixed', 'poi"),
        (LOCAL, "training.cohort", POISSON, "{sampling: fixed"),
        (RECORDS, "training.cohort", {"clients": 10}, "{sampling: poisson, rate: ...}"),
        (LOCAL, "training.cohort", ALLOCATION, "or the mechanism `gaussian-central`"),
        (TABLE, "training.cohort", ALLOCATION, "or the mechanism `gaussian-central`"),
        (RECORDS, "training.cohort", ALLOCATION, "rate 1 for everyone"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_where_it_is(document, path, value, message):
    moved = {
        "privacy.budgets.column": "/privacy/budgets",
        "federation": "/privacy/budgets/column",
        "federation.features": "/privacy/budgets/column",
        "training.cohort": "/training/cohort/sampling",
    }
    assert_refused(document, {path: value}, message, moved.get(path))


@pytest.mark.parametrize(
    ("document", "changes"),
    [
        (CENTRAL, {"privacy.accountant": "pld"}),
        (CENTRAL, {"training.local": {"optimiser": "adam"}}),
        (FEW, {}),
        (SEVERAL, {}),
        (BLOCKS, {"privacy.accountant": "pld", "privacy.epsilon_budget": 30.0}),
        (BLOCKS, {"privacy.clip": {"adaptive": ADAPTIVE}}),
        (LOCAL, {"privacy.accountant": "pld", "privacy.epsilon_budget": 3.0}),
        (RECORDS, {"training.local": {"steps": 5, "optimiser": "rmsprop"}}),
        (RECORDS, {"federation.validation_unit": "record"}),
        (LOCAL, {"federation.validation_unit": "record"}),
        (UNIFORM, {"privacy.baseline": "filter"}),
        (RECORDS, {"privacy.delta": 0.5, "privacy.inversion": "curve-fit"}),
        (COLUMN, {"privacy.uniform_epsilon": 5, "privacy.epsilon_min": 0.1}),
    ],
)
def test_what_fits_is_taken_and_stored(document: dict[str, Any], changes: dict[str, Any]) -> None:
    assert_stored(parse_spec(changed(document, changes)))


@pytest.mark.parametrize("privacy", [None, 3, {"mechanism": "record-personalised"}])
def test_a_spec_too_broken_for_a_rate_still_has_its_faults_named(privacy: Any) -> None:
    pointers = {one.pointer for one in faults({**RECORDS, "privacy": privacy, "training": 3})}
    assert "/training" in pointers
    assert any(pointer.startswith("/privacy") for pointer in pointers)
