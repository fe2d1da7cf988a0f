"""A stored report as a PDF, printed once and then kept beside the uploaded files.

What it was printed as before is removed then: nobody can ask for it any more.
"""

import hashlib

import structlog

from api.services.reports.report_pages import page_html
from api.shared.resources import Resources
from api.shared.security import Caller
from infrastructure.storage import StorageError, report_pdf_key

log = structlog.get_logger()


def stored_pdf(resources: Resources, caller: Caller, experiment_id: str) -> tuple[bytes, str]:
    """The PDF, and a digest that changes with what is printed.

    Raises ProblemError where the caller's project has no such report, and where it cannot be
    printed just now.
    """
    # Imported here because most calls need no templates.
    from fedaudit.reports.page.pdf import paper_page

    page = page_html(resources.database, caller, experiment_id)
    digest = hashlib.sha256(paper_page(page).encode()).hexdigest()
    key = report_pdf_key(experiment_id, digest)
    found = _kept(resources, key)
    if found is None:
        found = resources.printer.pdf(page)
        _keep(resources, key, found)
    return found, digest


def _kept(resources: Resources, key: str) -> bytes | None:
    try:
        if not resources.storage.holds(key):
            return None
        with resources.storage.local(key) as path:
            return path.read_bytes()
    except StorageError as error:
        log.warning("printed report not read", detail=str(error))
        return None


def _keep(resources: Resources, key: str, pdf: bytes) -> None:
    """Not being able to is no reason to refuse what was printed."""
    try:
        with resources.storage.writer(key) as writer:
            writer.write(pdf)
        for superseded in resources.storage.beside(key):
            resources.storage.delete(superseded)
    except StorageError as error:
        log.warning("printed report not kept", detail=str(error))
