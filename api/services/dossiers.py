"""The dossier of a stored report, in each of its forms."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, assert_never

from starlette.responses import JSONResponse, Response

from api.services.lookups import find_experiment, find_report
from api.services.report_evidence import evidence_of
from api.services.report_pages import page_response
from api.shared.security import Call
from fedaudit.ledger.bundle import Evidence, stored_zip

if TYPE_CHECKING:
    from fedaudit.reports.page.html import Link

Form = Literal["json", "html", "pdf", "zip"]


def dossier_response(
    call: Call, experiment_id: str, form: Form, *, links: "Sequence[Link]" = ()
) -> Response:
    """The dossier of an experiment of the caller's project, its page with `links` above it; a zip
    lacks the PDF where the service has no library for it. Raises ProblemError without a report that
    this version reads, and where printing fails."""
    # Imported here because most calls need no dossier.
    from fedaudit.reports.dossier.dossier_files import dossier_files, dossier_of, dossier_page

    evidence, printer = _evidence(call, experiment_id), call.resources.printer
    headers = {
        "Content-Disposition": f'attachment; filename="{experiment_id}-dossier.{form}"',
        "Cache-Control": "no-store",
    }
    match form:
        case "json":
            return JSONResponse(dossier_of(evidence))
        case "html":
            return page_response(dossier_page(dossier_of(evidence), links=links))
        case "pdf":
            pdf = printer.pdf(dossier_page(dossier_of(evidence)))
            return Response(pdf, media_type="application/pdf", headers=headers)
        case "zip":
            printed = printer.pdf if find_spec("weasyprint") else None
            content = stored_zip(dossier_files(evidence, printed=printed))
            return Response(content, media_type="application/zip", headers=headers)
        case _:
            assert_never(form)


def _evidence(call: Call, experiment_id: str) -> Evidence:
    with call.reading() as session:
        document: dict[str, Any] = find_report(session, call.caller, experiment_id).document
        experiment = find_experiment(session, call.caller, experiment_id)
    return evidence_of(call.resources.database, experiment, document)
