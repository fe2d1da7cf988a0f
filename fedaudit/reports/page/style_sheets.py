"""The style sheets: of reports on a screen and on paper, and what the service's pages share."""

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "style"
_VARIABLE = re.compile(r"(--[\w-]+):\s*([^;}]+)[;}]")
_USE = re.compile(r"var\((--[\w-]+)\)")
_ON_SCREENS = re.compile(r"@media screen[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")

SHARED = ("tokens.css", "charts.css")


def style_sheet(name: str) -> str:
    """One style sheet. Raises OSError where there is none of this name."""
    return (_FOLDER / name).read_text()


@cache
def screen_style() -> str:
    """What a report's page has in its head."""
    return "".join(map(style_sheet, (*SHARED, "report.css"))).rstrip("\n")


@cache
def paper_style() -> str:
    """The rules of a report on paper, in the colours of the light scheme, without variables."""
    return _on_paper(style_sheet("print.css"))


@cache
def paper_chart_style() -> str:
    """The rules of a chart on paper."""
    return _on_paper(style_sheet("charts.css"))


def _on_paper(sheet: str) -> str:
    light = _ON_SCREENS.sub("", style_sheet("tokens.css"))
    values = {name: value.strip() for name, value in _VARIABLE.findall(light)}
    return _USE.sub(lambda found: values[found[1]], _ON_SCREENS.sub("", sheet))
