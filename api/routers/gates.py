"""Gates, evaluated on demand."""

from typing import Any

from fastapi import APIRouter

from api.http.bodies import JsonBody, validated
from api.openapi import problems, request_body
from api.schemas.reports import GatesEvaluation, GatesRequest
from api.services.attacks import judged_document
from api.services.ledgers.stored_ledgers import report_of
from api.services.lookups import find_experiment
from api.services.sweeps import with_costs_of_now
from api.shared.resources import Resources, Shared
from api.shared.security import Caller, ReportsReader
from fedaudit.reports.gates.gate_evaluation import evaluate, without_report
from fedaudit.reports.gates.gate_results import overall
from fedaudit.reports.report import OTHER_FORM, has_present_form
from fedaudit.spec.gates import refuse_percentages
from fedaudit.spec.parse import parse_admitted
from models.repositories import ReportRepository

router = APIRouter(prefix="/gates", tags=["gates"])


@router.post("/evaluations", responses=problems(404, 415), openapi_extra=request_body(GatesRequest))
def evaluate_gates(caller: ReportsReader, value: JsonBody, resources: Shared) -> GatesEvaluation:
    """Whether the report of an experiment, or of a declared ledger, meets each gate, fails it, or
    lacks the evidence."""
    asked = validated(GatesRequest, value)
    refuse_percentages(asked.gates or ())
    if asked.ledger_id is None:
        evaluated = _of_experiment(resources, caller, asked)
    else:
        report = report_of(resources, caller, asked.ledger_id)
        evaluated = evaluate(asked.gates or (), report.document)
    return GatesEvaluation.model_validate(
        {
            "experiment_id": asked.experiment_id,
            "ledger_id": asked.ledger_id,
            "outcome": overall(evaluated),
            "reason": None if evaluated else "no gate was given",
            "gates": evaluated,
        }
    )


def _of_experiment(
    resources: Resources, caller: Caller, asked: GatesRequest
) -> list[dict[str, Any]]:
    with resources.database.read() as session:
        experiment = find_experiment(session, caller, asked.experiment_id or "")
        gates = asked.gates
        if gates is None:
            gates = parse_admitted(experiment.spec).gates
        report = ReportRepository(session, caller.project_id).get(experiment.id)
        if report is None:
            return without_report(gates, f"the experiment has no report: it is {experiment.status}")
        if not has_present_form(report.document):
            return without_report(gates, OTHER_FORM)
        document = judged_document(session, report)
        return evaluate(gates, with_costs_of_now(session, caller, experiment.id, document))
