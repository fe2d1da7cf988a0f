"""A report's pictures as files: as SVG that needs nothing else, and as PNG. A PNG needs the extra
`pdf`."""

import re
from typing import Literal, assert_never

from fedaudit import how_to_install
from fedaudit.reports.charts.drawing import Chart
from fedaudit.reports.page.style_sheets import paper_chart_style

PictureForm = Literal["svg", "png"]
MISSING = (
    "a PNG needs resvg-py and fontpkg-open-sans, which are not installed here: "
    f"{how_to_install('pdf')}; the SVG of the same picture needs neither"
)
_ZOOM = 3.0
"""Pixels for each unit of a drawing: sharp on a slide and in print."""


class PictureUnavailableError(RuntimeError):
    """The library that makes PNG files, or its font, is not installed."""


def picture_file(chart: Chart, form: PictureForm) -> bytes:
    """The chart in the style of paper. Raises PictureUnavailableError for a PNG without the
    extra."""
    match form:
        case "svg":
            return _as_svg(chart).encode()
        case "png":
            return _as_png(chart)
        case _:
            assert_never(form)


def _as_svg(chart: Chart) -> str:
    size = f'width="{chart.drawing.width:g}" height="{chart.drawing.height:g}"'
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
    style = " ".join(paper_chart_style().split())
    return re.sub("^<svg ([^>]*)>", rf"{begin}\1><style>{style}</style>", str(chart.svg), count=1)


def _as_png(chart: Chart) -> bytes:
    """PNG with a font that comes with the extra, as a machine may have none. Letters that it lacks
    come from the machine's fonts."""
    try:
        import fontpkg_open_sans
        from resvg_py import svg_to_bytes
    except ImportError as error:
        raise PictureUnavailableError(MISSING) from error
    fonts = (fontpkg_open_sans.ROOT / "files").glob("OpenSans[[]*.ttf")
    family = fontpkg_open_sans.FAMILY
    # A style sheet's first family that the machine has would win, and differ between machines.
    svg = _as_svg(chart).replace("system-ui", f'"{family}"', 1)
    return svg_to_bytes(
        svg_string=svg,
        background="white",
        zoom=_ZOOM,
        font_files=[str(one) for one in fonts],
        font_family=family,
        sans_serif_family=family,
    )
