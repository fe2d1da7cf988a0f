"""Charts of what a reader chooses among fields and figures of several runs."""

import io
import re
import sys
from dataclasses import replace
from functools import partial
from typing import Any
from xml.etree import ElementTree

import pytest
import resvg_py
from markupsafe import Markup
from PIL import Image, ImageChops
from resvg_py import svg_to_bytes

from fedaudit.reports.charts.drawing import Chart
from fedaudit.reports.charts.report_charts import (
    Choice,
    Measured,
    Point,
    chosen,
    chosen_chart,
    offers,
)
from fedaudit.reports.page.picture_files import PictureUnavailableError, picture_file

NU, K = "privacy.noise_multiplier", "training.hypotheses"
GAP = "equalized_odds_difference[group]"
FIGURES = ["leakage_max", GAP]


def points() -> list[Point]:
    """Two numbers of hypotheses with three multipliers each, and one run without noise."""
    found = [Point(1, {NU: "", K: "1"}, {GAP: Measured(0.9, 0.8, 1.0)}, front=False)]
    for k in ("1", "2"):
        for nu in (1, 3, 5):
            gap = Measured(0.95 if k == "1" else 0.004, 0.0, None)
            figures = {GAP: gap, "leakage_max": Measured(60 / nu, None, None)}
            fields = {NU: str(nu), K: k, "noise": "simulation"}
            found.append(Point(len(found) + 1, fields, figures, front=(k, nu) == ("2", 5)))
    return found


def choice(**asked: Any) -> Choice:
    """What is drawn where this was asked for."""
    found = chosen(points(), offers(points(), FIGURES), asked, preferred="noise_multiplier")
    assert found is not None
    return found


def drawn(among: list[Point] | None = None, asked: Choice | None = None, **fields: Any) -> Chart:
    """The chart of these points, or of `points`."""
    chart = chosen_chart(among or points(), asked or choice(**fields))
    assert chart is not None
    return chart


def test_gaps_over_noise_have_a_line_for_each_number_of_hypotheses_by_themselves() -> None:
    assert choice(y=GAP) == Choice(NU, GAP, K, "")
    chart = drawn(y=GAP)
    assert len(re.findall('<path d="M[^"]*" class="s[01]"', chart.svg)) == 2
    assert ">hypotheses 1<" in chart.svg
    assert ">hypotheses 2<" in chart.svg
    # The run without noise has no multiplier.
    assert "1 of 7 points are not drawn." in chart.caption
    assert [row[0] for row in chart.table.rows] == ["2", "3", "4", "5", "6", "7"]
    assert chart.table.head == ("No.", NU, K, GAP, "Interval")


def test_what_is_not_offered_is_not_drawn() -> None:
    assert choice(x="<script>", y="seed", lines="y", only="nonsense") == choice()
    assert chosen([], offers([], []), {}, preferred="") is None
    nowhere = Choice(NU, "leakage_max", K, f"{K} = 9")
    assert chosen_chart(points(), nowhere) is None


def test_a_target_is_not_drawn_beside_what_it_asked_for() -> None:
    asked, fields = ["epsilon_max", "accuracy"], ("1", "2", "4")
    figures = {name: Measured(0.5, None, None) for name in asked}
    made = [Point(1, {"privacy.target.epsilon": one}, figures, front=False) for one in fields]
    found = chosen(made, offers(made, asked), {}, preferred="noise_multiplier")
    assert found == Choice("privacy.target.epsilon", "accuracy")


def test_a_figure_across_gives_a_scatter_chart_with_the_front() -> None:
    chart = drawn(x="leakage_max", y=GAP, lines=K)
    assert "<path" not in chart.svg
    # One in the legend.
    assert chart.svg.count('class="ring"') == 2
    assert "on the front" in chart.svg


def test_a_filter_keeps_the_points_of_one_value() -> None:
    assert {row[2] for row in drawn(y=GAP, only=f"{K} = 2").table.rows} == {"2"}


def test_values_that_are_no_numbers_are_drawn_side_by_side() -> None:
    named = [
        Point(at, {"model": name}, {"accuracy": Measured(0.1 * at, None, None)}, front=False)
        for at, name in enumerate(("mlp", "<b>", "linear"), start=1)
    ]
    asked = chosen(named, offers(named, ["accuracy"]), {}, preferred="noise_multiplier")
    chart = drawn(named, asked)
    assert re.findall("(mlp|linear|&lt;b&gt;)</text>", chart.svg) == ["mlp", "&lt;b&gt;", "linear"]


def test_a_picture_is_a_file_that_needs_nothing_else() -> None:
    chart = drawn(y=GAP)
    text = picture_file(chart, "svg").decode()
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert float(root.attrib["width"]) > 0
    assert "var(" not in text
    assert "#0072b2" in text


def test_letters_are_seen_on_a_machine_without_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resvg_py, "svg_to_bytes", partial(svg_to_bytes, skip_system_fonts=True))
    chart = drawn(y=GAP)
    mute = re.sub("<text[^>]*>[^<]*</text>", "", chart.drawing.body)
    silent = replace(chart, drawing=replace(chart.drawing, body=Markup(mute)))
    shown, empty = (Image.open(io.BytesIO(picture_file(one, "png"))) for one in (chart, silent))
    assert shown.size == empty.size == tuple(3 * round(one) for one in (420, chart.drawing.height))
    ink = ImageChops.difference(shown.convert("L"), empty.convert("L")).histogram()
    assert sum(ink[128:]) > 2000


def test_without_its_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    chart = drawn(y=GAP)
    with pytest.raises(PictureUnavailableError, match=r"WHEEL\[pdf\]"):
        picture_file(chart, "png")
    assert picture_file(chart, "svg")
