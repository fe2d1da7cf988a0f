"""Rounds that were charged and lost, of runs that nobody will take up again."""

import numpy as np
from sqlalchemy.orm import Session

from fedaudit.privacy.guarantees import mechanism_inputs
from fedaudit.spec.parse import parse_spec
from models.repositories import ExperimentRepository, LedgerRepository, SubjectSetRepository
from workers.resume import stored_book


def enter_lost_rounds(session: Session, experiment_id: str, project_id: str) -> int:
    """Write the ledger rows of an ended experiment's open intents; returns how many.

    A worker that takes up a run enters what was lost before it goes on. A run that failed with its
    workers, or was cancelled before another came, would otherwise show less in its ledger than
    was charged. Raises LookupError where there is no such experiment.
    """
    experiment = ExperimentRepository(session, project_id).get(experiment_id)
    if experiment is None:
        raise LookupError(f"no experiment {experiment_id}")
    ledger = LedgerRepository(session)
    names = SubjectSetRepository(session).names(experiment.subject_set_id)
    book = stored_book(
        session,
        experiment_id,
        inputs=mechanism_inputs(parse_spec(experiment.spec), n=experiment.parameters),
        names=names,
        training=np.arange(len(names), dtype=np.int32),
    )
    rows = [
        book.enter_interrupted(round_=lost.round, release=lost.release, subjects=lost.subjects)
        for lost in ledger.open_intents(experiment_id)
    ]
    ledger.insert(experiment_id, project_id, rows)
    ledger.put_totals(
        experiment_id,
        project_id,
        releases=book.spending.releases,
        refusals=book.spending.refusals,
        withheld=book.spending.withheld,
    )
    return len(rows)
