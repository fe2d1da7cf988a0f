"""Noise that nobody can draw again: planned, charged, and different each time."""

from typing import Any

import numpy as np
import pytest

from fedaudit.ledger.rows import Outcome
from fedaudit.training.base.round_records import RoundRecord
from fedaudit.training.stack import Stack
from tests.training.specs import cell, groups_spec


def release_stack(**changes: Any) -> Stack:
    return Stack([cell(groups_spec(privacy__noise="release", **changes))])


def play(stack: Stack, rounds: int) -> list[RoundRecord]:
    stack.plan(rounds)
    return stack.advance(rounds)[0]


def test_rounds_must_be_planned_before_their_noise_is_drawn() -> None:
    stack = release_stack()
    with pytest.raises(RuntimeError, match="planned first"):
        stack.advance(1)
    assert len(play(stack, 3)) == 3
    with pytest.raises(RuntimeError, match="planned first"):
        stack.advance(1)


def test_advance_stops_where_the_plan_ends() -> None:
    stack = release_stack()
    (planned,) = stack.plan(4).values()
    assert [plan.round for plan in planned] == [1, 2, 3, 4]
    assert [record.round for record in stack.advance(100)[0]] == [1, 2, 3, 4]


@pytest.mark.parametrize("budget", [None, 6.0])
def test_the_plan_names_those_who_are_charged(budget: float | None) -> None:
    stack = release_stack(privacy__client_budget=budget)
    while stack.active:
        planned = stack.plan(7)[0]
        records = stack.advance(7)[0]
        assert len(planned) == len(records)
        for plan, record in zip(planned, records, strict=True):
            assert (plan.round, plan.release) == (record.round, record.release)
            charged = record.subjects[record.outcomes != Outcome.REFUSED]
            assert np.array_equal(plan.subjects, charged)
            assert plan.subjects.dtype == np.int32
    assert budget is None or stack.releases(0).max() == 2


def test_planning_twice_changes_nothing() -> None:
    stack = release_stack(privacy__client_budget=6.0)
    first, again = stack.plan(5)[0], stack.plan(5)[0]
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one.subjects, other.subjects)
    assert len(stack.advance(5)[0]) == 5


def test_a_plan_ends_with_the_last_round() -> None:
    stack = release_stack(training__rounds=3)
    assert [plan.round for plan in stack.plan(10)[0]] == [1, 2, 3]
    assert len(stack.advance(10)[0]) == 3
    assert stack.active == []


def test_neither_sampling_nor_noise_follows_from_the_seed() -> None:
    one, other = play(release_stack(), 10), play(release_stack(), 10)
    simulated = Stack([cell(groups_spec())]).advance(10)[0]
    for first, second in ((one, other), (one, simulated)):
        # The same 20 of 50 clients ten times over: a chance far below 1e-100.
        assert any(
            not np.array_equal(a.subjects, b.subjects) for a, b in zip(first, second, strict=True)
        )
    # With everyone in the cohort only the noise differs; radii in round 1 owe nothing to it.
    everyone = {"training__cohort": {"clients": 50}}
    first, second = (play(release_stack(**everyone), 2) for _ in range(2))
    assert np.array_equal(first[0].subjects, second[0].subjects)
    assert np.array_equal(first[0].radii, second[0].radii)
    assert not np.array_equal(first[1].radii, second[1].radii)


def test_who_trains_and_who_validates_does_follow_from_the_seed() -> None:
    """Validation protects nobody, and who can be drawn is part of the experiment."""
    stacks = [release_stack(training__stopping={"validation_clients": 10}) for _ in range(2)]
    drawn = [
        {client for record in play(stack, 30) for client in record.subjects.tolist()}
        for stack in stacks
    ]
    assert drawn[0] == drawn[1]


def test_lost_rounds_stay_charged_and_are_repeated_under_a_new_release() -> None:
    changes = {"privacy__client_budget": 6.0, "training__cohort": {"clients": 50}}
    lost = release_stack(**changes)
    play(lost, 1)
    checkpoint = lost.checkpoint(0)
    (plan,) = lost.plan(1)[0]  # its worker dies before the round is stored

    spec = groups_spec(privacy__noise="release", **changes)
    stack = Stack([cell(spec)], checkpoints=[checkpoint])
    stack.charge(0, plan.subjects)
    stack.set_release(0, 1, until=plan.round)
    assert stack.releases(0).max() == 2
    (repeated,) = stack.plan(1)[0]
    assert (repeated.round, repeated.release) == (2, 1)
    # One release, one lost: a budget of two has no room for the repetition.
    assert len(repeated.subjects) == 0
    records = stack.advance(1)[0] + play(stack, 1)
    assert [(record.round, record.release) for record in records] == [(2, 1), (3, 0)]
    assert set(records[0].outcomes.tolist()) == {Outcome.REFUSED}


def test_release_numbers_survive_an_interruption() -> None:
    stack = release_stack()
    stack.set_release(0, 2, until=3)
    first = play(stack, 2)
    resumed = Stack(
        [cell(groups_spec(privacy__noise="release"))], checkpoints=[stack.checkpoint(0)]
    )
    rest = play(resumed, 2)
    assert [record.release for record in first + rest] == [2, 2, 2, 0]
    assert [record.round for record in first + rest] == [1, 2, 3, 4]


def test_runs_of_different_noises_are_not_stacked() -> None:
    with pytest.raises(ValueError, match="one shape"):
        Stack([cell(groups_spec()), cell(groups_spec(privacy__noise="release"))])
