"""A picture as a file of its own: drawings of the report's kind side by side, in its style."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedaudit.reports.charts.drawing import WIDTH, Drawing, element, label, number
from fedaudit.reports.page.style_sheets import paper_chart_style

_COLUMNS, _GAP, _TITLE, _EDGE = 2, 28.0, 26.0, 12.0
_STYLE = (
    "svg{font:12px sans-serif;fill:#1b2320}.published{stroke:#1b2320;stroke-width:1.75}"
    ".title{font-weight:600;font-size:13.5px}"
)


@dataclass(frozen=True)
class Panel:
    """One drawing of a picture, and its caption."""

    title: str
    drawing: Drawing


def picture(panels: Sequence[Panel], *, described: str) -> str:
    """The panels as one SVG file, two in a row."""
    parts, top = [], _EDGE
    for start in range(0, len(panels), _COLUMNS):
        row = panels[start : start + _COLUMNS]
        for column, panel in enumerate(row):
            at = f"translate({number(_EDGE + column * (WIDTH + _GAP))} {number(top)})"
            title = label(panel.title, 0, 13, kind="title")
            moved = element("g", panel.drawing.body, transform=f"translate(0 {number(_TITLE)})")
            parts.append(element("g", title, moved, transform=at))
        top += _TITLE + max(panel.drawing.height for panel in row) + _GAP
    columns = min(_COLUMNS, len(panels))
    wide = number(2 * _EDGE + columns * WIDTH + (columns - 1) * _GAP)
    high = number(top - _GAP + _EDGE)
    background = element("rect", width=wide, height=high, fill="#ffffff")
    svg = element(
        "svg",
        element("title", described),
        element("style", Markup(_style())),
        background,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {wide} {high}",
        width=wide,
        height=high,
        role="img",
    )
    return f"{svg}\n"


def _style() -> str:
    return " ".join((paper_chart_style() + _STYLE).split())
