"""Drawings: everything lies within the box, and text is escaped."""

import itertools
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.reports.charts.drawing import WIDTH, Row, range_chart, round_scale, value_scale
from fedaudit.reports.charts.report_charts import Line, drawn_rounds, line_chart

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NAME = st.text(max_size=60).filter(str.isprintable)


def points(drawing):
    """Every point that shapes are drawn by, moved as their groups are; text by its anchor."""
    root = ElementTree.fromstring(f"<svg>{drawing.body}</svg>")
    found = []

    def walk(node, dx, dy):
        moved = re.fullmatch(r"translate\((\S+) (\S+)\)", node.get("transform", ""))
        if moved:
            dx, dy = dx + float(moved[1]), dy + float(moved[2])
        pairs = [("x1", "y1"), ("x2", "y2"), ("cx", "cy"), ("x", "y")]
        mine = [(node.get(x), node.get(y)) for x, y in pairs if node.get(x) is not None]
        mine += re.findall(r"[ML]?(-?[\d.]+) (-?[\d.]+)", node.get("d", ""))
        mine += [corner.split(",") for corner in node.get("points", "").split()]
        found.extend((float(x) + dx, float(y) + dy) for x, y in mine)
        for child in node:
            walk(child, dx, dy)

    walk(root, 0.0, 0.0)
    return found


def texts(drawing):
    """All text of a drawing."""
    root = ElementTree.fromstring(f"<svg>{drawing.body}</svg>")
    return [node.text or "" for node in root.iter("text")]


def within(drawing):
    """Whether all of it lies in its box."""
    return all(0 <= x <= WIDTH and 0 <= y <= drawing.height for x, y in points(drawing))


def plot(*lines, **options):
    """A line chart from round 1 on."""
    return line_chart(lines, range(1, len(lines[0].values) + 1), unit="unit", **options)


@settings(max_examples=15)
@given(st.lists(st.tuples(FINITE, st.none() | FINITE), min_size=1, max_size=30), NAME)
def test_a_chart_lies_within_its_box(found, name):
    values = tuple(second for _, second in found)
    rows = [Row(name, marks) for marks in found]
    assert within(range_chart(rows, kinds=("one", "two"), unit="unit", whole=(0, 1)))
    if any(values):
        lines = [Line(name, values), Line("b", (None,) * len(values))]
        assert within(plot(*lines, best=1))


def test_one_round_is_a_dot_and_a_missing_value_breaks_the_path():
    drawing = plot(Line("loss", (0.5,)))
    assert "<path" not in drawing.body
    assert drawing.body.count("<circle") == 1
    assert within(drawing)
    drawing = plot(Line("loss", (1.0, 2.0, None, 3.0, 4.0, 5.0)))
    [path] = re.findall(r' d="([^"]*)"', drawing.body)
    assert (path.count("M"), path.count("L")) == (2, 3)


def test_names_are_escaped_and_shortened():
    name = '<b onload="x">&' + "long " * 30
    for drawing in (
        plot(Line(name, (1.0, 2.0)), Line("other", (1.0, 2.0))),
        range_chart([Row(name, (0.5,))], kinds=("a",), unit="unit", whole=(0, 1)),
    ):
        assert "<b" not in drawing.body
        assert any(text.startswith('<b onload="x">&') for text in texts(drawing))
        assert max(map(len, texts(drawing))) <= 44


# -- axes: ticks that cover the values, and positions that stay on the axis -----------------------


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_values_lie_on_the_axis_in_their_order_and_ticks_are_few_and_differ(values):
    scale = value_scale(values, start=200.0, end=30.0)
    places = [scale(value) for value in sorted(values)]
    assert all(30 <= place <= 200 for place in places)
    assert places == sorted(places, reverse=True)
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


@given(st.integers(1, 10**6), st.integers(1, 1000))
def test_a_long_run_is_drawn_by_at_most_500_rounds_and_each_was_validated(rounds, between):
    every, drawn = drawn_rounds(rounds, validate_every=between)
    assert len(drawn) <= 502
    assert {1, rounds} <= set(drawn)
    assert every == 1 or (rounds > 500 and every % between == 0)
