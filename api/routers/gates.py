"""Gates: evaluated on demand, and stored as policies under names."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from sqlalchemy.orm import Session

from api.http.answers import Linked, key_type
from api.http.bodies import JsonBody, validated
from api.http.conditional import Stated, tag_of
from api.http.problems import invalid, not_found
from api.openapi import located, problems, request_body
from api.schemas.base import PageParameters
from api.schemas.people import ChangePage
from api.schemas.reports import GatesEvaluation, GatesRequest, PolicyBody, PolicyPage, PolicyRequest
from api.services.attacks import judged_document
from api.services.ledgers.stored_ledgers import report_of
from api.services.lookups import (
    change_page,
    find_experiment,
    find_gate_policy,
    list_page,
    note_setting,
)
from api.services.sweeps import with_costs_of_now
from api.shared.resources import Resources, Shared
from api.shared.security import Caller, ExperimentsWriter, ReportsReader
from fedaudit.reports.gates.gate_evaluation import evaluate, overall, without_report
from fedaudit.reports.report import OTHER_FORM, has_present_form
from fedaudit.spec.gates import Gate, PolicyName
from fedaudit.spec.parse import parse_admitted
from models.repositories import GatePolicyRepository, ReportRepository

router = APIRouter(prefix="/gates", tags=["gates"])

Name = Annotated[PolicyName, Path(description="The policy's name.")]


@router.post("/evaluations", responses=problems(404, 415), openapi_extra=request_body(GatesRequest))
def evaluate_gates(caller: ReportsReader, value: JsonBody, resources: Shared) -> GatesEvaluation:
    """Whether the report of an experiment, or of a declared ledger, meets each gate, fails it, or
    lacks the evidence."""
    asked = validated(GatesRequest, value)
    if asked.ledger_id is None:
        evaluated = _of_experiment(resources, caller, asked)
    else:
        with resources.database.read() as session:
            gates = _asked_gates(session, caller, asked)
        report = report_of(resources, caller, asked.ledger_id)
        evaluated = evaluate(gates or (), report.document)
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
    resources: Resources, caller: Caller, asked: GatesRequest
) -> list[dict[str, Any]]:
    with resources.database.read() as session:
        experiment = find_experiment(session, caller, asked.experiment_id or "")
        gates = _asked_gates(session, caller, asked)
        if gates is None:
            gates = parse_admitted(experiment.spec).gates
        report = ReportRepository(session, caller.project_id).get(experiment.id)
        if report is None:
            return without_report(gates, f"the experiment has no report: it is {experiment.status}")
        if not has_present_form(report.document):
            return without_report(gates, OTHER_FORM)
        document = judged_document(session, report)
        return evaluate(gates, with_costs_of_now(session, caller, experiment.id, document))


def _asked_gates(session: Session, caller: Caller, asked: GatesRequest) -> Sequence[Gate] | None:
    """The gates that a request gives or names; None for those of the spec."""
    if asked.policy is not None:
        stored = find_gate_policy(session, caller, asked.policy).gates
        return [Gate.model_validate(gate) for gate in stored]
    return asked.gates


@router.get("/policies", responses=problems())
def list_gate_policies(
    caller: ReportsReader,
    parameters: Annotated[PageParameters, Query()],
    resources: Shared,
    linked: Linked[PolicyPage],
) -> PolicyPage:
    """The project's policies, by name."""
    with resources.database.read() as session:
        rows, bodies = (
            GatePolicyRepository(session, caller.project_id).list,
            partial(map, PolicyBody.of),
        )
        key = key_type(PolicyName)
        return linked(list_page(PolicyPage, "gate-policies", parameters, rows, bodies, key=key))


@router.get("/policies/{name}", responses=problems(404))
def get_gate_policy(
    name: Name, caller: ReportsReader, resources: Shared, response: Response
) -> PolicyBody:
    """One policy."""
    with resources.database.read() as session:
        found = PolicyBody.of(find_gate_policy(session, caller, name))
    response.headers["ETag"] = tag_of(found)
    return found


@router.get("/policies/{name}/history", responses=problems(404))
def list_gate_policy_changes(
    name: Name,
    caller: ReportsReader,
    parameters: Annotated[PageParameters, Query()],
    resources: Shared,
) -> ChangePage:
    """Who stored or deleted the policy of this name, and when; also of one that is deleted."""
    with resources.database.read() as session:
        found = change_page(session, caller, parameters, subject_kind="gate-policy", subject=name)
        if not found.items and parameters.cursor is None:
            # A policy from before changes were recorded has none; another name is not there.
            find_gate_policy(session, caller, name)
    return found


@router.put(
    "/policies/{name}",
    responses=problems(404, 412, 415) | located(201, "A new policy.", "policy", model=PolicyBody),
    openapi_extra=request_body(PolicyRequest),
)
def put_gate_policy(
    *,
    name: Name,
    caller: ExperimentsWriter,
    value: JsonBody,
    resources: Shared,
    stated: Stated,
    response: Response,
) -> PolicyBody:
    """Store a policy, or replace it. What was evaluated before stays as it was answered.

    With its ETag in `If-Match` nothing is stored where it has changed since; with
    `If-None-Match: *` nothing where there is one.
    """
    asked = validated(PolicyRequest, value)
    if asked.name not in (None, name):
        raise invalid("/name", f"is not that of the address, {name!r}; make them agree")
    stored = asked.model_dump(mode="json", include={"description", "gates"})
    with resources.database.write() as session:
        policies = GatePolicyRepository(session, caller.project_id)
        present = policies.lock(name)
        stated.demand(None if present is None else PolicyBody.of(present))
        row, new = policies.put(name, **stored, by=caller.actor)
        body = PolicyBody.of(row)
        if present is None and not new:
            # Another request stored it in between.
            stated.demand(body)
        note_setting(session, caller, ("gate-policy", name), "gates", stored)
    if new:
        response.status_code = 201
        response.headers["Location"] = f"/v1/gates/policies/{name}"
    response.headers["ETag"] = tag_of(body)
    return body


@router.delete("/policies/{name}", status_code=204, responses=problems(404))
def delete_gate_policy(name: Name, caller: ExperimentsWriter, resources: Shared) -> Response:
    """Delete a policy. Experiments and what was evaluated are not touched."""
    with resources.database.write() as session:
        if not GatePolicyRepository(session, caller.project_id).delete(name):
            raise not_found("gate policy")
        note_setting(session, caller, ("gate-policy", name), "gates", None)
    return Response(status_code=204)
