"""Stored reports as they have to be judged: beside what attacks found after they were signed."""

from typing import Any

from sqlalchemy.orm import Session

from api.services.lookups import find_report
from api.shared.security import Caller
from fedaudit.reports.later import judged_later
from models.repositories import LaterAttacksRepository
from models.tables.reports import Report


def judged_document(session: Session, report: Report) -> dict[str, Any]:
    """The document by which somebody decides; the one that was signed where nothing was attacked
    later."""
    later = LaterAttacksRepository(session, report.project_id).sections(report.experiment_id)
    return judged_later(report.document, later)


def find_judged(session: Session, caller: Caller, experiment_id: str) -> dict[str, Any]:
    """The same of an experiment of the caller's project. Raises ProblemError where it has no
    report."""
    return judged_document(session, find_report(session, caller, experiment_id))
