"""Attacks on suppression by sums and differences of what one report shows, and that they fail."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.fairness import joint_disclosure
from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.joint_disclosure import UNDECIDED, Population, decide_together
from fedaudit.fairness.suppression import IntersectionTable


def population(columns, *, clients=None, groups=None) -> Population:
    """Of rows whose groups are given as a list for each attribute; every row its own client."""
    codes = {name: np.asarray(column, dtype=np.int64) for name, column in columns.items()}
    rows = len(next(iter(codes.values())))
    sizes = {name: int(column.max()) + 1 for name, column in codes.items()}
    owner = np.arange(rows) if clients is None else np.asarray(clients)
    return Population(codes, {**sizes, **(groups or {})}, owner)


def crossed(table) -> Population:
    """Of two attributes and their intersection, from the rows of each cell."""
    table = np.asarray(table)
    first = np.repeat(np.repeat(np.arange(len(table)), table.shape[1]), table.ravel())
    second = np.repeat(np.tile(np.arange(table.shape[1]), len(table)), table.ravel())
    return population(
        {"a": first, "b": second, "a_b": first * table.shape[1] + second},
        groups={"a_b": table.size},
    )


def crossed_rules(table, *, minimum: int, clients: int = 1) -> dict[str, DisclosureRule]:
    lying = IntersectionTable(np.shape(table), ((0,), (1,)))
    rule = DisclosureRule(minimum, minimum_group_clients=clients)
    own = DisclosureRule(minimum, minimum_group_clients=clients, combination=lying)
    return {"a": rule, "b": rule, "a_b": own}


def smallest_recoverable(found, people: Population, *, names) -> set[frozenset[int]]:
    """Sets of atoms whose rows a reader of all shown groups can work out: of one or two atoms.

    By least squares over whatever is shown, with everybody's total beside it.
    """
    atoms = people.atoms(names)
    shown = [
        atoms.members(name, np.flatnonzero(found[name].shown & (found[name].rows > 0)))
        for name in names
    ]
    totals = np.concatenate([*shown, *(atoms.codes[name][None] >= 0 for name in names)])
    matrix = totals.astype(float).T
    recovered = set()
    for size in (1, 2):
        for chosen in combinations(range(len(atoms)), size):
            wanted = np.zeros(len(atoms))
            wanted[list(chosen)] = 1
            weights = np.linalg.lstsq(matrix, wanted, rcond=None)[0]
            if np.abs(matrix @ weights - wanted).max() < 1e-9:
                recovered.add(frozenset(chosen))
    return recovered


def test_lines_of_an_intersection_do_not_give_a_cell_away_together():
    table = [[18, 17, 40, 40], [16, 15, 6, 50], [50, 40, 16, 17], [60, 45, 18, 19]]
    people, rules = crossed(table), crossed_rules(table, minimum=30)
    alone = rules["a_b"].decide(people.sizes("a_b"))
    few = np.asarray(table).ravel() < 30
    assert (alone.shown == ~few).all(), "every line suppresses two cells, of 30 rows or more"
    names = list(rules)
    by_attribute = {name: rules[name].decide(people.sizes(name)) for name in names}
    bridge = frozenset({6})
    assert bridge in smallest_recoverable(by_attribute, people, names=names)
    together = decide_together(rules, people)
    recovered = smallest_recoverable(together, people, names=names)
    assert all(sum(np.ravel(table)[list(cells)]) >= 30 for cells in recovered)
    assert together["a_b"].shown.sum() >= 4


def test_a_coarser_attribute_does_not_give_a_group_away():
    # The groups A, B, C, D of race; broad joins A and D to east, B and C to west.
    race = np.repeat([0, 1, 2, 3], [100, 90, 26, 4])
    people = population({"race": race, "broad": np.isin(race, (1, 2)).astype(int)})
    rules = {"race": DisclosureRule(30), "broad": DisclosureRule(30)}
    alone = {name: rule.decide(people.sizes(name)) for name, rule in rules.items()}
    assert alone["race"].shown.tolist() == [True, True, False, False]
    assert alone["broad"].shown.all()
    together = decide_together(rules, people)
    recovered = smallest_recoverable(together, people, names=list(rules))
    sizes = people.atoms(list(rules)).rows
    assert all(sizes[list(cells)].sum() >= 30 for cells in recovered)


def test_two_cuts_of_one_column_do_not_leave_the_rows_between_them():
    hours = np.repeat([30, 40, 83, 90], [200, 300, 3, 60])
    people = population({"low": (hours >= 83).astype(int), "high": (hours >= 84).astype(int)})
    rules = {name: DisclosureRule(30) for name in ("low", "high")}
    together = decide_together(rules, people)
    assert sum(one.shown.sum() for one in together.values()) == 2, "one attribute of the two"
    assert together["low"].shown.all() or together["high"].shown.all()


def test_a_large_group_of_one_client_is_suppressed_and_what_would_give_it_away():
    group = np.repeat([0, 1, 2], [30, 50, 40])
    clients = np.concatenate([np.zeros(30, int), 1 + np.arange(50) % 9, 20 + np.arange(40) % 9])
    people = population({"sex": group}, clients=clients)
    found = decide_together({"sex": DisclosureRule(30, minimum_group_clients=2)}, people)["sex"]
    assert found.shown.tolist() == [False, True, False]
    assert "fewer than 30 scored rows or 2 clients" in found.reason(0)
    trusting = decide_together({"sex": DisclosureRule(30)}, people)["sex"]
    assert trusting.shown.all()


def test_rows_without_a_value_are_rows_that_a_difference_may_leave():
    sex = np.arange(203) % 2
    race = np.concatenate([np.repeat([0, 1, 2], [80, 70, 50]), [-1] * 3])
    people = population({"sex": sex, "race": race})
    together = decide_together({"sex": DisclosureRule(30), "race": DisclosureRule(30)}, people)
    assert together["sex"].shown.all()
    assert together["race"].shown.tolist() == [True, True, False]


def test_rows_without_a_value_are_not_everybody_less_the_groups():
    """The attack: the accuracy of everybody and those of the two groups give that of three rows."""
    for missing, shown in ((0, [True, True]), (3, [True, False]), (40, [True, True])):
        people = population({"sex": np.repeat([0, 1, -1], [100, 90, missing])})
        found = decide_together({"sex": DisclosureRule(30, minimum_group_clients=2)}, people)
        assert found["sex"].shown.tolist() == shown


def test_attributes_too_many_to_be_decided_together_are_suppressed(monkeypatch):
    monkeypatch.setattr(joint_disclosure, "MAX_CELLS", 20)
    first, second = np.arange(200) % 2, np.arange(200) // 40
    people = population({"first": first, "second": second})
    rules = {"first": DisclosureRule(1), "second": DisclosureRule(1)}
    found = decide_together(rules, people)
    assert found["first"].shown.all()
    assert not found["second"].shown.any()
    assert found["second"].reason(0) == UNDECIDED


@given(st.lists(st.integers(0, 40), min_size=6, max_size=12), st.integers(2, 3), st.integers(5, 30))
@settings(max_examples=60, deadline=None)
def test_no_small_cell_of_an_intersection_follows_from_what_is_shown(cells, lines, minimum):
    width = len(cells) // lines
    table = np.array(cells[: width * lines]).reshape(lines, width)
    if not table.sum():
        return
    people, rules = crossed(table), crossed_rules(table, minimum=minimum)
    together = decide_together(rules, people)
    sizes = people.atoms(list(rules)).rows
    for atoms in smallest_recoverable(together, people, names=list(rules)):
        if len(atoms) == 1:
            assert sizes[list(atoms)].sum() >= minimum or not any(
                one.shown.any() for one in together.values()
            )


@pytest.mark.parametrize("minimum", [1, 30])
def test_one_attribute_with_large_groups_is_as_it_was(minimum):
    group = np.repeat([0, 1, 2], [31, 40, 90])
    people = population({"sex": group})
    rule = DisclosureRule(minimum, minimum_group_clients=2)
    found = decide_together({"sex": rule}, people)["sex"]
    assert found.shown.all()
    found.check(people.sizes("sex"))


def test_a_large_group_that_is_hidden_for_other_reasons_does_not_follow_either():
    """The attack: east less A is D, which was shown before with a few rows more."""
    race = np.repeat([0, 1, 2, 3], [100, 90, 60, 80])
    people = population({"race": race, "broad": np.isin(race, (1, 2)).astype(int)})
    rules = dict.fromkeys(("race", "broad"), DisclosureRule(30))
    everything = {"race": np.ones(4, dtype=np.bool_), "broad": np.ones(2, dtype=np.bool_)}
    for beforehand in (None, everything):
        found = decide_together(rules, people, beforehand=beforehand)
        assert all(one.shown.all() for one in found.values())
    without = {**everything, "race": np.array([True, True, False, False])}
    found = decide_together(rules, people, beforehand=without)
    assert found["broad"].shown.all()
    assert not found["race"].shown.any()
    assert not recoverable(race == 3, found, people)
    assert not recoverable(race == 2, found, people)


def test_one_group_that_is_hidden_for_other_reasons_is_not_everybody_less_the_others():
    race = np.repeat([0, 1, 2, 3], [100, 90, 60, 80])
    people, rule = population({"race": race}), DisclosureRule(30)
    beforehand = {"race": np.array([True, True, True, False])}
    found = decide_together({"race": rule}, people, beforehand=beforehand)["race"]
    assert found.shown.tolist() == [True, True, False, False]


def recoverable(rows, found, people: Population) -> bool:
    """Whether a reader of all shown groups and of everybody can work out these rows' figures."""
    shown = [
        people.codes[name] == group
        for name, one in found.items()
        for group in np.flatnonzero(one.shown & (one.rows > 0))
    ]
    matrix = np.stack([np.ones(len(rows)), *shown]).T.astype(float)
    weights = np.linalg.lstsq(matrix, rows.astype(float), rcond=None)[0]
    return bool(np.abs(matrix @ weights - rows).max() < 1e-9)


def test_of_groups_alike_that_of_the_attribute_named_last_is_suppressed():
    """Forty of one are forty of the other, but for five."""
    columns = {
        "first": np.repeat([0, 0, 1, 1], [35, 5, 5, 100]),
        "second": np.repeat([0, 1, 0, 1], [35, 5, 5, 100]),
        "whole": np.zeros(145, dtype=np.int64),
    }
    for names in permutations(columns):
        found = decide_together(dict.fromkeys(names, DisclosureRule(30)), population(columns))
        kept, lost = (name for name in names if name != "whole")
        assert found["whole"].shown.all()
        assert found[kept].shown.all()
        assert not found[lost].shown.any()


def test_no_attribute_is_no_decision():
    people = population({"sex": np.arange(60) % 2})
    assert decide_together({}, people) == {}
    assert len(people.atoms([])) == 1


def test_rows_without_a_value_of_two_attributes_do_not_follow_either():
    draw = np.random.default_rng(2)
    columns = {name: draw.integers(0, size, 540) for name, size in (("a", 3), ("b", 4), ("c", 2))}
    columns["a"][:12] = -1
    columns["b"][8:28] = -1
    people = population(columns)
    rules = {name: DisclosureRule(30) for name in columns}
    alone = {name: rule.decide(people.sizes(name)) for name, rule in rules.items()}
    assert all(one.shown.all() for one in alone.values())
    found = decide_together(rules, people)
    missing = {name: int((column < 0).sum()) for name, column in columns.items()}
    assert missing == {"a": 12, "b": 20, "c": 0}
    # Everybody is the sum over c, so neither a nor b may be shown whole.
    assert found["c"].shown.all()
    assert not found["a"].shown.all()
    assert not found["b"].shown.all()


def test_what_takes_too_long_suppresses_the_last_attribute(monkeypatch):
    monkeypatch.setattr(joint_disclosure, "MAX_WORK", 30)
    race = np.repeat([0, 1, 2, 3], [100, 90, 26, 4])
    people = population({"race": race, "broad": np.isin(race, (1, 2)).astype(int)})
    found = decide_together({"race": DisclosureRule(30), "broad": DisclosureRule(30)}, people)
    assert found["broad"].reason(0) == UNDECIDED
    assert found["race"].shown.tolist() == [True, True, False, False]
