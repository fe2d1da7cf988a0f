"""Axes: ticks that cover the values, and positions that stay on the axis."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.reports.charts.drawing import round_scale, value_scale

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_every_value_lies_on_the_axis_in_the_order_of_values(values):
    scale = value_scale(values, start=200.0, end=30.0)
    places = [scale(value) for value in sorted(values)]
    assert all(30 <= place <= 200 for place in places)
    assert places == sorted(places, reverse=True)


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_ticks_are_few_and_their_labels_differ(values):
    scale = value_scale(values, start=200.0, end=30.0)
    assert all(a < b for a, b in itertools.pairwise(scale.ticks))
    assert 2 <= len(scale.ticks) <= 8
    assert len(set(scale.texts())) == len(scale.ticks)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0.0, 1.0], ("0.0", "0.5", "1.0")),
        ([0.086, 0.155], ("0.08", "0.10", "0.12", "0.14", "0.16")),
        ([3.0], ("2.6", "2.8", "3.0", "3.2", "3.4")),
        ([0.0], ("−1.0", "−0.5", "0.0", "0.5", "1.0")),
        ([0.01, 5.0], ("0.01", "0.1", "1", "10")),
    ],
)
def test_ticks_are_round_numbers(values, texts):
    assert value_scale(values, start=0.0, end=1.0).texts() == texts


def test_a_share_covers_all_of_zero_to_one():
    scale = value_scale([0.001, 0.7], start=0.0, end=100.0, whole=(0, 1))
    assert (scale.low, scale.high, scale.logarithmic) == (0, 1, False)


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_rounds_are_marked_by_whole_numbers_within(first, further):
    scale = round_scale(first, first + further, start=50.0, end=400.0)
    assert 1 <= len(scale.ticks) <= 8
    assert all(tick == int(tick) and first <= tick <= first + further for tick in scale.ticks)
    assert all(50 <= scale(tick) <= 400 for tick in scale.ticks)
