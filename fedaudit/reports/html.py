"""The report as one self-contained page: no script, nothing fetched, fit for paper."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

_OUTCOMES = {"pass": "pass", "fail": "fail", "insufficient_evidence": "insufficient evidence"}
_ENDINGS = {"rounds": "all rounds done", "patience": "patience ran out", "diverged": "divergence"}


def render(document: Mapping[str, Any]) -> str:
    """The page of a report document (version 1). Every value in it is escaped."""
    return _template().render(report=document)


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = _figure
    environment.filters["words"] = lambda name: str(name).replace("_", " ")
    environment.globals.update(outcomes=_OUTCOMES, endings=_ENDINGS)
    return environment.get_template("report.html")


def _figure(value: float | None) -> str:
    """A figure for people: four significant digits, integers as they are, a dash for none."""
    if value is None:
        return "–"
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return str(int(value))
    return f"{value:.4g}"
