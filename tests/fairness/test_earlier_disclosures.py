"""Sets of rows that were disclosed, and when a further one is too near to them."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.fairness import scored_groups
from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.joint_disclosure import decide_together
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
from tests.fairness.disclosures import population

ROWS = st.sets(st.integers(0, 200))


def rows_of(numbers) -> RowSet:
    return RowSet.of(np.array(sorted(numbers), dtype=np.int64))


def judged(numbers, favourable=()) -> DisclosedRows:
    return DisclosedRows(rows_of(numbers), rows_of(favourable))


def near_by(owner, *, rows: int = 30, clients: int = 1) -> Neighbourhood:
    """Among rows of these clients."""
    return Neighbourhood(RowClients(np.asarray(owner, dtype=np.int64)), rows=rows, clients=clients)


def beside(sets) -> SetsBeside:
    remembered = RememberedSets()
    remembered.add(("data", "rows"), sets)
    return remembered, [("data", "rows")]


def any_near(near: Neighbourhood, one: DisclosedRows, others) -> bool:
    return Comparison([one], beside(others), near).any_near(one)


def conflicting(own, earlier, near) -> set[str]:
    return scored_groups.conflicting(own, beside(earlier), near)


@given(ROWS, ROWS)
def test_what_differs_is_what_only_one_of_two_sets_has(first, second):
    one, other = rows_of(first), rows_of(second)
    assert set(one.differing(other).numbers.tolist()) == first ^ second
    assert (one.digest == other.digest) == (first == second)
    assert one.rows == len(first)
    stored = RowSet.from_bytes(one.as_bytes(), digest=one.digest)
    assert set(stored.numbers.tolist()) == first


def test_sets_have_the_digest_under_which_they_were_stored():
    assert rows_of([0, 9]).digest == hashlib.sha256(b"\x80\x40").hexdigest()
    assert rows_of([]).digest == hashlib.sha256(b"").hexdigest()


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
        neighbourhood = near_by(owner, clients=clients)
        for one, other in ((without, everybody), (everybody, without)):
            assert neighbourhood.is_near(one, other) == near, (first, last, clients)
            assert any_near(neighbourhood, one, [other]) == near


def test_rows_of_one_client_and_rows_left_out_are_one_clients():
    near = near_by(np.repeat([0, -1, 1, 2], [40, 10, 40, 40]), clients=2)
    everybody = judged(range(130))
    assert near.is_near(judged(range(50, 130)), everybody)
    assert any_near(near, judged(range(50, 130)), [everybody])
    assert not near.is_near(judged(range(90, 130)), everybody), "of clients 0 and 1"


def test_large_sets_are_near_whichever_has_the_rows_that_the_other_lacks():
    near, one = near_by(range(400), rows=10), judged(range(200))
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

    near = near_by(range(50), rows=10)
    assert any_near(near, named(slice(51)), [named(slice(50))])
    assert near.is_near(named(slice(51)), named(slice(50)))
    assert not near.is_near(named(slice(50)), named(slice(50)))
    shared = clients_by_number(numbers, np.arange(60) // 30).numbered
    assert shared[:10].tolist() == [-1] * 10, "of clients 0 and 1, which nobody is known of"
    assert shared[10:].tolist() == [0] * 20 + [1] * 20


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
    near = near_by(owner, rows=rows, clients=clients)

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


R50, R83, R100, E400 = map(range, (50, 83, 100, 400))
R120, PARTS = range(83, 120), [range(60), range(40, 97)]
THREE = [range(60), range(40, 100), range(60, 95)]


@pytest.mark.parametrize(
    ("groups", "earlier", "conflict"),
    [
        pytest.param([R83, R120], [range(84)], True, id="one near set"),
        pytest.param([R83, R120], [R83], False, id="the same set"),
        pytest.param([R83], [], False, id="the first report"),
        pytest.param([range(395), E400], [range(395), E400], False, id="both once more"),
        pytest.param([E400], [range(395)], True, id="one of them beside the other"),
        # The union of a whole's parts, as of two intersections with one attribute in common.
        pytest.param([R100, E400], [*PARTS, E400], True, id="its parts"),
        pytest.param([R100, E400], [*PARTS, E400, R100], False, id="its parts and itself"),
        # All of them are the whole, and two of them leave five rows of it.
        pytest.param([R100, E400], [*THREE, E400], True, id="some of its parts"),
        # One group of an earlier report, less two that this one shows apart.
        pytest.param([R50, range(50, 90), E400], [R100], True, id="parts of an old"),
        pytest.param([R50, range(50, 100), E400], [R100], False, id="the whole of it"),
        pytest.param([R50, range(50, 65), E400], [R100], False, id="far less of it"),
        pytest.param([R50, range(50, 90), E400], [R100, E400], True, id="and everybody again"),
    ],
)
def test_an_attribute_conflicts_with_what_leaves_few_rows_beside_it(groups, earlier, conflict):
    own = {"age": [judged(one) for one in groups], "sex": [judged(range(0, 400, 2))]}
    found = conflicting(own, [judged(one) for one in earlier], near_by(E400))
    assert found == ({"age"} if conflict else set())


def test_what_is_remembered_are_shown_groups_and_everybody_beside_them():
    group = np.repeat([2, 0, 1, 3], [40, 30, 35, 1])
    people = population({"g": group}, groups={"g": 5})

    def remembered(minimum: int):
        found = decide_together({"g": DisclosureRule(minimum)}, people)
        (sets,) = disclosed_sets(people, found, group == 1).values()
        return sets

    shown = [rows_of(np.flatnonzero(group == place)).digest for place in range(4)]
    everybody = rows_of(range(106)).digest
    assert [one.rows.digest for one in remembered(1)] == [*shown, everybody]
    assert [one.favourable.rows for one in remembered(1)] == [0, 35, 0, 0, 35]
    # The one row of the last is few, and the first would give it away.
    assert [one.rows.digest for one in remembered(30)] == [*shown[1:3], everybody]
    assert disclosed_sets(people, {}, group == 1) == {}
    with pytest.raises(ValueError, match="cannot be remembered"):
        disclosed_sets(replace(people, row_ids=None), {}, group == 1)


def sets_between(edges, age, *, minimum: int = 30):
    """What is remembered of ages that are cut at edges, and which groups are shown."""
    people = population({"age": np.searchsorted(edges, age, side="right")})
    found = decide_together({"age": DisclosureRule(minimum)}, people)
    no_rows = np.zeros(len(age), dtype=bool)
    return disclosed_sets(people, found, no_rows, ordered=["age"]), found["age"].shown


@pytest.mark.parametrize(
    ("first", "second", "conflict"),
    [
        ([83], [40, 84], True),
        ([83], [83], False),
        ([83], [40], False),
        ([83], [40, 84, 90], True),
        ([40, 83], [40, 60, 70, 84, 90], True),
        ([83, 90], [40, 50, 60, 84, 90, 95], True),
        ([40, 83, 95], [30, 40, 60, 84], True),
    ],
)
def test_groups_beside_each_other_add_up_to_another_cut(first, second, conflict):
    """The attack: no group of the second is near one of the first, but their sums are, by the six
    people aged 83; both ways round."""
    ages = [(20, 60), (35, 60), (45, 60), (55, 60), (65, 60), (75, 60), (83, 6), (87, 60), (92, 60)]
    age = np.concatenate([np.repeat(*one) for one in [*ages, (97, 60)]])
    both = []
    for edges in (first, second):
        sets, shown = sets_between(edges, age)
        assert shown.all()
        both.append(sets)
    for one, other in (both, both[::-1]):
        found = conflicting(one, other["age"], near_by(range(len(age))))
        assert found == ({"age"} if conflict else set())


def test_sums_of_groups_beside_each_other_are_remembered_where_all_are_shown():
    group = np.repeat([0, 1, 2, 3, 4, 5], [9, 40, 50, 60, 12, 35])
    remembered, shown = sets_between([1, 2, 3, 4, 5], group, minimum=20)
    assert shown.tolist() == [False, True, True, True, False, True]
    expected = [[1], [2], [3], [5], [1, 2], [2, 3], [1, 2, 3], range(6)]
    rows = [rows_of(np.flatnonzero(np.isin(group, list(own)))).digest for own in expected]
    assert {one.rows.digest for one in remembered["age"]} == set(rows)
