"""Rounds that were charged and lost, of runs that nobody will take up again."""

from collections.abc import Sequence

import numpy as np
from sqlalchemy.orm import Session

from fedaudit.ledger.accounts import Account, metric_account, stored_account
from fedaudit.privacy.guarantees import mechanism_inputs
from fedaudit.privacy.inputs import MechanismInputs
from fedaudit.spec.parse import parse_spec
from models.records import LedgerRow
from models.repositories import ExperimentRepository, LedgerRepository, SubjectSetRepository
from models.tables.experiments import Experiment
from workers.resume import store_totals, stored_book


def enter_lost_rounds(session: Session, experiment_id: str, project_id: str) -> int:
    """Write the ledger rows of an ended experiment's open intents; returns how many these are.

    A worker that takes up a run enters what was lost before it goes on. A run that failed with its
    workers, or was cancelled before another came, would otherwise show less in its ledger than
    was charged. Raises LookupError where there is no such experiment.
    """
    experiment = ExperimentRepository(session, project_id).get(experiment_id)
    if experiment is None:
        raise LookupError(f"no experiment {experiment_id}")
    ledger = LedgerRepository(session)
    intents = ledger.open_intents(experiment_id)
    if not intents:
        return 0
    names = SubjectSetRepository(session).names(experiment.subject_set_id)
    book = stored_book(
        session,
        experiment_id,
        account=_account(experiment, names),
        training=np.arange(len(names), dtype=np.int32),
    )
    rows: list[LedgerRow] = []
    for lost in intents:
        rows += book.enter_interrupted(
            round_=lost.round, release=lost.release, subjects=lost.subjects
        )
    ledger.insert(experiment_id, project_id, rows)
    store_totals(session, experiment_id, project_id, book)
    return len(intents)


def _account(experiment: Experiment, names: Sequence[str]) -> Account:
    """As it was when the experiment was submitted: the data may be far away, or gone."""
    if experiment.mechanism_inputs is not None:
        inputs = MechanismInputs.from_dict(experiment.mechanism_inputs)
        return stored_account(inputs, names, rounds=experiment.rounds_total)
    inputs = mechanism_inputs(parse_spec(experiment.spec), n=experiment.parameters)
    return metric_account(inputs, names)
