"""Sets of rows that were disclosed, and when a further one is too near to them."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.fairness import scored_groups
from fedaudit.fairness.joint_disclosure import Population, decide_together
from fedaudit.fairness.scored_groups import (
    Comparison,
    DisclosedRows,
    Neighbourhood,
    RememberedSets,
    RowClients,
    RowSet,
    SetsBeside,
    clients_by_number,
    disclosed_sets,
)
from tests.fairness.disclosures import disclosed

ROWS = st.sets(st.integers(0, 200))


def rows_of(numbers) -> RowSet:
    return RowSet.of(np.array(sorted(numbers), dtype=np.int64))


def judged(numbers, favourable=()) -> DisclosedRows:
    return DisclosedRows(rows_of(numbers), rows_of(favourable))


def any_near(near: Neighbourhood, one: DisclosedRows, others) -> bool:
    return Comparison([one], SetsBeside(RememberedSets(others)), near).any_near(one)


def conflicting(own, earlier, near) -> set[str]:
    return scored_groups.conflicting(own, SetsBeside(RememberedSets(earlier)), near)


def people(clients) -> RowClients:
    return RowClients(np.asarray(clients, dtype=np.int64))


@given(ROWS, ROWS)
def test_what_differs_is_what_only_one_of_two_sets_has(first, second):
    one, other = rows_of(first), rows_of(second)
    assert set(one.differing(other).numbers.tolist()) == first ^ second
    assert (one.digest == other.digest) == (first == second)
    assert one.rows == len(first)
    stored = RowSet.from_bytes(one.as_bytes(), digest=one.digest)
    assert stored.digest == one.digest


@pytest.mark.parametrize("longest", [50, 51])
def test_all_rows_of_the_client_with_the_most_are_near(longest):
    owner = np.repeat([1, 0, 2, 3], [longest, 30, 40, 40])
    everybody = judged(range(len(owner)))
    for first, last, clients, near in (
        (0, longest, 2, True),
        (longest, longest + 70, 2, False),
        (0, longest + 30, 3, True),
        (0, longest + 70, 3, False),
        (0, longest + 70, 4, True),
    ):
        without = judged([*range(first), *range(last, len(owner))])
        neighbourhood = Neighbourhood(people(owner), rows=30, clients=clients)
        for one, other in ((without, everybody), (everybody, without)):
            assert neighbourhood.is_near(one, other) == near, (first, last, clients)
            assert any_near(neighbourhood, one, [other]) == near


def test_large_sets_are_near_whichever_has_the_rows_that_the_other_lacks():
    near = Neighbourhood(people(range(400)), rows=10, clients=1)
    one = judged(range(200))
    for other in (range(195), range(205), range(4, 204), [*range(195), 399]):
        assert any_near(near, one, [judged(range(80)), judged(other)])
        assert any_near(near, judged(other), [judged(range(80)), one])
    for other in (range(189), range(211), range(6, 206)):
        assert not any_near(near, one, [judged(other)])


def test_rows_that_share_a_number_make_sets_nearer_and_never_equal():
    """The attack: one row more, whose number a row of both sets has too."""
    numbers, keys = np.arange(60) % 50, np.arange(60, dtype=np.uint64)

    def named(rows) -> DisclosedRows:
        return DisclosedRows(RowSet.of(numbers[rows], keys[rows]), rows_of([]))

    near = Neighbourhood(people(range(50)), rows=10, clients=1)
    assert any_near(near, named(slice(51)), [named(slice(50))])
    assert near.is_near(named(slice(51)), named(slice(50)))
    assert not near.is_near(named(slice(50)), named(slice(50)))
    shared = clients_by_number(numbers, np.arange(60) // 30).numbered
    assert shared[:10].tolist() == [-1] * 10, "of clients 0 and 1, which nobody is known of"
    assert shared[10:].tolist() == [0] * 20 + [1] * 20


def test_sets_have_the_digest_under_which_they_were_stored():
    assert rows_of([0, 9]).digest == hashlib.sha256(b"\x80\x40").hexdigest()
    assert rows_of([]).digest == hashlib.sha256(b"").hexdigest()


def test_rows_of_one_client_and_rows_left_out_are_one_clients():
    owner = np.repeat([0, -1, 1, 2], [40, 10, 40, 40])
    near = Neighbourhood(people(owner), rows=30, clients=2)
    everybody = judged(range(130))
    assert near.is_near(judged(range(50, 130)), everybody)
    assert any_near(near, judged(range(50, 130)), [everybody])
    assert not near.is_near(judged(range(90, 130)), everybody), "of clients 0 and 1"


@given(
    first=ROWS,
    others=st.lists(ROWS, max_size=5),
    rows=st.integers(1, 40),
    clients=st.integers(1, 4),
    lengths=st.lists(st.integers(0, 90), min_size=2, max_size=6),
)
def test_nearness_is_as_counted_one_by_one(first, others, rows, clients, lengths):
    """Of the numbered rows the first are no client's."""
    owner = np.repeat(np.arange(-1, len(lengths) - 1), lengths)
    near = Neighbourhood(people(owner), rows=rows, clients=clients)

    def few(second):
        differing = first ^ second
        known = {int(owner[row]) for row in differing if row < len(owner)} - {-1}
        few_clients = clients > 1 and len(known) < clients
        return bool(differing) and (len(differing) < rows or few_clients)

    for second in others:
        assert near.is_near(judged(first), judged(second)) == few(second)
        same = range(201)
        assert near.is_near(judged(same, first), judged(same, second)) == few(second)
    beside = [*map(judged, others), judged(first)]
    assert any_near(near, judged(first), beside) == any(map(few, others))


def test_an_attribute_with_one_near_set_conflicts():
    near = Neighbourhood(people(range(120)), rows=30, clients=1)
    own = {"age": [judged(range(83)), judged(range(83, 120))], "sex": [judged(range(0, 120, 2))]}
    assert conflicting(own, [judged(range(84))], near) == {"age"}
    assert conflicting(own, [judged(range(83))], near) == set()
    assert conflicting(own, [], near) == set()


def test_a_set_that_was_disclosed_with_its_parts_is_disclosed_again():
    """As of two intersections with one attribute in common, whose union no total gives away."""
    near = Neighbourhood(people(range(200)), rows=10, clients=1)
    whole, everybody = judged(range(100)), judged(range(200))
    parts = [judged(range(60)), judged(range(40, 97))]
    own = {"region": [whole, everybody]}
    assert conflicting(own, [*parts, everybody], near) == {"region"}
    assert conflicting(own, [*parts, everybody, whole], near) == set()


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


def test_every_shown_group_is_remembered_with_its_own_rows():
    group = np.repeat([2, 0, 1, 3], [40, 30, 35, 1])
    population = Population({"g": group}, {"g": 5}, np.arange(106), np.arange(106))
    found = decide_together({"g": disclosed([1], minimum_group_size=1).rule}, population)
    (sets,) = disclosed_sets(population, found, group == 1).values()
    expected = [rows_of(np.flatnonzero(group == place)) for place in range(4)]
    assert [one.rows.digest for one in sets[:4]] == [one.digest for one in expected]
    assert [one.favourable.rows for one in sets] == [0, 35, 0, 0, 35]


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


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([83], [40, 84, 90]),
        ([40, 83], [40, 60, 70, 84, 90]),
        ([83, 90], [40, 50, 60, 84, 90, 95]),
        ([40, 83, 95], [30, 40, 60, 84]),
    ],
)
def test_only_several_groups_together_are_another_cut(first, second):
    """The attack: no group of the second is near one of the first, but their sums are, by the six
    people aged 83; both ways round."""
    ages = [(20, 60), (35, 60), (45, 60), (55, 60), (65, 60), (75, 60), (83, 6), (87, 60), (92, 60)]
    age = np.concatenate([np.repeat(*one) for one in [*ages, (97, 60)]])
    near = Neighbourhood(people(range(len(age))), rows=30, clients=1)

    def sets(edges, ordered):
        codes = np.searchsorted(edges, age, side="right")
        ids, nobody = np.arange(len(age)), np.zeros(len(age), dtype=bool)
        population = Population({"age": codes}, {"age": len(edges) + 1}, ids, ids)
        found = decide_together({"age": disclosed([1], minimum_group_size=30).rule}, population)
        assert found["age"].shown.all()
        return disclosed_sets(population, found, nobody, ordered=ordered)

    for one, other in ((first, second), (second, first)):
        assert conflicting(sets(one, ["age"]), sets(other, ["age"])["age"], near) == {"age"}


def test_sums_of_groups_beside_each_other_are_remembered_where_all_are_shown():
    group = np.repeat([0, 1, 2, 3, 4, 5], [9, 40, 50, 60, 12, 35])
    ids, nobody = np.arange(206), np.zeros(206, dtype=bool)
    population = Population({"age": group}, {"age": 6}, ids, ids)
    found = decide_together({"age": disclosed([1], minimum_group_size=20).rule}, population)
    assert found["age"].shown.tolist() == [False, True, True, True, False, True]
    (sets,) = disclosed_sets(population, found, nobody, ordered=["age"]).values()
    expected = [[1], [2], [3], [5], [1, 2], [2, 3], [1, 2, 3], range(6)]
    rows = [rows_of(np.flatnonzero(np.isin(group, list(own)))).digest for own in expected]
    assert {one.rows.digest for one in sets} == set(rows)


def test_what_is_disclosed_again_never_conflicts():
    near = Neighbourhood(people(range(400)), rows=30, clients=1)
    both = {"a": [judged(range(395)), judged(range(400))]}
    assert conflicting(both, both["a"], near) == set()
    assert conflicting({"a": both["a"][:1]}, both["a"][1:], near) == {"a"}


@pytest.mark.parametrize(("end", "found"), [(90, {"age"}), (100, set()), (65, set())])
def test_groups_that_leave_few_rows_of_an_earlier_set_conflict(end, found):
    """The attack: one group of an earlier report, less two that this one shows apart."""
    near = Neighbourhood(people(range(400)), rows=30, clients=1)
    own = {"age": [judged(range(50)), judged(range(50, end)), judged(range(400))]}
    assert conflicting(own, [judged(range(100))], near) == found
    assert conflicting(own, [judged(range(100)), own["age"][-1]], near) == found
