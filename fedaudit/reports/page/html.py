"""The report as one self-contained page: no script, no external resource, fit for print."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from fedaudit.privacy.accounting.adjacencies import adjacency_words
from fedaudit.privacy.accounting.observers import observer_words
from fedaudit.privacy.mechanisms.registry import unbounded_release
from fedaudit.reports.charts.chart import bound_text, figure_text
from fedaudit.reports.charts.chart_choice import charts_of
from fedaudit.reports.charts.series import Series
from fedaudit.reports.document.earlier_versions import metric_of, why_no_privacy_cost
from fedaudit.reports.document.endings import ON_PAGES
from fedaudit.reports.document.guarantee_facts import guarantee_words
from fedaudit.reports.document.outcomes import GateOutcome
from fedaudit.reports.document.participation import participation_label
from fedaudit.reports.page.fairness_tables import fairness_tables
from fedaudit.reports.sections.verdict import headline_metric

_HERE = Path(__file__).parent
_OUTCOMES: dict[GateOutcome, str] = {
    "pass": "pass",
    "fail": "fail",
    "insufficient_evidence": "insufficient evidence",
}


@dataclass(frozen=True)
class Link:
    """Links from a report that is viewed within the service."""

    href: str
    text: str


def render(
    document: Mapping[str, Any], series: Series | None = None, *, links: Sequence[Link] = ()
) -> str:
    """The page of a report document (version 1). Every value in it is escaped.

    `series`: the figures of the rounds; without it there are no curves over rounds. `links` are
    shown above the report; a page for download has none.
    """
    return _template().render(report=document, charts=charts_of(document, series), links=links)


@cache
def style_hash() -> str:
    """The hash of the page's style sheet for the Content-Security-Policy: its only permitted
    style."""
    sheet = f"\n{_style()}\n"
    return f"'sha256-{base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()}'"


@cache
def _style() -> str:
    return (_HERE / "report.css").read_text().rstrip("\n")


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = figure_text
    environment.filters["bound"] = bound_text
    environment.filters["adjacency"] = adjacency_words
    environment.filters["observer"] = observer_words
    environment.filters["guarantee_words"] = guarantee_words
    environment.filters["words"] = lambda name: str(name).replace("_", " ")
    environment.globals.update(
        outcomes=_OUTCOMES,
        endings=ON_PAGES,
        fairness_tables=fairness_tables,
        headline_metric=headline_metric,
        metric_of=metric_of,
        participation_label=participation_label,
        why_no_privacy_cost=why_no_privacy_cost,
        style=Markup(_style()),
        unbounded_release=unbounded_release,
    )
    return environment.get_template("report.html")
