"""Rounds that were charged before their worker was lost, entered in the ledgers of ended runs."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import structlog
from sqlalchemy.orm import Session

from fedaudit.ledger.ledger_context import (
    LedgerContext,
    build_metric_context,
    rebuild_ledger_context,
)
from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.parse import parse_admitted
from models.database import AWAY, Database
from models.repositories import ExperimentRepository, LedgerRepository, SubjectSetRepository
from models.tables.experiments import Experiment
from workers.flush import interrupted_rounds, store_totals, stored_ledger

log = structlog.get_logger()


def count_ahead(database: Database, experiment_id: str, project_id: str) -> None:
    """Make the tables of epsilons that `enter_lost_rounds` needs, and which are kept: by privacy
    loss distributions they take seconds, in which no transaction should be held. A ledger that
    refuses is met again there. Raises LookupError for an unknown experiment."""
    with database.read() as session:
        experiment = ExperimentRepository(session, project_id).existing(experiment_id)
        names = SubjectSetRepository(session).names(experiment.subject_set_id)
        lost = interrupted_rounds(session, experiment_id)
    if lost:
        with suppress(Exception):
            _context_as_submitted(experiment, names)


def _context_as_submitted(experiment: Experiment, names: Sequence[str]) -> LedgerContext:
    """The context as of submission: the data may be remote, or deleted."""
    if experiment.mechanism_inputs is not None:
        inputs = MechanismParameters.from_dict(experiment.mechanism_inputs)
        return rebuild_ledger_context(inputs, names, rounds=experiment.rounds_total)
    inputs = mechanism_of(parse_admitted(experiment.spec)).inputs(n=experiment.parameters)
    return build_metric_context(inputs, names)


def enter_lost_rounds(session: Session, experiment_id: str, project_id: str) -> int | None:
    """Write the ledger rows of an ended experiment's open intents; returns the number of rounds. A
    resuming worker does this itself; otherwise the ledger would show less than was charged. A
    ledger that refuses them holds up nothing else: None then, and what was written to it is undone.
    Raises the error of a database that is away."""
    try:
        with session.begin_nested():
            experiment = ExperimentRepository(session, project_id).existing(experiment_id)
            interrupted = interrupted_rounds(session, experiment_id)
            if not interrupted:
                return 0
            names = SubjectSetRepository(session).names(experiment.subject_set_id)
            ledger = stored_ledger(
                session,
                experiment,
                ledger_context=_context_as_submitted(experiment, names),
                training=np.arange(len(names), dtype=np.int32),
            )
            rows = [row for one in interrupted for row in ledger.record_interrupted(one).written]
            LedgerRepository(session, project_id).insert(experiment_id, rows)
            store_totals(session, experiment_id, project_id, ledger)
    except AWAY:
        raise
    except Exception:
        log.exception("lost rounds not entered", experiment_id=experiment_id)
        return None
    log.warning("lost rounds entered", experiment_id=experiment_id, rounds=len(interrupted))
    return len(interrupted)


class LostRounds:
    """Enters those of runs that their callers ended without a worker; none are signed. A ledger
    that refuses them is left out until this process ends."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._refused: set[str] = set()

    def enter_waiting(self) -> None:
        """All that wait. Raises the error of a database that is away."""
        with self._database.read() as session:
            ended = LedgerRepository(session).ended_with_open_intents(excluded=self._refused)
        for owner in ended:
            count_ahead(self._database, *owner)
            with self._database.write() as session:
                if enter_lost_rounds(session, *owner) is None:
                    self._refused.add(owner[0])
