"""Which groups are disclosed, by size and as cells of an intersection."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.fairness.disclosure import DisclosureRule, attribute_rule
from fedaudit.fairness.gaps import NO_OUTCOME, GroupScores, gaps, score_gaps
from fedaudit.fairness.intervals import rate_intervals, score_intervals
from fedaudit.fairness.suppression import IntersectionTable, combination_of, shown_groups
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from tests.fairness.disclosures import disclosed, disclosed_clients
from tests.spec.documents import HOSPITAL

GROUPS = {
    "sex": ("F", "M"),
    "race": ("a", "b", "c"),
    "sex_race": tuple(f"{sex} {race}" for sex in "FM" for race in "abc"),
}


def spec(**fairness: object) -> ExperimentSpec:
    """By sex and race, of numbers above 7000 or as given."""
    favourable = {"op": "ge", "value": 7000}
    named = {"sensitive": ["sex", "race"], "favourable": favourable, **fairness}
    return parse_spec({**HOSPITAL, "fairness": named})


LYING = IntersectionTable((2, 3), ((0,), (1,)))


def test_groups_are_those_that_suppression_shows():
    rows = np.random.default_rng(1).integers(0, 90, (50, 6))
    for combination in (None, LYING):
        found = disclosed(rows, minimum_group_size=30, combination=combination)
        expected = shown_groups(rows, minimum_group_size=30, combination=combination)
        assert (found.shown == expected).all()
        assert found.shown.any()
        assert not found.shown.all()


@pytest.mark.parametrize(("leaves_out", "why"), [(False, "trained"), (True, "or all of its rows")])
def test_a_held_out_client_without_a_counted_row_is_not_said_to_have_trained(leaves_out, why):
    rule = DisclosureRule(30, of_clients=True, leaves_out=leaves_out)
    found = rule.decide(np.array([40, 0, 50]))
    assert why in found.reason(1)
    assert (found.reason(1) == "trained, not scored") is not leaves_out


def test_a_group_without_rows_is_not_one_that_is_suppressed():
    found = disclosed([40, 0, 50], minimum_group_size=30)
    assert found.shown.tolist() == [True, False, True]
    assert not found.suppresses
    assert disclosed([1, 1], minimum_group_size=30).suppresses
    rule = DisclosureRule(30)
    assert [rule.is_small(size) for size in (0, 1, 29, 30)] == [False, True, True, False]
    assert [rule.is_large(size) for size in (0, 29, 30)] == [False, False, True]


def test_the_rule_of_an_attribute_is_what_the_spec_says_of_it():
    experiment = spec(reference_group="F", minimum_group_size=7, intersections=[["sex", "race"]])
    sex, race, both = (attribute_rule(experiment, name, GROUPS) for name in GROUPS)
    assert (sex.reference, sex.combination) == (0, None)
    assert sex.has_favourable_outcome
    assert not attribute_rule(spec(favourable=None), "sex", GROUPS).has_favourable_outcome
    # A reference group belongs to one attribute.
    assert (race.reference, race.combination, race.minimum_group_size) == (None, None, 7)
    assert both.combination == LYING


@pytest.mark.parametrize("other", ["a population with other rows", "a population of another shape"])
def test_a_decision_about_one_population_does_not_serve_another(other):
    counts = np.random.default_rng(3).integers(1, 9, (30, 3, 4))
    scores = GroupScores(counts.sum(-1), None, np.ones((30, 3)))
    wrong = disclosed_clients(counts[1:] if other.endswith("rows") else counts[:, :2])
    for use in (
        lambda: gaps(counts.sum(axis=0), wrong),
        lambda: score_gaps(scores, wrong, root_mean=False),
        lambda: rate_intervals(counts, wrong, level=0.9),
        lambda: score_intervals(scores, wrong, root_mean=False, level=0.9),
    ):
        with pytest.raises(ValueError, match=r"whose disclosure was decided|cannot reshape"):
            use()


def test_without_a_favourable_outcome_rates_have_nothing_to_show():
    """The rows are known from the scores; the counts, of which there are none, are all 0."""
    counts = np.zeros((30, 2, 4), dtype=np.int64)
    disclosure = DisclosureRule(1, has_favourable_outcome=False).decide(np.array([90, 60]))
    (figures,) = gaps(counts.sum(axis=0), disclosure)
    assert {figure.reason for figure in figures} == {NO_OUTCOME}
    intervals = rate_intervals(counts, disclosure, level=0.9)
    assert set(intervals.values()) == {NO_OUTCOME}


def test_groups_of_too_few_clients_are_suppressed_and_the_reason_says_so():
    rows, clients = np.array([100, 50, 40, 300]), np.array([3, 3, 2, 1])
    rule = DisclosureRule(30, minimum_group_clients=2)
    found = rule.decide(rows, clients=clients)
    assert found.shown.tolist() == [True, True, False, False]  # the smallest other one besides
    assert found.reason(3) == "suppressed: fewer than 30 scored rows or 2 clients"
    assert found.reason(2).startswith("hidden to protect a smaller group, of fewer than 30")
    assert rule.decide(rows, clients=clients + 1).shown.all()
    # Clients that are unknown, or of which one is enough.
    for asked in (rule.decide(rows), DisclosureRule(30).decide(rows, clients=clients)):
        assert asked.shown.all()
        assert "clients" not in asked.reason(0)


def test_what_something_else_speaks_against_is_suppressed():
    for allowed in ([True, False, True, True], [True] * 4):
        found = DisclosureRule(30).decide(np.array([100, 50, 40, 300]), allowed=np.array(allowed))
        # The smallest other one is hidden beside it.
        assert found.shown.tolist() == [True, all(allowed), all(allowed), True]


def test_a_reference_is_one_of_the_groups():
    for reference in (-1, 3):
        with pytest.raises(ValueError, match="give a place below 3"):
            DisclosureRule(30, reference=reference).decide(np.array([50, 60, 70]))


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ([30, 31, 100], [True, True, True]),
        ([29, 31, 100], [False, False, True]),  # the smallest other is hidden beside it
        ([29, 100, 31, 5], [False, True, True, False]),
        ([29, 30], [False, False]),
        ([29], [False]),
        ([0, 40, 50], [False, True, True]),  # nobody is hidden by an empty group
        ([0, 1, 40, 50], [False, False, False, True]),
        # Together the hidden have fewer than 30 rows, which the total would tell all the same.
        ([10, 15, 40, 50], [False, False, False, True]),
        ([10, 20, 40, 50], [False, False, True, True]),
        ([], []),
    ],
)
def test_small_groups_are_hidden_with_their_complement(rows, shown):
    found = shown_groups(np.array(rows, dtype=np.int64), minimum_group_size=30) if rows else []
    assert list(found) == shown


@given(
    st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=1, max_size=8),
    st.integers(1, 40),
)
def test_never_is_one_group_hidden_alone_nor_few_rows(rounds, minimum):
    rows = np.array(rounds, dtype=np.int64)
    shown = shown_groups(rows, minimum_group_size=minimum)
    assert (rows[shown] >= minimum).all()
    hidden = ((rows > 0) & ~shown).sum(axis=-1)
    with_rows = (rows > 0).sum(axis=-1)
    assert ((hidden != 1) | (with_rows == 1)).all()
    together = np.where(shown, 0, rows).sum(axis=-1)
    assert ((together == 0) | (together >= minimum) | ~shown.any(axis=-1)).all()


PARTS = {**GROUPS, "age": ("young", "old")}
SIZE = 30


def test_how_combinations_lie():
    parts = {"sex_race": ("sex", "race"), "age_race_sex": ("age", "race", "sex")}
    assert combination_of("race", parts, PARTS) is None
    assert combination_of("sex_race", parts, PARTS) == LYING
    three = combination_of("age_race_sex", parts, PARTS)
    assert three == IntersectionTable((2, 3, 2), ((0,), (1,), (2,), (1, 2)))
    assert three.of_margin((1, 2)) == IntersectionTable((3, 2), ((0,), (1,)))


def test_lines_are_the_cells_of_each_total():
    lying = IntersectionTable((2, 3, 2), ((1,), (0, 2)))
    cells = list(product(range(2), range(3), range(2)))
    for place, line in enumerate(lying.lines((1,))):
        assert [cells[cell][1] for cell in line] == [place] * 4
    for (first, last), line in zip(product(range(2), range(2)), lying.lines((0, 2)), strict=True):
        assert [(cells[cell][0], cells[cell][2]) for cell in line] == [(first, last)] * 3


@pytest.mark.parametrize(
    ("rows", "hidden"),
    [
        # Two cells are small, so none is alone; but each is the only one of its race: 70 of race b
        # less 60 would be the 10, and 70 of race c less 50 the 20.
        ([40, 10, 50, 45, 60, 20], {1, 2, 4, 5}),
        # One takes a rectangle with it.
        ([5, 100, 100, 100, 100, 100], {0, 1, 3, 4}),
        ([100, 5, 100, 100, 100, 100], {0, 1, 3, 4}),
        ([100, 100, 100, 100, 5, 100], {0, 1, 3, 4}),
        ([40, 30, 50, 45, 60, 70], set()),
        ([40, 0, 0, 45, 60, 70], {1, 2}),
    ],
)
def test_a_small_cell_does_not_follow_from_the_totals_of_its_parts(rows, hidden):
    shown = shown_groups(np.array(rows), minimum_group_size=SIZE, combination=LYING)
    assert set(np.flatnonzero(~shown)) == hidden


def assert_none_alone(shown, rows, line):
    hidden = [cell for cell in line if rows[cell] and not shown[cell]]
    together = sum(rows[cell] for cell in hidden)
    stated = len(hidden) == 1 or 0 < together < SIZE
    assert not stated or not any(shown[cell] for cell in line)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), most=st.sampled_from([40, 80, 300]))
def test_no_hidden_cell_is_the_only_one_of_a_total(seed, most):
    parts = {"sex_race": ("sex", "race"), "sex_race_age": ("sex", "race", "age")}
    random = np.random.default_rng(seed)
    for name, cells in (("sex_race", 6), ("sex_race_age", 12)):
        lying = combination_of(name, parts, PARTS)
        rows = random.integers(0, most, cells) * random.integers(0, 2, cells)
        shown = shown_groups(rows, minimum_group_size=SIZE, combination=lying)
        assert (rows[shown] >= SIZE).all()
        assert_none_alone(shown, rows, range(cells))
        for margin in lying.margins:
            lines = lying.lines(margin)
            totals = shown_groups(
                rows[lines].sum(axis=1),
                minimum_group_size=SIZE,
                combination=lying.of_margin(margin),
            )
            for line, stated in zip(lines, totals, strict=True):
                assert_none_alone(shown, rows, line)
                assert stated or not shown[line].any(), "cells of a hidden total would add up to it"


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.parametrize(
    "lying", [None, IntersectionTable((2, 3, 2), ((0,), (1,), (2,), (0, 1)))], ids=["no", "three"]
)
def test_rounds_are_suppressed_one_by_one(lying, seed):
    rows = np.random.default_rng(seed).integers(0, 70, (5, 12))
    block = shown_groups(rows, minimum_group_size=SIZE, combination=lying)
    for one, of_block in zip(rows, block, strict=True):
        alone = shown_groups(one, minimum_group_size=SIZE, combination=lying)
        assert (alone == of_block).all()
