"""The legend of a drawing: the meaning of lines and marks, in rows above it."""

from collections.abc import Sequence

from markupsafe import Markup

from fedaudit.reports.charts.chart import WIDTH
from fedaudit.reports.charts.svg import element, label, line, shortened, together

SERIES = 6
"""Number of distinct lines and marks; each has a colour, and a dash pattern or shape of its own."""
ROW = 18.0
_CHARACTER = 6.6
_SAMPLE = 28.0
_MAX_LENGTH = 44


def line_sample(kind: str, x: float, y: float) -> Markup:
    """A segment of a line."""
    return line(x, y, x + 22, y, kind)


def mark(place: int, x: float, y: float) -> Markup:
    """The mark of a series around a point: circle, square, diamond, triangle, and so on."""
    kind = f"d{place % SERIES}"
    corners = {
        1: "-4,-4 4,-4 4,4 -4,4",
        2: "0,-5.5 5.5,0 0,5.5 -5.5,0",
        3: "0,-5 5,4 -5,4",
        4: "0,5 5,-4 -5,-4",
        5: "-5,-2 5,-2 5,2 -5,2",
    }.get(place % SERIES)
    if corners is None:
        return element("circle", cx=x, cy=y, r=4.2, class_=kind)
    return element("polygon", points=_moved(corners, x, y), class_=kind)


def legend(entries: Sequence[tuple[Markup, str]]) -> tuple[Markup, float]:
    """Rows of samples with their names, and the height they take.

    A sample is drawn around (0, 0) and moved to its position.
    """
    parts: list[Markup] = []
    x, y = 0.0, 0.0
    for sample, name in entries:
        shown = shortened(name, _MAX_LENGTH)
        wide = _SAMPLE + _CHARACTER * len(shown) + 14
        if x and x + wide > WIDTH:
            x, y = 0.0, y + ROW
        moved = element("g", sample, transform=f"translate({x + 2:.1f} {y + 9:.1f})")
        parts += [moved, label(shown, x + _SAMPLE, y + 13)]
        x += wide
    return together(*parts), y + ROW if entries else 0.0


def _moved(corners: str, x: float, y: float) -> str:
    points = [[float(part) for part in corner.split(",")] for corner in corners.split()]
    return " ".join(f"{dx + x:.1f},{dy + y:.1f}" for dx, dy in points)
