"""Sets of rows that were disclosed, and when a further one is too near to them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.fairness.earlier_disclosures import (
    DisclosedRows,
    Neighbourhood,
    RowSet,
    SetsBeside,
    conflicting,
    disclosed_sets,
)
from fedaudit.fairness.joint_disclosure import decide_together
from fedaudit.fairness.population import Population
from tests.fairness.disclosures import disclosed

ROWS = st.sets(st.integers(0, 200))


def rows_of(numbers) -> RowSet:
    return RowSet.of(np.array(sorted(numbers), dtype=np.int64))


def judged(numbers, favourable=()) -> DisclosedRows:
    return DisclosedRows(rows_of(numbers), rows_of(favourable))


def people(clients) -> np.ndarray:
    return np.asarray(clients, dtype=np.int64)


@given(ROWS, ROWS)
def test_what_differs_is_what_only_one_of_two_sets_has(first, second):
    one, other = rows_of(first), rows_of(second)
    differing = np.flatnonzero(np.unpackbits(one.differing(other)))
    assert set(differing.tolist()) == first ^ second
    assert (one.digest == other.digest) == (first == second)
    assert one.rows == len(first)
    stored = RowSet.from_bytes(one.as_bytes())
    assert stored.digest == one.digest


@given(ROWS, ROWS, st.integers(1, 40))
def test_sets_are_near_where_they_differ_in_few_rows(first, second, minimum):
    near = Neighbourhood(people(range(201)), rows=minimum, clients=1)
    few = 0 < len(first ^ second) < minimum
    assert near.is_near(judged(first), judged(second)) == few
    beside = SetsBeside([judged(second), judged(first)])
    assert near.any_near(judged(first), beside) == few
    assert not near.any_near(judged(first), SetsBeside([]))
    same = range(201)
    assert near.is_near(judged(same, first), judged(same, second)) == few


def test_many_rows_of_one_client_are_as_near_as_few():
    owner = np.repeat([0, 1, 2], [50, 30, 40])
    near = Neighbourhood(people(owner), rows=30, clients=2)
    two, three = judged(range(80)), judged(range(120))
    assert near.is_near(two, three), "forty rows, all of one client"
    assert not near.is_near(judged(range(50)), three), "seventy rows of two clients"
    assert not near.is_near(two, judged(range(80)))
    assert not Neighbourhood(people(owner), rows=30, clients=1).is_near(two, three)


def test_rows_that_the_spec_leaves_out_belong_to_no_client():
    owner = np.arange(100)
    owner[10:] = -1
    near = Neighbourhood(people(owner), rows=5, clients=2)
    assert near.is_near(judged(range(10)), judged(range(100)))
    assert near.is_near(judged(range(10)), judged(range(300)))
    assert not near.is_near(judged(range(8)), judged(range(100)))
    everybody = Neighbourhood(people(np.arange(100)), rows=5, clients=2)
    assert not everybody.is_near(judged(range(10)), judged(range(100)))


@given(ROWS, ROWS, st.integers(1, 40), st.integers(1, 4), st.integers(1, 60))
def test_nearness_is_as_counted_one_by_one(first, second, rows, clients, length):
    owner = np.arange(180) // length - 1
    near = Neighbourhood(people(owner), rows=rows, clients=clients)
    differing = first ^ second
    known = {int(owner[row]) for row in differing if row < 180} - {-1}
    few_clients = clients > 1 and len(known) < clients
    few = bool(differing) and (len(differing) < rows or few_clients)
    assert near.is_near(judged(first), judged(second)) == few
    beside = SetsBeside([judged(second), judged(first)])
    assert near.any_near(judged(first), beside) == few
    assert not near.any_near(judged(first), SetsBeside([]))


def test_an_attribute_with_one_near_set_conflicts():
    near = Neighbourhood(people(range(120)), rows=30, clients=1)
    own = {"age": [judged(range(83)), judged(range(83, 120))], "sex": [judged(range(0, 120, 2))]}
    assert conflicting(own, [judged(range(84))], near) == {"age"}
    assert conflicting(own, [judged(range(83))], near) == set()
    assert conflicting(own, [], near) == set()


def test_what_is_remembered_are_shown_groups_and_everybody_beside_them():
    group = np.repeat([0, 1, 2], [40, 10, 35])
    population = Population({"g": group}, {"g": 3}, np.arange(85), 7 * np.arange(85))
    rule = disclosed([1], minimum_group_size=30).rule
    found = decide_together({"g": rule}, population)
    favourable = np.arange(85) % 2 == 0
    (sets,) = disclosed_sets(population, found, favourable).values()
    assert [one.rows.rows for one in sets] == [40, 85], "10 are few, and 35 would give them away"
    assert [one.favourable.rows for one in sets] == [20, 43]
    assert disclosed_sets(population, {}, favourable) == {}


def test_rows_need_numbers():
    nameless = Population({}, {}, np.arange(3))
    with pytest.raises(ValueError, match="cannot be remembered"):
        disclosed_sets(nameless, {}, np.zeros(3, dtype=bool))


def test_groups_beside_each_other_add_up_to_another_cut():
    """The attack: edges [83], then [40, 84, 90]: two groups of the second less one of the first."""
    age = np.concatenate([np.arange(600) % 43 + 20, np.full(200, 95), np.full(6, 83)])
    near = Neighbourhood(people(range(len(age))), rows=30, clients=1)

    def sets(edges):
        codes = np.searchsorted(edges, age, side="right")
        ids, nobody = np.arange(len(age)), np.zeros(len(age), dtype=bool)
        population = Population({"age": codes}, {"age": len(edges) + 1}, ids, ids)
        rule = disclosed([1], minimum_group_size=30).rule
        found = decide_together({"age": rule}, population)
        return disclosed_sets(population, found, nobody, ordered=["age"])

    first, moved = sets([83]), sets([40, 84])
    assert conflicting(moved, first["age"], near) == {"age"}
    assert conflicting(first, first["age"], near) == set()
    assert conflicting(sets([40]), first["age"], near) == set()


def test_what_is_disclosed_again_never_conflicts():
    near = Neighbourhood(people(range(400)), rows=30, clients=1)
    both = {"a": [judged(range(395)), judged(range(400))]}
    assert conflicting(both, both["a"], near) == set()
    assert conflicting({"a": both["a"][:1]}, both["a"][1:], near) == {"a"}
