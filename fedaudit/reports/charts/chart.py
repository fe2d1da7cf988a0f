"""A chart on the report page: a drawing, a text description and the table of its figures."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedaudit.reports.charts.svg import element, number, together

WIDTH = 420.0
"""Width of every drawing in SVG units, about one pixel each on a phone, so that text stays legible.
"""


@dataclass(frozen=True)
class Drawing:
    """SVG elements in a box from (0, 0) to (WIDTH, height)."""

    body: Markup
    height: float


@dataclass(frozen=True)
class FigureTable:
    """The figures behind a chart; the first cell of a row is its header."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""
    """A note on what the table omits."""

    @property
    def short(self) -> bool:
        """Whether the table stays beside its chart on paper, rather than at the end."""
        return len(self.rows) <= 12


@dataclass(frozen=True)
class Chart:
    """One chart. `name` is unique on its page and has letters, digits and `-` only."""

    name: str
    title: str
    description: str
    """The title of the drawing, for readers who cannot see it."""
    caption: str
    """What the drawing shows, in words."""
    drawing: Drawing
    table: FigureTable

    @property
    def svg(self) -> Markup:
        """The drawing as an image with a title and a description."""
        title, described = f"{self.name}-title", f"{self.name}-description"
        return element(
            "svg",
            element("title", self.title, id=title),
            element("desc", self.description, id=described),
            self.drawing.body,
            viewBox=f"0 0 {number(WIDTH)} {number(self.drawing.height)}",
            role="img",
            aria_labelledby=f"{title} {described}",
        )


def joined(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def drawn(*parts: Markup, height: float) -> Drawing:
    """Combine these parts into one drawing."""
    return Drawing(together(*parts), height)
