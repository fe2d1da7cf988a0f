"""Bundles: everything that one experiment left, for offline verification."""

from collections.abc import Iterator

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.services.reports.stored_evidence import RowSource, evidence_of, stored_rows
from fedaudit.ledger.bundle import bundle_chunks
from models.database import Database
from models.repositories import ReportRepository
from models.repositories.experiments import ENDED
from models.tables.experiments import Experiment


def bundle_of(database: Database, session: Session, experiment: Experiment) -> Iterator[bytes]:
    """The bytes of an ended experiment's bundle; the ledger is read while they are sent.

    Raises ProblemError where it has not ended.
    """
    if experiment.status not in ENDED:
        raise ProblemError(
            409, "conflict", f"the experiment has not ended: it is {experiment.status}"
        )
    report = ReportRepository(session, experiment.project_id).get(experiment.id)
    stored = evidence_of(database, experiment, None if report is None else report.document)
    return bundle_chunks(stored, stored_rows(database, RowSource.of(experiment)))
