"""Sign-offs of reports."""

from fastapi import APIRouter

from api.http.bodies import JsonBody, validated
from api.openapi import problems, request_body
from api.schemas.base import IdempotencyHeader
from api.schemas.people import SignOffBody, SignOffList, SignOffRequest
from api.services.base.idempotency import IdempotentRequest
from api.services.reports.sign_offs import sign_off_report, sign_offs_of
from api.shared.resources import Shared
from api.shared.security import ReportsReader, ReportsSigner

router = APIRouter(prefix="/experiments/{experiment_id}/sign-offs", tags=["reports"])


@router.get("", responses=problems(404))
def list_sign_offs(experiment_id: str, caller: ReportsReader, resources: Shared) -> SignOffList:
    """What people stated of the report, oldest first."""
    with resources.database.read() as session:
        return SignOffList.of(sign_offs_of(session, caller, experiment_id))


@router.post(
    "",
    status_code=201,
    responses=problems(404, 409, 415),
    openapi_extra=request_body(SignOffRequest),
)
def create_sign_off(
    experiment_id: str,
    caller: ReportsSigner,
    value: JsonBody,
    resources: Shared,
    idempotency_key: IdempotencyHeader = None,
) -> SignOffBody:
    """Approve, reject or send back exactly the report that is stored, in the key's person's name.

    It cannot be changed or taken back; a later one stands behind it. The service signs it within
    seconds.
    """
    asked = validated(SignOffRequest, value)
    route = f"POST /v1/experiments/{experiment_id}/sign-offs"
    idempotency = IdempotentRequest.of(idempotency_key, route, value)
    return SignOffBody.of(sign_off_report(resources, caller, experiment_id, asked, idempotency))
