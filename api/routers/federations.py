"""Federations and the budgets on their data."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import TypeAdapter

from api.bodies import JsonBody, validated
from api.cursors import decode_cursor, encode_cursor
from api.openapi import problems, request_body
from api.resources import Shared
from api.schemas.base import PageParameters
from api.schemas.federations import (
    BudgetBody,
    BudgetList,
    BudgetSetting,
    FederationBody,
    FederationPage,
)
from api.security import FederationsReader, FederationsWriter
from api.services.lookups import find_federation
from fedaudit.spec.base import Text
from models.repositories import FederationRepository

router = APIRouter(prefix="/federations", tags=["federations"])

_KEY: TypeAdapter[Any] = TypeAdapter(tuple[Text])


@router.get("", responses=problems())
def list_federations(
    caller: FederationsReader,
    parameters: Annotated[PageParameters, Query()],
    resources: Shared,
) -> FederationPage:
    """The project's federations, newest first: each is data that experiments were run on."""
    cursor = decode_cursor("federations", parameters.cursor, _KEY)
    with resources.database.read() as session:
        page = FederationRepository(session, caller.project_id).list(
            cursor=cursor, limit=parameters.limit
        )
    return FederationPage(
        items=[FederationBody.of(row) for row in page.items],
        next_cursor=encode_cursor("federations", page.next_cursor),
    )


@router.get("/{federation_id}", responses=problems(404))
def get_federation(
    federation_id: str, caller: FederationsReader, resources: Shared
) -> FederationBody:
    """One federation."""
    with resources.database.read() as session:
        return FederationBody.of(find_federation(session, caller, federation_id))


@router.get("/{federation_id}/budget", responses=problems(404))
def get_budgets(federation_id: str, caller: FederationsReader, resources: Shared) -> BudgetList:
    """What may be spent on the federation's data, what is reserved and what is spent."""
    with resources.database.read() as session:
        found = find_federation(session, caller, federation_id)
        budgets = FederationRepository(session, caller.project_id).budgets(found.id)
    return BudgetList(items=[BudgetBody.of(budget) for budget in budgets])


@router.put(
    "/{federation_id}/budget",
    responses=problems(404, 415),
    openapi_extra=request_body(BudgetSetting),
)
def set_budget(
    federation_id: str, caller: FederationsWriter, value: JsonBody, resources: Shared
) -> BudgetList:
    """Set one budget. A total below what is spent only stops what is still to come."""
    setting = validated(BudgetSetting, value)
    with resources.database.write() as session:
        found = find_federation(session, caller, federation_id)
        federations = FederationRepository(session, caller.project_id)
        federations.set_budget(found.id, **setting.model_dump())
        budgets = federations.budgets(found.id)
    return BudgetList(items=[BudgetBody.of(budget) for budget in budgets])
