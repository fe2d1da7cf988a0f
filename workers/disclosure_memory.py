"""What a run may disclose beside earlier reports on its data: decided once, before its first
round."""

import hashlib

import structlog
from sqlalchemy.orm import Session

from fedaudit.fairness.earlier_disclosures import DisclosedRows, RowSet
from fedaudit.fairness.scored_groups import DisclosureDecision
from fedaudit.runs.held_out_groups import (
    decide_beside_earlier,
    is_remembered,
    row_numbering,
)
from models.repositories import DisclosureRepository, ExperimentRepository
from models.values import StoredSet
from workers.flush import FencedWriter
from workers.running_experiment import RunningExperiment

log = structlog.get_logger()


def settle_disclosures(writer: FencedWriter, experiment: RunningExperiment) -> frozenset[str]:
    """The attributes of which the run reports nothing; remembers what it discloses.

    A run that is taken up again keeps to what was decided. What takes long is done before the
    transaction, and again within it only where another run on the same data was quicker.
    """
    cell = experiment.run.cell
    if not is_remembered(cell):
        return frozenset()
    with writer.database.read() as session:
        decided = _decided_before(session, experiment)
        known = [] if decided is not None else _earlier(session, experiment)
    if decided is not None:
        return decided
    decision = decide_beside_earlier(cell, known)
    return writer.write(lambda session: _settle(session, experiment, decision, len(known)))


def _settle(
    session: Session, experiment: RunningExperiment, decision: DisclosureDecision, known: int
) -> frozenset[str]:
    """`decision`: beside so many `known` sets, which are never fewer later."""
    cell = experiment.run.cell
    decided = _decided_before(session, experiment)
    if decided is not None:
        return decided
    disclosed = DisclosureRepository(session)
    disclosed.lock(cell.federation.fingerprint)
    fingerprint, numbering = cell.federation.fingerprint, _numbering(experiment)
    if disclosed.count(fingerprint, numbering=numbering) > known:
        decision = decide_beside_earlier(cell, _earlier(session, experiment))
    disclosed.add(fingerprint, numbering=numbering, sets=stored_sets(decision))
    experiments = ExperimentRepository(session, experiment.project_id)
    experiments.withhold(experiment.id, sorted(decision.withheld))
    if decision.withheld:
        log.info(
            "attributes withheld beside earlier reports",
            experiment_id=experiment.id,
            attributes=sorted(decision.withheld),
        )
    return decision.withheld


def _decided_before(session: Session, experiment: RunningExperiment) -> frozenset[str] | None:
    """What was decided when the run began, or by a write whose confirmation was lost."""
    row = ExperimentRepository(session, experiment.project_id).get(experiment.id)
    if row is None or row.withheld_attributes is None:
        return None
    return frozenset(row.withheld_attributes)


def _earlier(session: Session, experiment: RunningExperiment) -> list[DisclosedRows]:
    fingerprint = experiment.run.cell.federation.fingerprint
    return disclosed_before(session, fingerprint, numbering=_numbering(experiment))


def disclosed_before(session: Session, fingerprint: str, *, numbering: str) -> list[DisclosedRows]:
    """What was disclosed of the data, of rows that are numbered so."""
    stored = DisclosureRepository(session).sets(fingerprint, numbering=numbering)
    return [
        DisclosedRows(RowSet.from_bytes(rows), RowSet.from_bytes(favourable))
        for rows, favourable in stored
    ]


def stored_sets(decision: DisclosureDecision) -> list[StoredSet]:
    """What a decision discloses, as it is remembered."""
    return [
        StoredSet(*one.key, one.rows.as_bytes(), one.favourable.as_bytes()) for one in decision.sets
    ]


def _numbering(experiment: RunningExperiment) -> str:
    return hashlib.sha256(row_numbering(experiment.run.cell)).hexdigest()
