"""How an experiment ends: with its report, or with the reason why there is none."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from fedaudit.ledger.chain import ledger_hash
from fedaudit.reports.assemble import assemble, report_hash
from fedaudit.reports.material import FederationFacts, FinalFigures, ReportMaterial
from fedaudit.reports.provenance import provenance
from fedaudit.training.records import FinalResult
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

GATE_EVALUATED = "gate.evaluated"
ENDED = ("succeeded", "failed", "cancelled")

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
) -> dict[str, Any]:
    """The report document of a run that came to its end."""
    with database.read() as session:
        hashed = ledger_hash(LedgerRepository(session).digests(experiment.id))
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
            training_clients=len(experiment.training),
            rows=federation.rows,
            notes=federation.notes,
            attributes=experiment.groups,
        ),
        releases=spending.releases,
        refusals=spending.refusals,
        withheld=spending.withheld,
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
        ),
        ledger_hash=hashed,
        chain_head=experiment.book.head.hex(),
        provenance=provenance(device=device, backend=backend, started_at=experiment.started_at),
        clusters=experiment.book.clusters,
    )
    return assemble(material)


def succeed(session: Session, experiment: RunningExperiment, document: dict[str, Any]) -> None:
    """Store the report and its gates, settle what was reserved, and say so.

    Changes nothing where the experiment has ended already.
    """
    experiments = ExperimentRepository(session, experiment.project_id)
    owner = (experiment.id, experiment.project_id)
    row = experiments.get(experiment.id)
    if row is None or row.status in ENDED:
        return
    ReportRepository(session).put(*owner, document=document, report_hash=report_hash(document))
    events = [(GATE_EVALUATED, gate) for gate in document["gates"]]
    EventRepository(session).append(*owner, events)
    experiments.conclude(experiment.id, status="succeeded", figures=_stored_figures(document))
    CheckpointRepository(session).delete(experiment.id)


def end_without_report(
    session: Session,
    experiment_id: str,
    project_id: str,
    *,
    status: str,
    reason: str,
    detail: str | None = None,
) -> None:
    """End an experiment as `failed` or `cancelled`; what it spent stays spent."""
    experiments = ExperimentRepository(session, project_id)
    experiments.conclude(experiment_id, status=status, reason=reason, detail=detail)
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
