"""The report as one self-contained page: no script, no external resource, fit for print."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fedaudit.number_text import bound_text, exact_text, figure_text, whole_text
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.privacy.guarantees.cost_sentences import level_words
from fedaudit.privacy.mechanisms.registry import unbounded_release
from fedaudit.reports.charts.line_chart import Series
from fedaudit.reports.charts.report_charts import charts_of, rates_chart
from fedaudit.reports.page.attack_tables import attack_tables, false_alarm_chance
from fedaudit.reports.page.fairness_tables import fairness_tables
from fedaudit.reports.page.later_attempts import BASIS_WORDS, LaterAttempts
from fedaudit.reports.page.style_sheets import screen_style
from fedaudit.reports.sections.guarantee import charges_everyone, guarantee_words
from fedaudit.reports.sections.outcome_words import favourable_words, for_readers
from fedaudit.reports.sections.part import ANSWER_WORDS, PART_TITLES, GateOutcome, figure_rows
from fedaudit.reports.sections.predictions import as_report_of_run
from fedaudit.reports.sections.privacy import Privacy
from fedaudit.reports.sections.ranking import RankingFigures, misplaced_threshold
from fedaudit.reports.sections.utility import ENDING_WORDS, Utility
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verdict.worst_off import headline_metric
from fedaudit.spec.audits import parse_audit

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
    document: Mapping[str, Any],
    series: Series | None = None,
    *,
    links: Sequence[Link] = (),
    tail: Markup | None = None,
    later: LaterAttempts | None = None,
) -> str:
    """The page of a report document (version 1). Every value in it is escaped. `later`: what
    attacks found after it was signed. `series`: the figures of the rounds; without it there are no
    curves over rounds. `links` are shown above the report and `tail` below it; a page for download
    has neither."""
    shown = for_readers(document)
    attacks = shown.get("attacks") or []
    template = page_environment().get_template("report.html")
    return template.render(
        report=shown,
        charts=charts_of(shown, series),
        tables=fairness_tables(shown["fairness"]),
        attacks=attack_tables(attacks),
        false_alarm_chance=false_alarm_chance(attacks),
        links=links,
        tail=tail,
        later=later,
    )


def render_declared(document: Mapping[str, Any], *, links: Sequence[Link] = ()) -> str:
    """The page of a declared ledger's report. Every value in it is escaped."""
    template = page_environment().get_template("declared.html")
    return template.render(
        report=document, tables=fairness_tables(document["fairness"]), links=links
    )


def render_audit(document: Mapping[str, Any], *, links: Sequence[Link] = ()) -> str:
    """The page of an audit's report document. Every value in it is escaped. `links` are shown above
    the report; a page for download has none."""
    shown = for_readers(as_report_of_run(document, parse_audit(document["spec"])))
    charts = [
        [chart] if (chart := rates_chart(section, name=f"fairness-{place}")) else []
        for place, section in enumerate(shown["fairness"], start=1)
    ]
    tables = fairness_tables(shown["fairness"])
    template = page_environment().get_template("audit.html")
    return template.render(report=shown, charts={"fairness": charts}, tables=tables, links=links)


@cache
def style_hash() -> str:
    """The hash of the page's style sheet for the Content-Security-Policy: its only permitted
    style."""
    sheet = f"\n{screen_style()}\n"
    return f"'sha256-{base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()}'"


def _moment(time: str | None) -> str:
    """A time of the report, to the minute; it is in UTC."""
    if time is None:
        return "was not recorded"
    found = datetime.fromisoformat(time)
    return f"{found.day} {found:%b %Y, %H:%M} UTC"


@cache
def page_environment() -> Environment:
    """Where the templates of report pages are found, with the filters and names that they use."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = figure_text
    environment.filters["bound"] = bound_text
    environment.filters["moment"] = _moment
    environment.filters["exact"] = exact_text
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    environment.filters["whole"] = whole_text
    environment.filters["adjacency"] = adjacency_words
    environment.filters["observer"] = observer_words
    environment.filters["level"] = level_words
    environment.filters["guarantee_words"] = guarantee_words
    environment.filters["words"] = lambda name: str(name).replace("_", " ")
    environment.globals.update(
        outcomes=_OUTCOMES,
        endings=ENDING_WORDS,
        charges_everyone=charges_everyone,
        favourable_words=favourable_words,
        figure_rows=figure_rows,
        answer_of=answer_of,
        answer_words=ANSWER_WORDS,
        parts=PART_TITLES,
        privacy_part=Privacy,
        utility_part=Utility,
        ranking_part=RankingFigures,
        misplaced_threshold=misplaced_threshold,
        headline_metric=headline_metric,
        later_bases=BASIS_WORDS,
        style=Markup(screen_style()),
        unbounded_release=unbounded_release,
    )
    return environment
