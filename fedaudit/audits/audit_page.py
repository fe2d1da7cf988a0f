"""The report of an audit as one self-contained page: no script, no external resource."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.reports.charts.report_charts import rates_chart
from fedaudit.reports.page.fairness_tables import fairness_tables
from fedaudit.reports.page.html import Link, page_environment
from fedaudit.reports.sections.outcome_words import for_readers
from fedaudit.reports.sections.predictions import as_report_of_run
from fedaudit.spec.audits import parse_audit


def render_audit(document: Mapping[str, Any], *, links: Sequence[Link] = ()) -> str:
    """The page of an audit's report document. Every value in it is escaped. `links` are shown above
    the report; a page for download has none."""
    shown = for_readers(as_report_of_run(document, parse_audit(document["spec"])))
    charts = [
        [chart] if (chart := rates_chart(section, name=f"fairness-{place}")) else []
        for place, section in enumerate(shown["fairness"], start=1)
    ]
    return (
        page_environment()
        .get_template("audit.html")
        .render(
            report=shown,
            charts={"fairness": charts},
            tables=fairness_tables(shown["fairness"]),
            links=links,
        )
    )
