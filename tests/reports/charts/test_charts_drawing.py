"""Drawings: everything lies within the box, and text is escaped."""

import re
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.reports.charts.drawing import WIDTH, Row, range_chart
from fedaudit.reports.charts.line_chart import Line, LinePlot, line_chart

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NAME = st.text(max_size=60)


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


def plot(*lines, rounds=None, **options):
    """A plot of all rounds."""
    count = len(lines[0].values)
    numbers = rounds or range(1, count + 1)
    return LinePlot(rounds=numbers, lines=lines, kept=range(count), unit="unit", **options)


@settings(max_examples=15)
@given(
    st.lists(st.none() | FINITE, min_size=1, max_size=30).filter(any),
    NAME.filter(lambda name: name.isprintable()),
)
def test_a_line_chart_lies_within_its_box(values, name):
    lines = [Line(name, tuple(values)), Line("b", (None,) * 30)]
    assert within(line_chart(plot(*lines, best_round=1)))


@settings(max_examples=15)
@given(st.lists(st.tuples(st.none() | FINITE, st.none() | FINITE), min_size=1, max_size=50))
def test_a_range_chart_lies_within_its_box(found):
    rows = [Row("a group", marks, remark="suppressed") for marks in found]
    drawing = range_chart(rows, kinds=("one", "two"), unit="unit", whole=(0, 1))
    assert within(drawing)
    assert texts(drawing).count("suppressed") == found.count((None, None))


def test_one_round_is_a_dot():
    drawing = line_chart(plot(Line("loss", (0.5,))))
    assert "<path" not in drawing.body
    assert drawing.body.count("<circle") == 1
    assert within(drawing)


def test_a_missing_value_breaks_the_path():
    drawing = line_chart(plot(Line("loss", (1.0, 2.0, None, 3.0, 4.0, 5.0))))
    [path] = re.findall(r' d="([^"]*)"', drawing.body)
    assert path.count("M") == 2
    assert path.count("L") == 3


def test_names_are_escaped_and_shortened():
    name = '<b onload="x">&' + "long " * 30
    for drawing in (
        line_chart(plot(Line(name, (1.0, 2.0)), Line("other", (1.0, 2.0)))),
        range_chart([Row(name, (0.5,))], kinds=("a",), unit="unit", whole=(0, 1)),
    ):
        assert "<b" not in drawing.body
        assert any(text.startswith('<b onload="x">&') for text in texts(drawing))
        assert max(map(len, texts(drawing))) <= 44
