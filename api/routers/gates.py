"""Conditions on an experiment, evaluated on demand; nothing is stored."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from sqlalchemy.orm import Session

from api.bodies import JsonBody, validated
from api.openapi import problems, request_body
from api.resources import Shared
from api.schemas.gates import GatesEvaluation, GatesRequest
from api.security import Caller, ReportsReader
from api.services.lookups import find_experiment
from fedaudit.reports.gates import INSUFFICIENT, evaluate, overall
from fedaudit.spec.gates import Gate
from fedaudit.spec.parse import parse_spec
from models.repositories import ReportRepository
from models.tables.experiments import Experiment

router = APIRouter(prefix="/gates", tags=["reports"])


@router.post("/evaluations", responses=problems(404, 415), openapi_extra=request_body(GatesRequest))
def evaluate_gates(caller: ReportsReader, value: JsonBody, resources: Shared) -> GatesEvaluation:
    """Whether the report of an experiment meets each gate, fails it, or lacks the evidence."""
    asked = validated(GatesRequest, value)
    with resources.database.read() as session:
        experiment = find_experiment(session, caller, asked.experiment_id)
        gates = parse_spec(experiment.spec).gates if asked.gates is None else asked.gates
        evaluated = _evaluated(session, caller, experiment, gates)
    return GatesEvaluation.model_validate(
        {
            "experiment_id": experiment.id,
            "outcome": overall(evaluated),
            "reason": None if evaluated else "no gate was given",
            "gates": evaluated,
        }
    )


def _evaluated(
    session: Session, caller: Caller, experiment: Experiment, gates: Sequence[Gate]
) -> list[dict[str, Any]]:
    report = ReportRepository(session, caller.project_id).get(experiment.id)
    if report is not None:
        return evaluate(gates, report.document)
    reason = f"the experiment has no report: it is {experiment.status}"
    return [
        {
            "figure": gate.figure,
            "attribute": gate.attribute,
            "op": gate.op,
            "bound": gate.value,
            "value": None,
            "outcome": INSUFFICIENT,
            "reason": reason,
        }
        for gate in gates
    ]
