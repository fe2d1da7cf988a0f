"""Suppression where groups add up to other groups that are shown."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.fairness.suppression import (
    IntersectionTable,
    combination_of,
    shown_cells,
    shown_groups,
)

GROUPS = {
    "sex": ("F", "M"),
    "race": ("a", "b", "c"),
    "age": ("young", "old"),
    "sex_race": tuple("123456"),
    "sex_race_age": tuple(range(12)),
}
SIZE = 30


def test_how_combinations_lie():
    parts = {"sex_race": ("sex", "race"), "age_race_sex": ("age", "race", "sex")}
    assert combination_of("race", parts, GROUPS) is None
    assert combination_of("sex_race", parts, GROUPS) == IntersectionTable((2, 3), ((0,), (1,)))
    three = combination_of("age_race_sex", parts, GROUPS)
    assert three == IntersectionTable((2, 3, 2), ((0,), (1,), (2,), (1, 2)))
    assert three.of_margin((1, 2)) == IntersectionTable((3, 2), ((0,), (1,)))


def test_lines_are_the_cells_of_each_total():
    lying = IntersectionTable((2, 3, 2), ((1,), (0, 2)))
    cells = list(product(range(2), range(3), range(2)))
    for place, line in enumerate(lying.lines((1,))):
        assert [cells[cell][1] for cell in line] == [place] * 4
    for (first, last), line in zip(product(range(2), range(2)), lying.lines((0, 2)), strict=True):
        assert [(cells[cell][0], cells[cell][2]) for cell in line] == [(first, last)] * 3


def test_a_small_cell_does_not_follow_from_the_totals_of_its_parts():
    """Two cells are small, so none is alone; but each is the only one of its race."""
    rows = np.array([40, 10, 50, 45, 60, 20])  # F: a b c, M: a b c
    alone = shown_groups(rows, minimum_group_size=SIZE)
    assert alone.tolist() == [True, False, True, True, True, False]
    shown = shown_groups(
        rows, minimum_group_size=SIZE, combination=IntersectionTable((2, 3), ((0,), (1,)))
    )
    # 70 of race b less 60 would be the 10, and 70 of race c less 50 the 20.
    assert shown.tolist() == [True, False, False, True, False, False]


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
        lying = combination_of(name, parts, GROUPS)
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


def test_where_nothing_is_small_nothing_is_hidden():
    rows = np.array([[40, 30, 50, 45, 60, 70], [40, 0, 0, 45, 60, 70]])
    shown = shown_groups(
        rows, minimum_group_size=SIZE, combination=IntersectionTable((2, 3), ((0,), (1,)))
    )
    assert (shown == (rows > 0)).all()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_rounds_are_suppressed_one_by_one(seed):
    rows = np.random.default_rng(seed).integers(0, 70, (5, 12))
    lying = IntersectionTable((2, 3, 2), ((0,), (1,), (2,), (0, 1)))
    block = shown_groups(rows, minimum_group_size=SIZE, combination=lying)
    for one, of_block in zip(rows, block, strict=True):
        alone = shown_groups(one, minimum_group_size=SIZE, combination=lying)
        assert (alone == of_block).all()


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 5), groups=st.integers(2, 6))
def test_no_cell_of_a_hypothesis_follows_from_a_total(seed, k, groups):
    random = np.random.default_rng(seed)
    rows = random.integers(0, 90, (k, groups)) * random.integers(0, 2, (k, groups))
    totals = shown_groups(rows.sum(axis=0), minimum_group_size=SIZE)
    shown = shown_cells(rows, totals, minimum_group_size=SIZE)
    assert (rows[shown] >= SIZE).all()
    assert not shown[:, ~totals].any()
    for axis in (shown, shown.T):
        of_rows = rows if axis is shown else rows.T
        for cells, counted in zip(axis, of_rows, strict=True):
            assert_none_alone(cells, counted, range(len(cells)))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_within_a_hypothesis_combinations_do_not_add_up_to_what_is_hidden(seed):
    lying = IntersectionTable((2, 3), ((0,), (1,)))
    random = np.random.default_rng(seed)
    rows = random.integers(0, 150, (3, 6)) * (random.random((3, 6)) < 0.8)
    totals = shown_groups(rows.sum(axis=0), minimum_group_size=SIZE, combination=lying)
    shown = shown_cells(rows, totals, minimum_group_size=SIZE, combination=lying)
    assert (rows[shown] >= SIZE).all()
    for margin in lying.margins:
        lines = lying.lines(margin)
        sums = rows[:, lines].sum(axis=-1)
        of_part = shown_cells(
            sums,
            shown_groups(sums.sum(axis=0), minimum_group_size=SIZE),
            minimum_group_size=SIZE,
        )
        for hypothesis, place in product(range(3), range(len(lines))):
            assert_none_alone(shown[hypothesis], rows[hypothesis], lines[place])
            assert of_part[hypothesis, place] or not shown[hypothesis, lines[place]].any()


def test_a_hypothesis_that_predicts_few_of_a_group_hides_them_everywhere():
    rows = np.array([[350, 3], [2, 90]])
    shown = shown_cells(rows, np.array([True, True]), minimum_group_size=SIZE)
    assert not shown.any()
    apart = shown_cells(
        np.array([[350, 0], [0, 90]]), np.array([True, True]), minimum_group_size=SIZE
    )
    assert apart.tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("cell", [0, 1, 4])
def test_one_small_cell_takes_a_rectangle_with_it(cell):
    rows = np.full(6, 100)
    rows[cell] = 5
    shown = shown_groups(
        rows, minimum_group_size=SIZE, combination=IntersectionTable((2, 3), ((0,), (1,)))
    )
    assert np.count_nonzero(~shown) == 4
