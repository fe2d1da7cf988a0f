"""How an experiment ends: with its report, or with the reason why there is none."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.orm import Session

from fedaudit.federations.group_rows import training_group_rows
from fedaudit.ledger.chain import ledger_hash
from fedaudit.ledger.checkpoints import Checkpoint
from fedaudit.ledger.keys import SigningKey
from fedaudit.reports.assemble import assemble, report_hash
from fedaudit.reports.material import FederationFacts, FinalFigures, ReportMaterial
from fedaudit.reports.provenance import provenance
from fedaudit.reports.signing import sign_report
from fedaudit.training.record_table import RecordTable
from fedaudit.training.records import FinalResult
from infrastructure.storage import Storage, record_table_key
from models.database import Database
from models.records import FinalFigures as StoredFigures
from models.repositories import (
    CheckpointRepository,
    EventRepository,
    ExperimentRepository,
    LedgerRepository,
    ReportRepository,
)
from workers.experiment import RunningExperiment
from workers.hypotheses import hypotheses_of, plane_of
from workers.lost_rounds import enter_lost_rounds
from workers.report_index import report_index
from workers.signing import sign_as_stored, sign_checkpoint

GATE_EVALUATED = "gate.evaluated"
ENDED = ("succeeded", "failed", "cancelled")
DIVERGED = "diverged"

_PRIVACY = ("leakage_max", "leakage_median", "epsilon_max")
_FAIRNESS = (
    "demographic_parity_difference",
    "equalized_odds_difference",
    "equal_opportunity_difference",
)


def report_of(
    database: Database,
    experiment: RunningExperiment,
    result: FinalResult,
    *,
    device: str,
    backend: Mapping[str, str],
    key: SigningKey,
) -> dict[str, Any]:
    """The report document of a run that came to its end, signed."""
    with database.read() as session:
        hashed = ledger_hash(LedgerRepository(session).digests(experiment.id))
        hypotheses = hypotheses_of(session, experiment, result)
        plane = plane_of(session, experiment, result)
    spending, federation = experiment.book.spending, experiment.federation
    material = ReportMaterial(
        experiment_id=experiment.id,
        name=experiment.name,
        status="succeeded",
        spec=experiment.spec,
        n=experiment.book.inputs.n,
        federation=FederationFacts(
            fingerprint=federation.fingerprint,
            clients=federation.clients,
            training_clients=experiment.training_clients,
            rows=federation.rows,
            notes=federation.notes,
            attributes=experiment.groups,
            training_rows=training_group_rows(federation, experiment.spec),
        ),
        releases=spending.releases,
        refusals=spending.refusals,
        withheld=spending.withheld,
        refused=spending.refused,
        result=FinalFigures(
            stopped_by=result.stopped_by,
            rounds=result.rounds,
            best_round=result.best_round,
            selection_loss=result.selection_loss,
            validation_loss=result.validation_loss,
            accuracy=result.accuracy,
            fairness=result.fairness,
            single_row_clients=result.single_row_clients,
            collapsed_rounds=result.collapsed_rounds,
            scores=result.scores,
            by_hypothesis=result.by_hypothesis,
        ),
        ledger_hash=hashed,
        chain_head=experiment.book.head.hex(),
        entries=experiment.book.entries,
        key_id=key.key_id,
        provenance=provenance(device=device, backend=backend, started_at=experiment.started_at),
        clusters=experiment.book.clusters,
        plan=experiment.book.account.plan,
        compositions=experiment.book.compositions,
        layers=experiment.book.inputs.component_sizes,
        hypotheses=hypotheses,
        plane=plane,
    )
    return sign_report(assemble(material), key)


def store_records(
    storage: Storage,
    experiment: RunningExperiment,
    records: RecordTable,
    *,
    progressed: Callable[[], None],
) -> None:
    """Store what every record spent; a repeat stores the same again. Raises StorageError."""
    key = record_table_key(experiment.project_id, experiment.id)
    with storage.writer(key) as file:
        for piece in records.csv(experiment.federation.client_names):
            progressed()
            file.write(piece)


def succeed(
    session: Session, experiment: RunningExperiment, document: dict[str, Any], *, key: SigningKey
) -> None:
    """Store the report, its gates and the last checkpoint, settle what was reserved, and say so.

    Changes nothing where the experiment has ended already.
    """
    experiments = ExperimentRepository(session, experiment.project_id)
    owner = (experiment.id, experiment.project_id)
    row = experiments.get(experiment.id)
    if row is None or row.status in ENDED:
        return
    ReportRepository(session).put(
        *owner,
        document=document,
        report_hash=report_hash(document),
        index=report_index(document),
    )
    events = [(GATE_EVALUATED, gate) for gate in document["gates"]]
    EventRepository(session).append(*owner, events)
    experiments.conclude(experiment.id, status="succeeded", figures=_stored_figures(document))
    checkpoint = experiment.ledger_checkpoint("succeeded")
    sign_checkpoint(session, checkpoint, project_id=experiment.project_id, key=key)
    CheckpointRepository(session).delete(experiment.id)


def end_without_report(
    session: Session,
    experiment_id: str,
    project_id: str,
    *,
    status: str,
    reason: str,
    key: SigningKey,
    detail: str | None = None,
    checkpoint: Checkpoint | None = None,
) -> None:
    """End an experiment as `failed` or `cancelled`; what it spent stays spent, and is signed.

    Rounds that were charged and lost are entered first: an end that was signed without them would
    prove a ledger that shows less than was charged. `checkpoint`: where the ledger stands for a
    worker that has it in memory; what the database says is signed where there is none.
    """
    experiments = ExperimentRepository(session, project_id)
    if experiments.conclude(experiment_id, status=status, reason=reason, detail=detail):
        # A run that diverged has a worker, which knows that the rest of its block was not played.
        entered = 0 if reason == DIVERGED else enter_lost_rounds(session, experiment_id, project_id)
        if checkpoint is None or entered:
            sign_as_stored(session, experiment_id, project_id, key=key)
        else:
            sign_checkpoint(session, checkpoint, project_id=project_id, key=key)
    CheckpointRepository(session).delete(experiment_id)


def _stored_figures(document: Mapping[str, Any]) -> StoredFigures:
    """The figures by which the experiment is found; gaps only where one attribute is meant."""
    figures: dict[str, Any] = {name: document["privacy"][name] for name in _PRIVACY}
    utility = document["utility"]
    figures |= {name: utility[name] for name in ("validation_loss", "accuracy")}
    if len(document["fairness"]) == 1:
        metrics = document["fairness"][0]["metrics"]
        figures |= {name: metrics[name]["value"] for name in _FAIRNESS}
    return StoredFigures(
        delta=document["guarantee"]["delta"], gate_outcome=document["gate_outcome"], **figures
    )
