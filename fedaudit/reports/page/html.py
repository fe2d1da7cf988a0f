"""The report as one self-contained page: no script, no external resource, fit for print."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, TypedDict, Unpack

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from fedaudit.number_text import bound_text, exact_text, figure_text, whole_text
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.privacy.mechanisms.registry import unbounded_release
from fedaudit.reports.charts.answer_pictures import answer_pictures, treated_picture
from fedaudit.reports.charts.drawing import Chart
from fedaudit.reports.charts.report_charts import Series, charts_of
from fedaudit.reports.gates.gate_results import COSTS
from fedaudit.reports.page.pdf import APPENDIX_BEGINS, APPENDIX_ENDS
from fedaudit.reports.page.report_tables import (
    BASIS_WORDS,
    after_attempts,
    attack_tables,
    fairness_tables,
    false_alarm_chance,
)
from fedaudit.reports.page.style_sheets import screen_style
from fedaudit.reports.report import section_rows
from fedaudit.reports.sections.guarantee import guarantee_words
from fedaudit.reports.sections.outcome_words import for_readers
from fedaudit.reports.sections.part import ANSWER_WORDS, PART_TITLES, figure_rows
from fedaudit.reports.sections.ranking import RankingFigures, misplaced_threshold
from fedaudit.reports.sections.utility import ENDING_WORDS
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verdict.worst_off import by_unevenness, headline_metric

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Link:
    """Links from a report that is viewed within the service."""

    href: str
    text: str
    more: bool = False
    """Whether it is behind *More*."""


class PageOptions(TypedDict, total=False):
    """How a report's page is shown; a page for download has none of these but its appendix."""

    links: Sequence[Link]
    """Above the report."""
    tail: Markup | None
    """Below it."""
    files: str
    """The address below which each picture is a file."""
    appendix: bool
    """Whether the page has the figures of every round, and on paper every table."""


def render(
    document: Mapping[str, Any],
    series: Series | None = None,
    *,
    later: Sequence[Mapping[str, Any]] = (),
    **options: Unpack[PageOptions],
) -> str:
    """The page of a report of a run, of predictions, or of a declared ledger. Every value in it is
    escaped. Of runs alone: `later`, the requests for attacks after it was signed, and `series`, the
    figures of the rounds; without it there are no curves over rounds."""
    report, name, more = report_on_page(document), "report.html", dict[str, Any]()
    if document.get("declared"):
        from fedaudit.reports.declared.declared_report import declared_next  # not of a run's page

        name, more = "declared.html", {"declared_next": declared_next}
    elif "predictions" in document:
        name = "audit.html"
    else:
        attacks = report.get("attacks") or []
        more = {
            "rows": section_rows(report),
            "attacks": attack_tables(attacks),
            "false_alarm_chance": false_alarm_chance(attacks),
            "later": after_attempts(document, later),
        }
    shown: PageOptions = {"links": (), "tail": None, "files": "", "appendix": False, **options}
    # Paper leaves out what is between two marks, which no value can have since all are escaped.
    marks = ("", "") if shown["appendix"] else (APPENDIX_BEGINS, APPENDIX_ENDS)
    widest = by_unevenness(report["fairness"])[-1:]
    tables, notes = fairness_tables(
        report["fairness"], said_of=widest[0] if widest and "verdict_parts" in report else None
    )
    context = {
        "report": report,
        "seen": answer_pictures(report),
        "charts": charts_of(report, series),
        "rates": [[] if one is None else [one] for one in _rate_pictures(report)],
        "tables": tables,
        "notes": notes,
        "leave_out": Markup(marks[0]),
        "go_on": Markup(marks[1]),
        **more,
        **shown,
    }
    return page_environment().get_template(name).render(context)


def report_on_page(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The report with its groups in words; that of predictions in the form of a run's."""
    if document.get("declared"):
        return document
    if "predictions" not in document:
        return for_readers(document)
    from fedaudit.reports.sections.predictions import as_report_of_run  # not of a run's page
    from fedaudit.spec.audits import parse_audit

    return for_readers(as_report_of_run(document, parse_audit(document["spec"])))


def report_pictures(document: Mapping[str, Any], series: Series | None = None) -> list[Chart]:
    """Every picture on the page of a report."""
    report = report_on_page(document)
    curves = charts_of(report, series).every
    return [*answer_pictures(report), *filter(None, _rate_pictures(report)), *curves]


def _rate_pictures(report: Mapping[str, Any]) -> list[Chart | None]:
    """Pictures of each attribute but the one that is below the answer already."""
    widest = by_unevenness(report["fairness"])[-1:]
    return [
        treated_picture(section, name=f"rates-{place}") if section not in widest else None
        for place, section in enumerate(report["fairness"], start=1)
    ]


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


def _opening(text: str) -> tuple[str, str]:
    """The first sentences of a part of the verdict, and the rest, which its card folds away."""
    sentences = re.split(r"(?<=\.) ", text)
    return " ".join(sentences[:3]), " ".join(sentences[3:])


def capitalize_first(text: str) -> str:
    """The text as a sentence begins; names in it keep their letters."""
    return text[:1].upper() + text[1:]


def with_code(value: Any) -> Any:
    """A text with what is between backticks as code; Markup stays as it is."""
    if not isinstance(value, str) or isinstance(value, Markup) or "`" not in value:
        return value
    return Markup(re.sub("`([^`\n]+)`", r"<code>\1</code>", str(escape(value))))


@cache
def page_environment() -> Environment:
    """Where the templates of report pages are found, with the filters and names that they use."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=with_code,
    )
    environment.filters["figure"] = figure_text
    environment.filters["bound"] = bound_text
    environment.filters["moment"] = _moment
    environment.filters["opening"] = _opening
    environment.filters["exact"] = exact_text
    environment.filters["capitalize_first"] = capitalize_first
    environment.filters["whole"] = whole_text
    environment.filters["adjacency"] = adjacency_words
    environment.filters["observer"] = observer_words
    environment.filters["guarantee_words"] = guarantee_words
    environment.filters["words"] = lambda name: str(name).replace("_", " ")
    environment.globals.update(
        costs=COSTS,
        endings=ENDING_WORDS,
        figure_rows=figure_rows,
        answer_of=answer_of,
        answer_words=ANSWER_WORDS,
        parts=PART_TITLES,
        ranking_part=RankingFigures,
        misplaced_threshold=misplaced_threshold,
        headline_metric=headline_metric,
        later_bases=BASIS_WORDS,
        style=Markup(screen_style()),
        unbounded_release=unbounded_release,
    )
    return environment
