"""Conditions on an experiment, evaluated on demand; nothing is stored."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from sqlalchemy.orm import Session

from api.http.bodies import JsonBody, validated
from api.openapi import problems, request_body
from api.schemas.reports import GatesEvaluation, GatesRequest
from api.services.attacks.stored_attacks import judged_document
from api.services.base.lookups import find_experiment, find_gate_policy
from api.services.ledgers.ledger_evidence import report_of
from api.services.sweeps.sweep_evidence import with_costs_of_now
from api.shared.resources import Resources, Shared
from api.shared.security import Caller, ReportsReader
from fedaudit.reports.gates.gate_evaluation import evaluate, overall, without_report
from fedaudit.spec.gates import Gate
from fedaudit.spec.parse import parse_admitted
from models.repositories import ReportRepository
from models.tables.experiments import Experiment

router = APIRouter(prefix="/gates", tags=["gates"])


@router.post("/evaluations", responses=problems(404, 415), openapi_extra=request_body(GatesRequest))
def evaluate_gates(caller: ReportsReader, value: JsonBody, resources: Shared) -> GatesEvaluation:
    """Whether the report of an experiment, or of a declared ledger, meets each gate, fails it, or
    lacks the evidence."""
    asked = validated(GatesRequest, value)
    if asked.ledger_id is None:
        evaluated = _of_experiment(resources, caller, asked, asked.experiment_id or "")
    else:
        evaluated = _of_ledger(resources, caller, asked, asked.ledger_id)
    return GatesEvaluation.model_validate(
        {
            "experiment_id": asked.experiment_id,
            "ledger_id": asked.ledger_id,
            "policy": asked.policy,
            "outcome": overall(evaluated),
            "reason": None if evaluated else "no gate was given",
            "gates": evaluated,
        }
    )


def _of_experiment(
    resources: Resources, caller: Caller, asked: GatesRequest, experiment_id: str
) -> list[dict[str, Any]]:
    with resources.database.read() as session:
        experiment = find_experiment(session, caller, experiment_id)
        gates = _named(session, caller, asked)
        if gates is None:
            gates = parse_admitted(experiment.spec).gates
        return _evaluated(session, caller, experiment, gates)


def _of_ledger(
    resources: Resources, caller: Caller, asked: GatesRequest, ledger_id: str
) -> list[dict[str, Any]]:
    with resources.database.read() as session:
        gates = _named(session, caller, asked)
    return evaluate(gates or (), report_of(resources, caller, ledger_id).document)


def _named(session: Session, caller: Caller, asked: GatesRequest) -> Sequence[Gate] | None:
    """The gates that a request gives or names; None for those of the spec."""
    if asked.policy is not None:
        stored = find_gate_policy(session, caller, asked.policy).gates
        return [Gate.model_validate(gate) for gate in stored]
    return asked.gates


def _evaluated(
    session: Session, caller: Caller, experiment: Experiment, gates: Sequence[Gate]
) -> list[dict[str, Any]]:
    report = ReportRepository(session, caller.project_id).get(experiment.id)
    if report is None:
        return without_report(gates, f"the experiment has no report: it is {experiment.status}")
    document = judged_document(session, report)
    return evaluate(gates, with_costs_of_now(session, caller, experiment.id, document))
