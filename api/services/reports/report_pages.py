"""A stored report as a page."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup
from starlette.responses import HTMLResponse

from api.services.base.lookups import find_experiment, find_report
from api.services.reports.round_series import report_series
from api.shared.security import Caller
from models.database import Database
from models.repositories import LaterAttacksRepository
from models.tables.reports import LaterAttacks

if TYPE_CHECKING:
    from fedaudit.reports.page.html import Link
    from fedaudit.reports.page.later_attempts import LaterAttempt

_SAYING_REASONS = ("not-repeated", "no-model", "ledger-altered")
"""Ends of later attacks whose stored detail quotes no data."""


def stored_page(
    database: Database,
    caller: Caller,
    experiment_id: str,
    *,
    links: "Sequence[Link]" = (),
    tail: Markup | None = None,
) -> HTMLResponse:
    """The report with the curves of its rounds, between `links` and `tail`; the page loads and runs
    nothing.

    Raises ProblemError where the caller's project has no such report.
    """
    page = page_html(database, caller, experiment_id, links=links, tail=tail)
    return page_response(page, has_forms=tail is not None)


def page_response(page: str, *, has_forms: bool = False) -> HTMLResponse:
    """A report's page with the policy under which it loads and runs nothing."""
    # Imported here because most calls do not need templates.
    from fedaudit.reports.page.html import style_hash

    # Only the service's own additions have a form.
    forms = "'self'" if has_forms else "'none'"
    policy = (
        f"default-src 'none'; style-src {style_hash()}; img-src data:; base-uri 'none'; "
        f"form-action {forms}; frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
    if has_forms:
        # Else browsers hide the origin of the form, which is then taken for another site's.
        headers["Referrer-Policy"] = "same-origin"
    return HTMLResponse(page, headers=headers)


def page_html(
    database: Database,
    caller: Caller,
    experiment_id: str,
    *,
    links: "Sequence[Link]" = (),
    tail: Markup | None = None,
) -> str:
    """The page's HTML. Raises ProblemError as above."""
    from fedaudit.reports.page.html import render
    from fedaudit.reports.page.later_attempts import later_attempts

    with database.read() as session:
        report = find_report(session, caller, experiment_id)
        series = report_series(session, find_experiment(session, caller, experiment_id))
        rows = LaterAttacksRepository(session, caller.project_id).list(experiment_id)
    later = later_attempts(report.document, [_attempt(row) for row in rows])
    return render(report.document, series, links=links, tail=tail, later=later)


def _attempt(row: LaterAttacks) -> "LaterAttempt":
    from fedaudit.reports.page.later_attempts import LaterAttempt

    by, statement = row.created_by, row.statement
    # The page is the same for everybody, and a detail may quote the data.
    said = row.status_reason in _SAYING_REASONS
    return LaterAttempt(
        number=row.number,
        status=row.status,
        reason=row.status_detail if said else row.status_reason,
        kinds=[one["kind"] for one in row.asked],
        asked_by=by["person"] or f"the key {by['key_name']}",
        asked_at=row.created_at.isoformat(),
        finished_at=None if row.finished_at is None else row.finished_at.isoformat(),
        basis=None if statement is None else statement["basis"],
        sections=[] if statement is None else statement["attacks"],
    )
