"""Interrupted rounds of runs that will not be resumed: charged, but never stored."""

from collections.abc import Sequence

import numpy as np
from sqlalchemy.orm import Session

from fedaudit.ledger.ledger_context import (
    LedgerContext,
    build_metric_context,
    rebuild_ledger_context,
)
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.parse import parse_admitted
from models.database import Database
from models.repositories import ExperimentRepository, LedgerRepository, SubjectSetRepository
from models.tables.experiments import Experiment
from workers.database_sink import ledger_row
from workers.resume import interrupted_rounds, store_totals, stored_ledger


def context_of_interrupted(
    database: Database, experiment_id: str, project_id: str
) -> LedgerContext | None:
    """What `charge_interrupted_rounds` needs, built outside of any transaction: counting epsilons
    may take long. None where there is nothing to charge.

    Raises LookupError where there is no such experiment.
    """
    with database.read() as session:
        if not interrupted_rounds(session, experiment_id):
            return None
        experiment = _experiment(session, experiment_id, project_id)
        names = SubjectSetRepository(session).names(experiment.subject_set_id)
    return _ledger_context(experiment, names)


def charge_interrupted_rounds(
    session: Session,
    experiment_id: str,
    project_id: str,
    *,
    ledger_context: LedgerContext | None = None,
) -> int:
    """Write the ledger rows of an ended experiment's open intents; returns their number.

    `ledger_context`: the experiment's own, which is built here unless given.

    A worker that resumes a run enters interrupted rounds before it goes on. The ledger of a run
    that failed with its workers, or was cancelled before another resumed it, would otherwise show
    less than was charged. Raises LookupError where there is no such experiment.
    """
    experiment = _experiment(session, experiment_id, project_id)
    interrupted = interrupted_rounds(session, experiment_id)
    if not interrupted:
        return 0
    names = SubjectSetRepository(session).names(experiment.subject_set_id)
    ledger = stored_ledger(
        session,
        experiment,
        ledger_context=ledger_context or _ledger_context(experiment, names),
        training=np.arange(len(names), dtype=np.int32),
    )
    recorded = [ledger.record_interrupted(lost) for lost in interrupted]
    rows = [ledger_row(one) for lost in recorded for entries in lost.written for one in entries]
    LedgerRepository(session).insert(experiment_id, project_id, rows)
    store_totals(session, experiment_id, project_id, ledger)
    return len(interrupted)


def _experiment(session: Session, experiment_id: str, project_id: str) -> Experiment:
    experiment = ExperimentRepository(session, project_id).get(experiment_id)
    if experiment is None:
        raise LookupError(f"no experiment {experiment_id}")
    return experiment


def _ledger_context(experiment: Experiment, names: Sequence[str]) -> LedgerContext:
    """The context as of submission: the data may be remote, or deleted."""
    if experiment.mechanism_inputs is not None:
        inputs = MechanismParameters.from_dict(experiment.mechanism_inputs)
        return rebuild_ledger_context(inputs, names, rounds=experiment.rounds_total)
    inputs = mechanism_of(parse_admitted(experiment.spec)).inputs(n=experiment.parameters)
    return build_metric_context(inputs, names)
