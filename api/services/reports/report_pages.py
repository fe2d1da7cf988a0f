"""A stored report as a page."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse

from api.services.base.lookups import find_report
from api.services.reports.round_series import stored_series
from api.shared.security import Caller
from models.database import Database

if TYPE_CHECKING:
    from fedaudit.reports.page.html import Link


def stored_page(
    database: Database, caller: Caller, experiment_id: str, *, links: "Sequence[Link]" = ()
) -> HTMLResponse:
    """The report with the curves of its rounds, below `links`; the page loads and runs nothing.

    Raises ProblemError where the caller's project has no such report.
    """
    # Imported here because most calls do not need templates.
    from fedaudit.reports.page.html import render, style_hash

    with database.read() as session:
        report = find_report(session, caller, experiment_id)
        series = stored_series(session, caller.project_id, experiment_id)
    policy = (
        f"default-src 'none'; style-src {style_hash()}; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
    return HTMLResponse(render(report.document, series, links=links), headers=headers)
