"""Gates under names, so that pipelines hold many experiments against the same ones."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import TypeAdapter

from api.http.bodies import JsonBody, validated
from api.http.cursors import decode_cursor, encode_cursor
from api.http.problems import invalid, not_found
from api.openapi import problems, request_body
from api.schemas.base import PageParameters
from api.schemas.gates import PolicyBody, PolicyPage, PolicyRequest
from api.services.base.lookups import find_gate_policy
from api.shared.resources import Shared
from api.shared.security import ExperimentsWriter, ReportsReader
from fedaudit.spec.policies import PolicyName
from models.repositories import GatePolicyRepository

router = APIRouter(prefix="/gates/policies", tags=["gates"])

Name = Annotated[PolicyName, Path(description="The policy's name.")]

_KEY: TypeAdapter[Any] = TypeAdapter(tuple[PolicyName])
_LOCATION = {"Location": {"description": "The policy.", "schema": {"type": "string"}}}


@router.get("", responses=problems())
def list_gate_policies(
    caller: ReportsReader, parameters: Annotated[PageParameters, Query()], resources: Shared
) -> PolicyPage:
    """The project's policies, by name."""
    cursor = decode_cursor("gate-policies", parameters.cursor, _KEY)
    with resources.database.read() as session:
        page = GatePolicyRepository(session, caller.project_id).list(
            cursor=cursor, limit=parameters.limit
        )
    return PolicyPage(
        items=[PolicyBody.of(row) for row in page.items],
        next_cursor=encode_cursor("gate-policies", page.next_cursor),
    )


@router.get("/{name}", responses=problems(404))
def get_gate_policy(name: Name, caller: ReportsReader, resources: Shared) -> PolicyBody:
    """One policy."""
    with resources.database.read() as session:
        return PolicyBody.of(find_gate_policy(session, caller, name))


@router.put(
    "/{name}",
    responses={
        **problems(404, 415),
        201: {"model": PolicyBody, "description": "A new policy.", "headers": _LOCATION},
    },
    openapi_extra=request_body(PolicyRequest),
)
def put_gate_policy(
    name: Name, caller: ExperimentsWriter, value: JsonBody, resources: Shared, response: Response
) -> PolicyBody:
    """Store a policy, or replace it. What was evaluated before stays as it was answered."""
    asked = validated(PolicyRequest, value)
    if asked.name not in (None, name):
        raise invalid("/name", f"is not that of the address, {name!r}; make them agree")
    gates = [gate.model_dump(mode="json") for gate in asked.gates]
    with resources.database.write() as session:
        stored, new = GatePolicyRepository(session, caller.project_id).put(
            name, description=asked.description, gates=gates
        )
    if new:
        response.status_code = 201
        response.headers["Location"] = f"/v1/gates/policies/{name}"
    return PolicyBody.of(stored)


@router.delete("/{name}", status_code=204, responses=problems(404))
def delete_gate_policy(name: Name, caller: ExperimentsWriter, resources: Shared) -> Response:
    """Delete a policy. Experiments and what was evaluated are not touched."""
    with resources.database.write() as session:
        if not GatePolicyRepository(session, caller.project_id).delete(name):
            raise not_found("gate policy")
    return Response(status_code=204)
