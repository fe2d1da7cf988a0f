"""A stored report as a page or a PDF, with the curves of its rounds, and its dossier."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, Unpack, assert_never

from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from api.http.answers import JSON, PDF, ZIP, as_file
from api.services.lookups import find_experiment, find_report
from api.services.report_evidence import evidence_of
from api.shared.security import Call, Caller
from fedaudit.ledger.bundle import stored_zip
from fedaudit.reports.charts.report_charts import Series, drawn_rounds, series_of
from fedaudit.reports.dossier.dossier import dossier, dossier_files, dossier_page
from fedaudit.reports.page.html import Link, PageOptions, render, style_hash
from fedaudit.spec.canonical import canonical_json
from fedaudit.stored import FairnessRow, RoundRow
from models.repositories import FairnessRepository, LaterAttacksRepository, RoundRepository
from models.tables.experiments import Experiment, LaterAttacks, Report

DossierForm = Literal["json", "html", "pdf", "zip"]
_MAX_ATTRIBUTES = 100
_SAYING_REASONS = ("not-repeated", "no-model", "ledger-altered")
"""Ends of later attacks whose stored detail quotes no data."""


@dataclass(frozen=True)
class LiveFigures:
    """The public figures of the rounds so far; of very many, of as many as a page can draw."""

    series: Series
    newest: RoundRow | None
    """The last round; None where there is none yet."""
    validated: RoundRow | None
    """The last of these rounds that was validated; None where none was."""
    fairness: Sequence[FairnessRow]
    """The gaps of each attribute, in that round."""


def live_figures(session: Session, experiment: Experiment) -> LiveFigures:
    """The figures of an experiment's rounds, without counts of groups."""
    id_, project_id, done = experiment.id, experiment.project_id, experiment.rounds_done
    between = experiment.spec["training"]["stopping"]["validate_every"]
    every, drawn = drawn_rounds(done, validate_every=between)
    rounds = RoundRepository(session, project_id).after(id_, limit=len(drawn), among=drawn)
    fairness = FairnessRepository(session, project_id).after(
        id_, limit=len(drawn) * _MAX_ATTRIBUTES, among=drawn, counts=False
    )
    last = experiment.rounds_total
    validated = [row for row in rounds if row.round % between == 0 or row.round == last]
    newest = validated[-1] if validated else None
    return LiveFigures(
        series=series_of(rounds, fairness, every=every),
        newest=rounds[-1] if rounds else None,
        validated=newest,
        fairness=[row for row in fairness if newest is not None and row.round == newest.round],
    )


def page_response(page: str, *, has_forms: bool = False) -> HTMLResponse:
    """A report's page with the policy under which it loads and runs nothing."""
    # Only the service's own additions have a form.
    forms = "'self'" if has_forms else "'none'"
    policy = (
        f"default-src 'none'; style-src {style_hash()}; img-src data:; base-uri 'none'; "
        f"form-action {forms}; frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
    if has_forms:
        # Else browsers hide the form's origin, and it would be taken for another site's.
        headers["Referrer-Policy"] = "same-origin"
    return HTMLResponse(page, headers=headers)


def page_parts(
    session: Session, caller: Caller, experiment_id: str
) -> tuple[Report, Series, Sequence[LaterAttacks]]:
    """What `page_html` shows: a report, the curves of its rounds, and requests for attacks after
    it was signed. Raises ProblemError where the caller's project has no such report."""
    report = find_report(session, caller, experiment_id)
    live = live_figures(session, find_experiment(session, caller, experiment_id))
    return (
        report,
        live.series,
        LaterAttacksRepository(session, caller.project_id).list(experiment_id),
    )


def page_html(
    report: Report, series: Series, later: Sequence[LaterAttacks], **options: Unpack[PageOptions]
) -> str:
    """The page, which loads and runs nothing, with what `options` add."""
    attempts = [_attempt(row) for row in later]
    return render(report.document, series, later=attempts, **options)


def _attempt(row: LaterAttacks) -> dict[str, Any]:
    """A request as `after_attempts` takes it."""
    by, statement = row.created_by, row.statement
    # All readers see the same page, and a detail may quote the data.
    said = row.status_reason in _SAYING_REASONS
    return {
        "number": row.number,
        "status": row.status,
        "reason": row.status_detail if said else row.status_reason,
        "kinds": [one["kind"] for one in row.asked],
        "asked_by": by["person"] or f"the key {by['key_name']}",
        "asked_at": row.created_at.isoformat(),
        "finished_at": None if row.finished_at is None else row.finished_at.isoformat(),
        "basis": None if statement is None else statement["basis"],
        "sections": [] if statement is None else statement["attacks"],
    }


def dossier_response(
    call: Call, experiment_id: str, form: DossierForm, *, links: Sequence[Link] = ()
) -> Response:
    """The dossier of an experiment of the caller's project, its page with `links` above it; a zip
    lacks the PDF where the service has no library for it. Raises ProblemError without a report that
    this version reads, and where printing fails."""
    with call.reading() as session:
        document = find_report(session, call.caller, experiment_id).document
        experiment = find_experiment(session, call.caller, experiment_id)
    evidence = evidence_of(call.resources.database, experiment, document)
    printer, name = call.resources.printer, f"{experiment_id}-dossier.{form}"
    match form:
        case "json":
            return as_file(canonical_json(dossier(evidence)), name, JSON)
        case "html":
            return page_response(dossier_page(dossier(evidence), links=links))
        case "pdf":
            return as_file(printer.pdf(dossier_page(dossier(evidence))), name, PDF)
        case "zip":
            printed = printer.pdf if find_spec("weasyprint") else None
            return as_file(stored_zip(dossier_files(evidence, printed=printed)), name, ZIP)
        case _:
            assert_never(form)
