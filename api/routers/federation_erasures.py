"""Erasures of federations."""

from typing import Any

from fastapi import APIRouter, Response

from api.http.bodies import JsonBody, validated
from api.openapi import problems, request_body
from api.schemas.federations import ErasureBody, ErasureRequest
from api.services.federations.erasures import erase, newest_erasure
from api.shared.resources import Shared
from api.shared.security import Administrator, FederationsReader

router = APIRouter(prefix="/federations", tags=["federations"])


@router.post(
    "/{federation_id}/erasure",
    status_code=202,
    response_model=ErasureBody,
    responses={
        **problems(404, 409, 415),
        200: {"model": ErasureBody, "description": "Erased before."},
    },
    openapi_extra=request_body(ErasureRequest),
)
def erase_federation(
    federation_id: str, caller: Administrator, value: JsonBody, resources: Shared, answer: Response
) -> Any:
    """Remove what tells of the federation's people, for good; what was spent and signed stays.

    Its data, profile and registration are removed, and of its experiments the models, record
    tables, counts of groups and the names of clients. Budgets keep what was spent, for whoever
    registers the same content again. `remains` says what stays and why.
    """
    asked = validated(ErasureRequest, value)
    made, is_new = erase(resources, caller, federation_id, reference=asked.reference)
    answer.status_code = 202 if is_new else 200
    return ErasureBody.of(made)


@router.get("/{federation_id}/erasure", responses=problems(404))
def get_erasure(federation_id: str, caller: FederationsReader, resources: Shared) -> ErasureBody:
    """The federation's last erasure: how far it is, and its signed receipt once it is done."""
    return ErasureBody.of(newest_erasure(resources, caller, federation_id))
