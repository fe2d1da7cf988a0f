"""The report as one self-contained page: no script, nothing fetched, fit for paper."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from fedaudit.reports.charts.chart import figure_text
from fedaudit.reports.charts.choose import charts_of
from fedaudit.reports.series import Series

_OUTCOMES = {"pass": "pass", "fail": "fail", "insufficient_evidence": "insufficient evidence"}
_ENDINGS = {
    "rounds": "all rounds done",
    "patience": "patience ran out",
    "budget": "the epsilon budget",
    "diverged": "divergence",
}


def render(document: Mapping[str, Any], series: Series | None = None) -> str:
    """The page of a report document (version 1). Every value in it is escaped.

    `series`: what the rounds came to. Without it there are no curves over rounds.
    """
    return _template().render(report=document, charts=charts_of(document, series))


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = figure_text
    environment.filters["words"] = lambda name: str(name).replace("_", " ")
    environment.globals.update(outcomes=_OUTCOMES, endings=_ENDINGS)
    return environment.get_template("report.html")
