"""Attacks on suppression by sums and differences of what one report shows, and that they fail."""

from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.fairness import joint_disclosure
from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.joint_disclosure import (
    UNDECIDED,
    Atoms,
    Exposure,
    Population,
    decide_beside,
    decide_together,
    find_exposure,
)
from fedaudit.fairness.suppression import IntersectionTable
from tests.fairness.disclosures import population

# Broad joins the first and the last of four races, and the two between.
FOUR = np.repeat([0, 1, 2, 3], [100, 90, 26, 4])
LARGE = np.repeat([0, 1, 2, 3], [100, 90, 60, 80])


def of_races(race) -> Population:
    return population({"race": race, "broad": np.isin(race, (1, 2)).astype(int)})


def together(people: Population, minimum: int = 30, *, clients: int = 1, **more):
    rule = DisclosureRule(minimum, minimum_group_clients=clients)
    return decide_together(dict.fromkeys(people.codes, rule), people, **more)


def alone(rules, people: Population):
    """Each attribute decided by itself, as if there were no other."""
    return {name: rule.decide(people.sizes(name)) for name, rule in rules.items()}


def totals_of(found, people: Population) -> tuple[np.ndarray, Atoms]:
    """What a reader has: the totals [totals, atoms] of all groups that are shown, and everybody."""
    atoms = people.atoms(list(found))
    shown = [
        atoms.members(name, np.flatnonzero(one.shown & (one.rows > 0)))
        for name, one in found.items()
    ]
    everybody = np.ones((1, len(atoms)), dtype=np.bool_)
    return np.concatenate([*shown, everybody]).astype(float), atoms


def recovered(found, people: Population, *, rows: int = 30, clients: int = 1, most: int = 99):
    """The attack: any few rows, of up to so many atoms, of which what is shown gives some
    combination, and nothing besides. Tries all of them."""
    totals, atoms = totals_of(found, people)
    whole = np.linalg.matrix_rank(totals)
    for size in range(1, min(len(atoms), most) + 1):
        for chosen in combinations(range(len(atoms)), size):
            union = np.isin(np.arange(len(atoms)), chosen)
            if not atoms.is_few(union, rows=rows, clients=clients):
                continue
            if np.linalg.matrix_rank(totals[:, ~union]) < whole:
                return set(chosen)
    return None


def crossed(table, minimum: int) -> tuple[Population, dict[str, DisclosureRule]]:
    """Two attributes and their intersection, from the rows of each cell."""
    table = np.asarray(table)
    first, second = (np.repeat(place.ravel(), table.ravel()) for place in np.indices(table.shape))
    columns = {"a": first, "b": second, "a_b": first * table.shape[1] + second}
    rule = DisclosureRule(minimum)
    own = replace(rule, combination=IntersectionTable(table.shape, ((0,), (1,))))
    return population(columns, groups={"a_b": table.size}), {"a": rule, "b": rule, "a_b": own}


def test_lines_of_an_intersection_do_not_give_a_cell_away_together():
    table = [[18, 17, 40, 40], [16, 15, 6, 50], [50, 40, 16, 17], [60, 45, 18, 19]]
    people, rules = crossed(table, 30)
    by_attribute = alone(rules, people)
    few = np.asarray(table).ravel() < 30
    assert (by_attribute["a_b"].shown == ~few).all(), "each line suppresses 30 rows of two cells"
    assert recovered(by_attribute, people, most=2) == {6}
    found = decide_together(rules, people)
    assert recovered(found, people, most=2) is None
    assert found["a_b"].shown.sum() >= 4


@given(st.lists(st.integers(0, 40), min_size=6, max_size=12), st.integers(2, 3), st.integers(5, 30))
@settings(max_examples=60, deadline=None)
def test_no_small_cell_of_an_intersection_follows_from_what_is_shown(cells, lines, minimum):
    width = len(cells) // lines
    table = np.array(cells[: width * lines]).reshape(lines, width)
    if not table.sum():
        return
    people, rules = crossed(table, minimum)
    found = decide_together(rules, people)
    if any(one.shown.any() for one in found.values()):
        assert recovered(found, people, rows=minimum, most=2) is None


def test_a_coarser_attribute_does_not_give_a_group_away():
    people = of_races(FOUR)
    by_attribute = alone(dict.fromkeys(people.codes, DisclosureRule(30)), people)
    assert by_attribute["race"].shown.tolist() == [True, True, False, False]
    assert by_attribute["broad"].shown.all()
    assert recovered(by_attribute, people) is not None
    assert recovered(together(people), people) is None


def test_of_groups_alike_that_of_the_attribute_named_last_is_suppressed():
    """Forty of one are forty of the other, but for five."""
    columns = {
        "first": np.repeat([0, 0, 1, 1], [35, 5, 5, 100]),
        "second": np.repeat([0, 1, 0, 1], [35, 5, 5, 100]),
        "whole": np.zeros(145, dtype=np.int64),
    }
    for names in permutations(columns):
        found = together(population({name: columns[name] for name in names}))
        kept, lost = (name for name in names if name != "whole")
        assert found["whole"].shown.all()
        assert found[kept].shown.all()
        assert not found[lost].shown.any()


def test_a_large_group_of_one_client_is_suppressed_and_what_would_give_it_away():
    clients = np.concatenate([np.zeros(30, int), 1 + np.arange(50) % 9, 20 + np.arange(40) % 9])
    people = population({"sex": np.repeat([0, 1, 2], [30, 50, 40])}, clients=clients)
    found = together(people, clients=2)["sex"]
    assert found.shown.tolist() == [False, True, False]
    assert "fewer than 30 scored rows or 2 clients" in found.reason(0)
    assert together(people)["sex"].shown.all()


HALVES, RACE = np.arange(203) % 2, [*np.repeat([0, 1, 2], [80, 70, 50]), *[-1] * 3]


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        # The attack: the accuracy of everybody and those of the two groups give that of three rows.
        ({"sex": np.repeat([0, 1], [100, 90])}, {"sex": [True, True]}),
        ({"sex": np.repeat([0, 1, -1], [100, 90, 3])}, {"sex": [True, False]}),
        ({"sex": np.repeat([0, 1, -1], [100, 90, 40])}, {"sex": [True, True]}),
        ({"sex": HALVES, "race": RACE}, {"sex": [True, True], "race": [True, True, False]}),
    ],
)
def test_rows_without_a_value_are_not_everybody_less_the_groups(columns, shown):
    people = population(columns)
    found = together(people, clients=2)
    assert {name: one.shown.tolist() for name, one in found.items()} == shown
    for name, one in found.items():
        one.check(people.sizes(name))


def test_rows_without_a_value_of_two_attributes_do_not_follow_either():
    draw = np.random.default_rng(2)
    columns = {name: draw.integers(0, size, 540) for name, size in (("a", 3), ("b", 4), ("c", 2))}
    columns["a"][:12] = -1
    columns["b"][8:28] = -1
    people = population(columns)
    assert all(people.sizes(name).min() >= 30 for name in columns)
    found = together(people)
    # Everybody is the sum over c, so neither a nor b may be shown whole.
    assert [found[name].shown.all() for name in columns] == [False, False, True]


@pytest.mark.parametrize(
    ("limit", "most", "columns"),
    [
        ("MAX_CELLS", 20, {"first": np.arange(200) % 2, "second": np.arange(200) // 40}),
        ("MAX_WORK", 30, of_races(FOUR).codes),
    ],
)
def test_what_takes_too_long_suppresses_the_last_attribute(monkeypatch, limit, most, columns):
    monkeypatch.setattr(joint_disclosure, limit, most)
    first, last = together(population(columns)).values()
    assert first.shown[:2].all()
    assert not last.shown.any()
    assert last.reason(0) == UNDECIDED


def test_groups_that_are_hidden_for_other_reasons_do_not_follow_either():
    """The attack: east less A is D, which was shown before with a few rows more."""
    people = of_races(LARGE)
    everything = {"race": np.ones(4, dtype=np.bool_), "broad": np.ones(2, dtype=np.bool_)}
    for beforehand in (None, everything):
        found = together(people, beforehand=beforehand)
        assert all(one.shown.all() for one in found.values())
    without = {**everything, "race": np.array([True, True, False, False])}
    found = together(people, beforehand=without)
    assert found["broad"].shown.all()
    assert not found["race"].shown.any()
    assert recovered(found, people, rows=81, most=1) is None
    # Nor is one group everybody less the others.
    of_one = population({"race": LARGE})
    beforehand = {"race": np.array([True, True, True, False])}
    found = together(of_one, beforehand=beforehand)
    assert found["race"].shown.tolist() == [True, True, False, False]


def test_no_attribute_is_no_decision():
    people = population({"sex": np.arange(60) % 2})
    assert decide_together({}, people) == {}
    assert len(people.atoms([])) == 1


# -- beside a search of all combinations ----------------------------------------------------------


def small_table(seed: int, *, clients: int) -> Population:
    """Up to five attributes of a few groups over at most 13 kinds of people, most of them few."""
    random = np.random.default_rng(seed)
    attributes = random.integers(2, 6)
    sizes, kinds = random.integers(2, 5, attributes), random.integers(6, 14)
    codes = np.stack([random.integers(0, size, kinds) for size in sizes], axis=1)
    shares = random.random(kinds)
    few, many = random.integers(1, 8, kinds), random.integers(20, 60, kinds)
    rows = np.where(shares < 0.75, few, many)
    owner = np.arange(rows.sum())
    if clients > 1:
        shares, some = random.random(kinds), random.integers(1, 60, kinds)
        rows = np.where(shares < 0.5, some, random.integers(20, 60, kinds))
        who = np.where(random.random(kinds) < 0.7, random.integers(0, 5, kinds), -1)
        whose = np.repeat(who, rows)
        owner = np.where(whose >= 0, whose, 5 + random.integers(0, 20, len(whose)))
    columns = {f"x{place}": np.repeat(codes[:, place], rows) for place in range(attributes)}
    groups = {f"x{place}": int(size) for place, size in enumerate(sizes)}
    return population(columns, clients=owner, groups=groups)


# Some of the tables from which few rows followed while atoms were eliminated in two orders only:
# the columns as they are, and from the last to the first.
@pytest.mark.parametrize(
    ("clients", "seeds"),
    [(1, (276, 1119, 1757, 2897, 2935, 3480, 3906, 4254)), (2, (50, 71, 72, 85, 128, 139, 146))],
)
def test_the_attack_a_search_of_all_combinations_finds_no_few_rows(clients, seeds):
    shown = 0
    for seed in seeds:
        people = small_table(seed, clients=clients)
        found = together(people, 20, clients=clients)
        assert recovered(found, people, rows=20, clients=clients) is None, seed
        shown += len(totals_of(found, people)[0]) - 1
    assert shown > len(seeds), "and not because nothing is shown"


@pytest.mark.parametrize("seed", range(24))
def test_figures_of_clients_beside_groups_give_no_few_rows_away(seed):
    """Clients are the groups but for few rows. What groups show by themselves is not taken back."""
    people, random = small_table(seed, clients=1), np.random.default_rng(seed)
    group = people.codes["x0"]
    elsewhere = random.integers(3, size=len(group))
    site = np.where(random.random(len(group)) < 0.05, elsewhere, group % 3)
    people = population({"x0": group, "": site}, groups={**people.groups, "": 3})
    rule = DisclosureRule(20)
    groups = decide_together({"x0": rule}, people)
    before = groups["x0"].shown.copy()
    sites = decide_beside("", rule, people, groups)
    assert (groups["x0"].shown == before).all()
    assert recovered({**groups, "": sites}, people, rows=20) is None


# -- what follows from totals, and by which of them -----------------------------------------------


def atoms_of(rows, *, clients=None) -> Atoms:
    """Atoms with so many rows, each of many clients or of those given as a list for each."""
    held = clients or [range(100 * place, 100 * place + 9) for place in range(len(rows))]
    pairs = [(place, client) for place, own in enumerate(held) for client in own]
    of_pair, client_of_pair = np.array(pairs).T
    return Atoms({}, np.asarray(rows), of_pair, client_of_pair)


def exposed(totals, atoms: Atoms, *, fixed=(), targets=(), rows=30, clients=2) -> Exposure | None:
    """By totals that are given as sets of atoms; `fixed`: places of those that stay."""

    def members(sets):
        return np.array([np.isin(np.arange(len(atoms)), list(own)) for own in sets], dtype=np.bool_)

    return find_exposure(
        members(totals).reshape(-1, len(atoms)),
        atoms,
        removable=~np.isin(np.arange(len(totals)), fixed),
        targets=members(targets).reshape(-1, len(atoms)),
        rows=rows,
        clients=clients,
    )


def places(found) -> set[int]:
    return set(np.flatnonzero(found).tolist())


def test_few_rows_of_several_atoms_follow_that_are_no_group():
    atoms = atoms_of([100, 90, 60, 12, 9])
    found = exposed([{0, 3, 4}, {0}, {1, 2}], atoms)
    assert places(found.atoms) == {3, 4}
    assert places(found.by) == {0, 1}
    assert exposed([{0, 3, 4}, {0}, {1, 2}], atoms, rows=21) is None


def test_atoms_of_one_client_are_found_among_many_others():
    """Two large atoms of one client follow together, neither by itself."""
    others = [range(40 + place, 42 + place) for place in range(6)]
    atoms = atoms_of([80] * 8, clients=[[1], *others, [1]])
    totals = [{0, 1, 2, 7}, {1, 3}, {2, 3}, {3}]
    found = exposed(totals, atoms)
    assert places(found.atoms) == {0, 7}
    assert places(found.by) == {0, 1, 2, 3}
    assert exposed(totals, atoms, clients=1) is None
    two = atoms_of([80] * 8, clients=[[1], *others, [2]])
    assert exposed(totals, two) is None


def test_a_group_is_looked_for_where_elimination_does_not_come_upon_it():
    """One total is another and nine small atoms of a hidden group; 19 more say nothing."""
    random = np.random.default_rng(0)
    totals = [set(np.flatnonzero(random.random(40) < 0.5).tolist()) for _ in range(20)]
    hidden = set(range(0, 36, 4))
    totals[0] -= hidden
    totals.append(totals[0] | hidden)
    found = exposed(totals, atoms_of([10] * 40), targets=[{0, 1}, hidden, {2}], rows=91)
    # The same of large atoms, these nine of one client and every other of a separate one.
    whose = [[99 if place in hidden else place] for place in range(40)]
    for one in (found, exposed(totals, atoms_of([80] * 40, clients=whose))):
        assert places(one.atoms) == hidden
        assert places(one.by) == {0, 20}


def test_who_is_needed_is_distinguished_from_who_can_be_done_without():
    atoms = atoms_of([100, 90, 5])
    totals = [{0, 1, 2}, {0}, {1}, {0, 1}]
    found = exposed(totals, atoms)
    assert places(found.atoms) == {2}
    assert places(found.by) == {0}, "without it nothing follows; the others replace each other"
    assert places(exposed(totals, atoms, fixed=[0]).by) == {1, 2, 3}
    assert exposed(totals, atoms, fixed=[0, 1, 2, 3]) is None


def test_one_total_gives_few_rows_only_where_it_is_few():
    atoms = atoms_of([100, 5])
    assert places(exposed([{1}], atoms).atoms) == {1}
    for none in ([{0}], [{0, 1}], []):
        assert exposed(none, atoms) is None
    assert exposed([{0}], atoms_of([100, 50])) is None
    assert places(exposed([{0, 1}], atoms_of([9, 5])).atoms) == {0, 1}
