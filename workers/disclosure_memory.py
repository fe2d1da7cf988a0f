"""What a run may disclose beside earlier reports on its data: decided once, before its first
round."""

import hashlib

import structlog
from sqlalchemy.orm import Session

from fedaudit.fairness.earlier_disclosures import DisclosedRows, RowSet
from fedaudit.runs.held_out_groups import decide_beside_earlier, is_remembered, row_numbering
from models.repositories import DisclosureRepository, ExperimentRepository
from models.values import StoredSet
from workers.running_experiment import RunningExperiment

log = structlog.get_logger()


def settle_disclosures(session: Session, experiment: RunningExperiment) -> frozenset[str]:
    """The attributes of which the run reports nothing; remembers what it discloses.

    A run that is taken up again keeps to what was decided. Runs on the same data that start at once
    wait for each other.
    """
    cell = experiment.run.cell
    if not is_remembered(cell):
        return frozenset()
    experiments = ExperimentRepository(session, experiment.project_id)
    row = experiments.get(experiment.id)
    if row is not None and row.withheld_attributes is not None:
        return frozenset(row.withheld_attributes)
    fingerprint = cell.federation.fingerprint
    numbering = hashlib.sha256(row_numbering(cell)).hexdigest()
    disclosed = DisclosureRepository(session)
    disclosed.lock(fingerprint)
    earlier = [
        DisclosedRows(RowSet.from_bytes(rows), RowSet.from_bytes(favourable))
        for rows, favourable in disclosed.sets(fingerprint, numbering=numbering)
    ]
    decision = decide_beside_earlier(cell, earlier)
    disclosed.add(
        fingerprint,
        numbering=numbering,
        sets=[
            StoredSet(*one.key, one.rows.as_bytes(), one.favourable.as_bytes())
            for one in decision.sets
        ],
    )
    experiments.withhold(experiment.id, sorted(decision.withheld))
    if decision.withheld:
        log.info(
            "attributes withheld beside earlier reports",
            experiment_id=experiment.id,
            attributes=sorted(decision.withheld),
        )
    return decision.withheld
