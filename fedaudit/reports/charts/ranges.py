"""Marks on horizontal lines, one row each: groups by rates, or clients by quantiles."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedaudit.reports.charts.chart import WIDTH, Drawing, drawn
from fedaudit.reports.charts.legend import legend, mark
from fedaudit.reports.charts.scale import Scale, value_scale
from fedaudit.reports.charts.series import Values
from fedaudit.reports.charts.svg import element, label, line, shortened, together

_RIGHT = WIDTH - 20
_ROW, _MANY, _LOW_ROW = 24.0, 12, 18.0
_CHARACTER = 7.2
"""A generous estimate: fonts differ, and text that is cut off is lost."""
_MAX_LENGTH = 26


@dataclass(frozen=True)
class Row:
    """One row: one value per kind of mark, None for a kind that the row lacks."""

    name: str
    marks: Values
    box: tuple[float, float] | None = None
    """The interval that is drawn as a thick stretch of the row's line."""
    span: tuple[float, float] | None = None
    """The extent of the line, if it goes beyond the outermost marks."""
    remark: str = ""
    """Text shown where the row has no mark."""


def range_chart(
    rows: Sequence[Row], *, kinds: Sequence[str], unit: str, whole: tuple[float, float] | None
) -> Drawing:
    """The drawing. `kinds` names the marks; `whole` is the least range of the axis; for
    None it is that of the values."""
    key, top = legend([(mark(place, 11, 0), name) for place, name in enumerate(kinds)])
    names = [shortened(row.name, _MAX_LENGTH) for row in rows]
    left = 16 + _CHARACTER * max(map(len, names))
    row_height = _ROW if len(rows) <= _MANY else _LOW_ROW
    bottom = top + 8 + row_height * len(rows)
    x = value_scale(_all_values(rows), start=left, end=_RIGHT, whole=whole)
    parts = [key, _grid(x, top + 4, bottom, unit)]
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        y = top + 8 + row_height * (place + 0.5)
        parts.append(label(name, left - 10, y + 4, anchor="end"))
        parts.append(_row(row, x, y))
    return drawn(*parts, height=bottom + 38)


def _all_values(rows: Sequence[Row]) -> list[float]:
    found: list[float] = []
    for row in rows:
        found += [value for value in row.marks if value is not None]
        found += (*(row.box or ()), *(row.span or ()))
    return found


def _row(row: Row, x: Scale, y: float) -> Markup:
    present = [value for value in row.marks if value is not None]
    ends = [*present, *(row.span or ())]
    if not ends:
        return label(row.remark, x.start + 4, y + 4, kind="remark")
    parts = [line(x(min(ends)), y, x(max(ends)), y, "span")]
    if row.box is not None:
        low, high = map(x, row.box)
        box = element("rect", x=low, y=y - 5, width=max(1.0, high - low), height=10, class_="box")
        parts.append(box)
    parts += [mark(k, x(value), y) for k, value in enumerate(row.marks) if value is not None]
    return together(*parts)


def _grid(x: Scale, top: float, bottom: float, unit: str) -> Markup:
    parts = []
    for value, shown in zip(x.ticks, x.texts(), strict=True):
        parts.append(line(x(value), top, x(value), bottom, "grid"))
        parts.append(label(shown, x(value), bottom + 15, anchor="middle", kind="tick"))
    middle = (x.start + x.end) / 2
    parts.append(label(unit, middle, bottom + 32, anchor="middle", kind="axis"))
    return together(*parts)
