"""Registrations that the service proposes, and others that replace a federation's own."""

from functools import partial

from anyio.to_thread import run_sync
from fastapi import APIRouter, BackgroundTasks, Request, Response

from api.http.bodies import JsonBody, validated
from api.openapi import problems, request_body
from api.schemas.federations import FederationBody, ProposalBody, ProposalRequest
from api.services.base.dispatch import dispatch
from api.services.federations.corrections import correct_registration
from api.services.federations.proposals import propose_registration
from api.services.federations.registrations import federation_body
from api.shared.resources import Shared
from api.shared.security import FederationsWriter
from fedaudit.spec.registration import Registration

router = APIRouter(prefix="/federations", tags=["federations"])


@router.post(
    "/proposals",
    responses=problems(404, 409, 415, 429),
    openapi_extra=request_body(ProposalRequest),
)
async def propose(
    request: Request, caller: FederationsWriter, value: JsonBody, resources: Shared
) -> ProposalBody:
    """Propose a registration for a table, from its first rows. Nothing is stored.

    Categories and codes are values of the data: whoever may write federations may see them.
    """
    asked = validated(ProposalRequest, value)
    return await resources.loads.run(
        caller.project_id, partial(propose_registration, resources, caller, asked), request=request
    )


@router.put(
    "/{federation_id}/registration",
    responses={
        **problems(404, 409, 415),
        200: {"description": "Registered so already, and ready."},
        202: {"description": "To be profiled.", "model": FederationBody},
    },
    openapi_extra=request_body(Registration),
)
async def set_registration(
    *,
    federation_id: str,
    caller: FederationsWriter,
    value: JsonBody,
    resources: Shared,
    background: BackgroundTasks,
    response: Response,
) -> FederationBody:
    """Register a federation's file otherwise, without sending it again.

    While it is rejected, or no experiment used it. `path` may be left out, as the file is known.
    """
    registered = await run_sync(
        partial(correct_registration, resources, caller, federation_id, value)
    )
    if registered.unit_message is not None:
        background.add_task(dispatch, resources, registered.unit_message)
    response.status_code = registered.status_code
    return await run_sync(partial(federation_body, resources, registered.federation, caller=caller))
