"""Gates: evaluated on demand, and stored as policies under names."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from api.http.answers import Linked, decode_cursor, encode_cursor
from api.http.bodies import JsonBody, validated
from api.http.conditional import Stated, tag_of
from api.http.problems import invalid, not_found
from api.openapi import problems, request_body
from api.schemas.base import PageParameters
from api.schemas.people import ChangePage
from api.schemas.reports import GatesEvaluation, GatesRequest, PolicyBody, PolicyPage, PolicyRequest
from api.services.attacks.judged_reports import judged_document
from api.services.ledgers.ledger_evidence import report_of
from api.services.lookups import change_page, find_experiment, find_gate_policy
from api.services.sweeps import with_costs_of_now
from api.shared.resources import Resources, Shared
from api.shared.security import Caller, ExperimentsWriter, ReportsReader
from fedaudit.reports.gates.gate_evaluation import evaluate, overall, without_report
from fedaudit.spec.gates import Gate
from fedaudit.spec.parse import parse_admitted
from fedaudit.spec.policies import PolicyName
from models.repositories import GatePolicyRepository, ReportRepository, SettingChangeRepository
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


policies_router = APIRouter(prefix="/gates/policies", tags=["gates"])

Name = Annotated[PolicyName, Path(description="The policy's name.")]

_KEY: TypeAdapter[Any] = TypeAdapter(tuple[PolicyName])
_LOCATION = {"Location": {"description": "The policy.", "schema": {"type": "string"}}}


@policies_router.get("", responses=problems())
def list_gate_policies(
    caller: ReportsReader,
    parameters: Annotated[PageParameters, Query()],
    resources: Shared,
    linked: Linked[PolicyPage],
) -> PolicyPage:
    """The project's policies, by name."""
    cursor = decode_cursor("gate-policies", parameters.cursor, _KEY)
    with resources.database.read() as session:
        page = GatePolicyRepository(session, caller.project_id).list(
            cursor=cursor, limit=parameters.limit
        )
    return linked(
        PolicyPage(
            items=[PolicyBody.of(row) for row in page.items],
            next_cursor=encode_cursor("gate-policies", page.next_cursor),
        )
    )


@policies_router.get("/{name}", responses=problems(404))
def get_gate_policy(
    name: Name, caller: ReportsReader, resources: Shared, response: Response
) -> PolicyBody:
    """One policy."""
    with resources.database.read() as session:
        found = PolicyBody.of(find_gate_policy(session, caller, name))
    response.headers["ETag"] = tag_of(found)
    return found


@policies_router.get("/{name}/history", responses=problems(404))
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


@policies_router.put(
    "/{name}",
    responses={
        **problems(404, 412, 415),
        201: {"model": PolicyBody, "description": "A new policy.", "headers": _LOCATION},
    },
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
    gates = [gate.model_dump(mode="json") for gate in asked.gates]
    with resources.database.write() as session:
        policies = GatePolicyRepository(session, caller.project_id)
        present = policies.lock(name)
        stated.demand(None if present is None else PolicyBody.of(present))
        stored, new = policies.put(
            name, description=asked.description, gates=gates, by=caller.actor
        )
        body = PolicyBody.of(stored)
        if present is None and not new:
            # Somebody stored it in between.
            stated.demand(body)
        SettingChangeRepository(session, caller.project_id).add(
            "gate-policy",
            name,
            "gates",
            value={"description": asked.description, "gates": gates},
            changed_by=caller.actor,
        )
    if new:
        response.status_code = 201
        response.headers["Location"] = f"/v1/gates/policies/{name}"
    response.headers["ETag"] = tag_of(body)
    return body


@policies_router.delete("/{name}", status_code=204, responses=problems(404))
def delete_gate_policy(name: Name, caller: ExperimentsWriter, resources: Shared) -> Response:
    """Delete a policy. Experiments and what was evaluated are not touched."""
    with resources.database.write() as session:
        if not GatePolicyRepository(session, caller.project_id).delete(name):
            raise not_found("gate policy")
        SettingChangeRepository(session, caller.project_id).add(
            "gate-policy", name, "gates", value=None, changed_by=caller.actor
        )
    return Response(status_code=204)
