"""Clients that add the noise themselves: its size, their budgets, and what is withheld."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack
from tests.training.federations import one_by_one
from tests.training.gaussian import ALONE, LOCAL, cell_with, state, states, training_clients
from tests.training.specs import cell, groups_spec, linear_spec, train


def budget_for(releases: int, spec: dict[str, Any]) -> float:
    """An epsilon that has room for so many releases, and not for one more."""
    plan = mechanism_of(cell(spec).spec).spending_plan(training_clients=50)
    assert plan is not None
    epsilons = plan.line("server").epsilons
    return float(epsilons[releases] + epsilons[releases + 1]) / 2


@pytest.mark.parametrize("padded", [True, False], ids=["side by side", "client by client"])
def test_without_updates_the_average_moves_by_the_mean_of_the_clients_noise(padded: bool) -> None:
    """Normal with deviation sigma * clip / sqrt(6): six clients, noise of their own each.

    960 numbers. Bounds of five deviations: each rings falsely with a chance below 1e-6.
    """
    changes = {**ALONE, "privacy": {**LOCAL, "noise_multiplier": 2.0, "clip": 0.5}}
    one = cell_with(0.0, width=120, training__rounds=8, **changes)
    if not padded:
        one = Cell(one.spec, one_by_one(one.federation))
    found = states(one, 8)
    moves = np.array(
        [
            after.hypotheses.astype(np.float64) - before.hypotheses
            for before, after in pairwise(found)
        ]
    )
    noise = moves * np.sqrt(6) / (2.0 * 0.5)
    assert noise.size == 960
    assert abs(noise.mean()) < 5 / np.sqrt(noise.size)
    assert abs(noise.std() - 1) < 5 / np.sqrt(2 * noise.size)


def test_updates_are_clipped_before_their_noise() -> None:
    changes = {**ALONE, "privacy": {**LOCAL, "noise_multiplier": 1e-3, "clip": 0.25}}
    one = cell_with(
        None,
        training__cohort={"clients": 1},
        training__local={"step_size": 10.0},
        training__rounds=5,
        **changes,
    )
    found = states(one, 5)
    for before, after in pairwise(found):
        # Noise of deviation 2.5e-4 in three dimensions: 2e-3 is passed with a chance of 1e-13.
        moved = np.linalg.norm(after.hypotheses - before.hypotheses)
        assert moved == pytest.approx(0.25, abs=2e-3)


def test_with_little_noise_and_a_wide_clip_it_is_federated_averaging() -> None:
    wide = {**LOCAL, "noise_multiplier": 1e-3, "clip": 20.0}
    changes = {"training__hypotheses": 1, "training__rounds": 60}
    _, plain = train(linear_spec(privacy={"mechanism": "none"}, **changes))
    _, found = train(linear_spec(privacy=wide, **changes))
    # Noise on a weight: 20 * 1e-3 / sqrt(20) a round, pulled back by every later round.
    np.testing.assert_allclose(found.hypotheses, plain.hypotheses, atol=0.05)


def test_records_count_uploads_of_clients_and_have_no_radius() -> None:
    records = Stack([cell(groups_spec(**ALONE))]).advance(30)[0]
    counted = np.zeros(100, dtype=np.int64)
    for record in records:
        counted[record.subjects] += 1
        assert len(record.subjects) == 20
        assert np.array_equal(record.releases, counted[record.subjects])
        assert np.all(record.outcomes == Outcome.RELEASED)
        assert np.isnan(record.radii).all()
        assert not record.chosen.any()
        assert record.cluster_sizes == (20,)
        assert record.separation is None


def test_clients_whose_budget_is_used_up_take_no_further_part() -> None:
    spec = groups_spec(**ALONE)
    spec["privacy"] = {**LOCAL, "epsilon_budget": budget_for(4, spec)}
    stack = Stack([cell(spec)])
    records = stack.advance(30)[0]
    counted = np.zeros(100, dtype=np.int64)
    for record in records:
        refused = record.outcomes == Outcome.REFUSED
        assert np.array_equal(refused, counted[record.subjects] == 4)
        assert np.all(record.chosen[refused] == -1)
        counted[record.subjects[~refused]] += 1
        assert np.array_equal(record.releases, counted[record.subjects])
    assert stack.releases(0).max() == 4
    assert stack.result(0).stopped_by == "rounds"


@pytest.mark.parametrize("padded", [True, False], ids=["side by side", "client by client"])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_an_update_that_is_not_finite_is_withheld_and_counts(value: float, padded: bool) -> None:
    everyone = {"training__cohort": {"clients": 18}, "training__rounds": 6}
    one = cell_with(None, **ALONE, **everyone)
    broken = int(training_clients(one)[4])
    one.federation.side_by_side[one.federation.own(broken)] = value
    if not padded:
        one = Cell(one.spec, one_by_one(one.federation))
    stack = Stack([one])
    for record in stack.advance(6)[0]:
        withheld = record.outcomes == Outcome.WITHHELD
        assert record.subjects[withheld].tolist() == [broken]
        assert record.cluster_sizes == (17,)
    assert stack.releases(0)[broken] == 0
    assert state(stack).budget_uses[broken] == 6
    assert np.isfinite(stack.result(0).hypotheses).all()


def test_secret_noise_is_planned_for_those_who_have_room() -> None:
    spec = groups_spec(**{**ALONE, "training__cohort": {"clients": 50}})
    secret = {**LOCAL, "noise": "release", "epsilon_budget": budget_for(2, spec)}
    stack = Stack([cell({**spec, "privacy": secret})])
    planned = stack.plan(4)[0]
    assert [len(plan.subjects) for plan in planned] == [50, 50, 0, 0]
    for plan, record in zip(planned, stack.advance(4)[0], strict=True):
        charged = record.subjects[record.outcomes != Outcome.REFUSED]
        assert np.array_equal(plan.subjects, charged)
