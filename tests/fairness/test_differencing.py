"""What follows from totals that are shown together, beside a search of all combinations."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.joint_disclosure import (
    Atoms,
    Exposure,
    Population,
    decide_beside,
    decide_together,
    find_exposure,
)


def atoms_of(rows, *, clients=None) -> Atoms:
    """Atoms with so many rows, each of many clients or of those given as a list for each."""
    held = clients or [range(100 * place, 100 * place + 9) for place in range(len(rows))]
    pairs = [(place, client) for place, own in enumerate(held) for client in own]
    of_pair, client_of_pair = np.array(pairs).T
    return Atoms({}, np.asarray(rows), of_pair, client_of_pair)


def exposed(totals, atoms: Atoms, *, fixed=(), targets=(), rows=30, clients=2) -> Exposure | None:
    """By totals that are given as sets of atoms; `fixed`: places of those that stay."""
    members = np.zeros((len(totals), len(atoms)), dtype=np.bool_)
    for place, total in enumerate(totals):
        members[place, list(total)] = True
    wanted = np.zeros((len(targets), len(atoms)), dtype=np.bool_)
    for place, target in enumerate(targets):
        wanted[place, list(target)] = True
    removable = ~np.isin(np.arange(len(totals)), fixed)
    return find_exposure(
        members, atoms, removable=removable, targets=wanted, rows=rows, clients=clients
    )


def places(found) -> set[int]:
    return set(np.flatnonzero(found).tolist())


def small_table(seed: int, *, clients: int) -> Population:
    """Up to five attributes of a few groups over at most 13 kinds of people, most of them few."""
    random = np.random.default_rng(seed)
    attributes = random.integers(2, 6)
    sizes, kinds = random.integers(2, 5, attributes), random.integers(6, 14)
    codes = np.stack([random.integers(0, size, kinds) for size in sizes], axis=1)
    rows = np.where(random.random(kinds) < 0.75, *_few_and_many(random, kinds))
    if clients > 1:
        rows = np.where(
            random.random(kinds) < 0.5,
            random.integers(1, 60, kinds),
            random.integers(20, 60, kinds),
        )
    owner = np.arange(rows.sum())
    if clients > 1:
        who = np.where(random.random(kinds) < 0.7, random.integers(0, 5, kinds), -1)
        whose = np.repeat(who, rows)
        owner = np.where(whose >= 0, whose, 5 + random.integers(0, 20, len(whose)))
    columns = {f"x{place}": np.repeat(codes[:, place], rows) for place in range(attributes)}
    return Population(columns, {f"x{place}": int(size) for place, size in enumerate(sizes)}, owner)


def _few_and_many(random: np.random.Generator, kinds: int) -> tuple[np.ndarray, np.ndarray]:
    return random.integers(1, 8, kinds), random.integers(20, 60, kinds)


def recovered(totals: np.ndarray, atoms: Atoms, *, rows: int, clients: int) -> list[int] | None:
    """The attack: any few atoms of which totals [totals, atoms] give some combination, and nothing
    besides. Tries all of them."""
    whole = np.linalg.matrix_rank(totals)
    for size in range(1, len(atoms) + 1):
        for chosen in combinations(range(len(atoms)), size):
            union = np.isin(np.arange(len(atoms)), chosen)
            if not atoms.is_few(union, rows=rows, clients=clients):
                continue
            if np.linalg.matrix_rank(totals[:, ~union]) < whole:
                return list(chosen)
    return None


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
        rule = DisclosureRule(20, minimum_group_clients=clients)
        found = decide_together(dict.fromkeys(people.codes, rule), people)
        atoms = people.atoms(list(people.codes))
        groups = [
            atoms.members(name, np.flatnonzero(one.shown & (one.rows > 0)))
            for name, one in found.items()
        ]
        everybody = np.ones((1, len(atoms)), dtype=np.bool_)
        totals = np.concatenate([*groups, everybody]).astype(float)
        assert recovered(totals, atoms, rows=20, clients=clients) is None, seed
        shown += len(totals) - 1
    assert shown > len(seeds), "and not because nothing is shown"


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
    atoms = atoms_of([10] * 40)
    found = exposed(totals, atoms, targets=[{0, 1}, hidden, {2}], rows=91)
    assert places(found.atoms) == hidden
    assert places(found.by) == {0, 20}
    # The same of large atoms, these nine of one client and every other of its own.
    whose = [[99 if place in hidden else place] for place in range(40)]
    found = exposed(totals, atoms_of([80] * 40, clients=whose))
    assert places(found.atoms) == hidden
    assert places(found.by) == {0, 20}


def test_who_is_needed_is_distinguished_from_who_can_be_done_without():
    atoms = atoms_of([100, 90, 5])
    everybody, one, other, both = {0, 1, 2}, {0}, {1}, {0, 1}
    found = exposed([everybody, one, other, both], atoms)
    assert places(found.atoms) == {2}
    assert places(found.by) == {0}, "without it nothing follows; the others replace each other"
    found = exposed([everybody, one, other, both], atoms, fixed=[0])
    assert places(found.by) == {1, 2, 3}
    assert exposed([everybody, one, other, both], atoms, fixed=[0, 1, 2, 3]) is None


def test_one_total_gives_few_rows_only_where_it_is_few():
    atoms = atoms_of([100, 5])
    assert places(exposed([{1}], atoms).atoms) == {1}
    assert exposed([{0}], atoms) is None
    assert exposed([{0, 1}], atoms) is None
    assert exposed([], atoms) is None
    assert exposed([{0}], atoms_of([100, 50])) is None
    assert places(exposed([{0, 1}], atoms_of([9, 5])).atoms) == {0, 1}


@pytest.mark.parametrize("seed", range(24))
def test_figures_of_clients_beside_groups_give_no_few_rows_away(seed):
    """Searches all combinations, as above, of what groups and clients show together. What groups
    show by themselves is not taken back."""
    people = small_table(seed, clients=1)
    random = np.random.default_rng(seed)
    site = random.choice(3, len(people.clients), p=[0.6, 0.3, 0.1])
    people = replace(people, codes={**people.codes, "": site}, groups={**people.groups, "": 3})
    names = [name for name in people.codes if name][:1]
    rule = DisclosureRule(20, minimum_group_clients=1)
    groups = decide_together(dict.fromkeys(names, rule), people)
    sites = decide_beside("", rule, people, groups)
    assert {name: one.shown.tolist() for name, one in groups.items()} == {
        name: one.shown.tolist()
        for name, one in decide_together(dict.fromkeys(names, rule), people).items()
    }
    atoms = people.atoms([*names, ""])
    shown = [
        atoms.members(name, np.flatnonzero(one.shown & (one.rows > 0)))
        for name, one in {**groups, "": sites}.items()
    ]
    everybody = np.ones((1, len(atoms)), dtype=np.bool_)
    totals = np.concatenate([*shown, everybody]).astype(float)
    assert recovered(totals, atoms, rows=20, clients=1) is None
