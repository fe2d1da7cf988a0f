"""Interrupted rounds: charged, never stored, of runs that will not be resumed."""

from collections.abc import Sequence

import numpy as np
from sqlalchemy.orm import Session

from fedaudit.ledger.ledger_context import (
    LedgerContext,
    build_metric_context,
    rebuild_ledger_context,
)
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.mechanism_guarantees import mechanism_parameters
from fedaudit.spec.parse import parse_spec
from models.repositories import ExperimentRepository, LedgerRepository, SubjectSetRepository
from models.tables.experiments import Experiment
from workers.database_sink import ledger_row
from workers.resume import interrupted_rounds, store_totals, stored_ledger


def charge_interrupted_rounds(session: Session, experiment_id: str, project_id: str) -> int:
    """Write the ledger rows of an ended experiment's open intents; returns how many these are.

    A worker that takes up a run enters what was lost before it goes on. A run that failed with its
    workers, or was cancelled before another came, would otherwise show less in its ledger than
    was charged. Raises LookupError where there is no such experiment.
    """
    experiment = ExperimentRepository(session, project_id).get(experiment_id)
    if experiment is None:
        raise LookupError(f"no experiment {experiment_id}")
    interrupted = interrupted_rounds(session, experiment_id)
    if not interrupted:
        return 0
    names = SubjectSetRepository(session).names(experiment.subject_set_id)
    ledger = stored_ledger(
        session,
        experiment_id,
        ledger_context=_ledger_context(experiment, names),
        training=np.arange(len(names), dtype=np.int32),
    )
    rows = [ledger_row(one) for lost in interrupted for one in ledger.record_interrupted(lost)]
    LedgerRepository(session).insert(experiment_id, project_id, rows)
    store_totals(session, experiment_id, project_id, ledger)
    return len(interrupted)


def _ledger_context(experiment: Experiment, names: Sequence[str]) -> LedgerContext:
    """As it was when the experiment was submitted: the data may be far away, or gone."""
    if experiment.mechanism_inputs is not None:
        inputs = MechanismParameters.from_dict(experiment.mechanism_inputs)
        return rebuild_ledger_context(inputs, names, rounds=experiment.rounds_total)
    inputs = mechanism_parameters(parse_spec(experiment.spec), n=experiment.parameters)
    return build_metric_context(inputs, names)
