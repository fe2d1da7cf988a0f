"""Gates under names, so that pipelines hold many experiments against the same ones."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import TypeAdapter

from api.http.bodies import JsonBody, validated
from api.http.conditional import Stated, tag_of
from api.http.cursors import decode_cursor, encode_cursor
from api.http.links import Linked
from api.http.problems import invalid, not_found
from api.openapi import problems, request_body
from api.schemas.base import PageParameters
from api.schemas.people import ChangePage
from api.schemas.reports import PolicyBody, PolicyPage, PolicyRequest
from api.services.base.change_pages import change_page
from api.services.base.lookups import find_gate_policy
from api.shared.resources import Shared
from api.shared.security import ExperimentsWriter, ReportsReader
from fedaudit.spec.gates import PolicyName
from models.repositories import GatePolicyRepository, SettingChangeRepository

router = APIRouter(prefix="/gates/policies", tags=["gates"])

Name = Annotated[PolicyName, Path(description="The policy's name.")]

_KEY: TypeAdapter[Any] = TypeAdapter(tuple[PolicyName])
_LOCATION = {"Location": {"description": "The policy.", "schema": {"type": "string"}}}


@router.get("", responses=problems())
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


@router.get("/{name}", responses=problems(404))
def get_gate_policy(
    name: Name, caller: ReportsReader, resources: Shared, response: Response
) -> PolicyBody:
    """One policy."""
    with resources.database.read() as session:
        found = PolicyBody.of(find_gate_policy(session, caller, name))
    response.headers["ETag"] = tag_of(found)
    return found


@router.get("/{name}/history", responses=problems(404))
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


@router.delete("/{name}", status_code=204, responses=problems(404))
def delete_gate_policy(name: Name, caller: ExperimentsWriter, resources: Shared) -> Response:
    """Delete a policy. Experiments and what was evaluated are not touched."""
    with resources.database.write() as session:
        if not GatePolicyRepository(session, caller.project_id).delete(name):
            raise not_found("gate policy")
        SettingChangeRepository(session, caller.project_id).add(
            "gate-policy", name, "gates", value=None, changed_by=caller.actor
        )
    return Response(status_code=204)
