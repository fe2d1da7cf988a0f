"""Federations: their registrations, profiles, budgets, policies and erasures."""

from functools import partial
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, BackgroundTasks, Query, Request, Response
from starlette.convertors import StringConvertor, register_url_convertor

from api.http.bodies import JsonBody, media_type, read_value, validated
from api.http.problems import conflict
from api.openapi import located, problems, request_body, upload_body
from api.schemas.base import IdempotencyHeader, PageParameters
from api.schemas.federations import (
    BudgetList,
    BudgetSetting,
    DisclosureBody,
    ErasureBody,
    ErasureRequest,
    FederationBody,
    FederationPage,
    FederationParameters,
    ProposalBody,
    ProposalRequest,
    ShownProfile,
    SimulationSetting,
    SpecProposalBody,
    SpecProposalRequest,
    shown_profile,
)
from api.schemas.people import ChangePage
from api.services.budgets import budgets_of
from api.services.budgets import set_budget as change_budget
from api.services.disclosure import get_disclosure as read_disclosure
from api.services.disclosure import set_disclosure as change_disclosure
from api.services.disclosure import set_simulation as change_simulation
from api.services.dispatch import dispatch
from api.services.erasures import erase, newest_erasure
from api.services.lookups import change_page, find_federation, list_page
from api.services.pending_uploads import propose_registration, propose_spec
from api.services.registrations import (
    Registered,
    correct_registration,
    federation_bodies,
    federation_body,
    register_path,
    register_upload,
    registered_body,
    remove,
)
from api.services.uploads import IncomingUpload, received
from api.shared.security import Administrator, Call, FederationsReader, FederationsWriter
from fedaudit.spec.disclosure import DisclosurePolicy
from fedaudit.spec.errors import FieldError
from fedaudit.spec.registration import Registration
from models.identifiers import new_id
from models.repositories import FederationRepository
from models.values import FederationStatus


class _FederationId(StringConvertor):
    """What follows `/federations/` and is not a separate path, which has other methods."""

    regex = "(?!proposals$)[^/]+"


register_url_convertor("federation", _FederationId())
router = APIRouter(prefix="/federations", tags=["federations"])

_NO_PROFILE: dict[FederationStatus, str] = {
    "ready": "the federation has no profile; register its file",
    "profiling": "the federation is still being profiled",
    "rejected": "the federation was rejected, for `errors`",
    "deleted": "the federation was deleted, and its profile with it",
    "erased": "the federation was erased, and its profile with it",
}


@router.post(
    "",
    status_code=202,
    response_model=FederationBody,
    responses={
        **problems(409, 415, 429),
        **located(200, "Registered so before, and ready.", "federation", model=FederationBody),
        **located(202, "To be profiled.", "federation"),
    },
    openapi_extra=upload_body(Registration),
)
async def register_federation(
    *,
    request: Request,
    call: FederationsWriter,
    background: BackgroundTasks,
    response: Response,
    idempotency_key: IdempotencyHeader = None,
) -> FederationBody:
    """Register a file below the sources folder, or upload one.

    The same content is one federation however often it is sent: what was spent on it stays spent.
    """
    if media_type(request) == "multipart/form-data":
        registered = await _upload(request, call, idempotency_key)
    else:
        value = await read_value(request)
        # The file is read to its end, which may take as long as loading it.
        registered = await call.resources.loads.run(
            call.project_id, partial(register_path, call, value, idempotency_key)
        )
    if registered.unit is not None:
        # After the answer: a broker that is away must not keep the caller waiting.
        background.add_task(dispatch, call.resources, registered.unit)
    response.status_code = _status_of(registered)
    response.headers["Location"] = f"/v1/federations/{registered.row.id}"
    return await run_sync(partial(registered_body, registered, call=call))


def _status_of(registered: Registered) -> int:
    """202 while a worker still has to profile it."""
    return 200 if registered.row.status == "ready" else 202


async def _upload(request: Request, call: Call, idempotency_key: str | None) -> Registered:
    incoming = IncomingUpload(call.resources, call.project_id, new_id())
    async with received(request, incoming):
        arrived = await run_sync(incoming.finish)
        return await run_sync(register_upload, call, arrived, idempotency_key)


@router.get("", responses=problems())
def list_federations(
    call: FederationsReader, parameters: Annotated[FederationParameters, Query()]
) -> FederationPage:
    """The project's federations, newest first: each is data that experiments are run on."""
    with call.reading() as session:
        bodies = partial(federation_bodies, session, caller=call.caller)
        rows = partial(
            FederationRepository(session, call.project_id).list, status=parameters.status
        )
        return list_page(FederationPage, "federations", parameters, rows, bodies)


@router.get("/{federation_id:federation}", responses=problems(404))
def get_federation(federation_id: str, call: FederationsReader) -> FederationBody:
    """One federation."""
    with call.reading() as session:
        found = find_federation(session, call.caller, federation_id)
    return federation_body(found, call=call)


@router.delete("/{federation_id:federation}", status_code=204, responses=problems(404, 409))
def delete_federation(federation_id: str, call: FederationsWriter) -> Response:
    """Delete the file and its profile. Experiments, reports and what was spent stay."""
    remove(call, federation_id)
    return Response(status_code=204)


@router.get("/{federation_id}/profile", responses=problems(404, 409))
def get_profile(federation_id: str, call: FederationsReader) -> ShownProfile:
    """What the data looks like: sizes, names, and shares of groups that are large enough."""
    with call.reading() as session:
        found = find_federation(session, call.caller, federation_id)
    profile = shown_profile(found)
    if found.status != "ready" or profile is None:
        faults = found.reasons or []
        errors = [FieldError(one["pointer"], one["message"]) for one in faults]
        raise conflict(_NO_PROFILE[found.status], errors=errors, reasons=faults)
    return profile


@router.get("/{federation_id}/budget", name="get_budget", responses=problems(404))
def get_budgets(federation_id: str, call: FederationsReader) -> BudgetList:
    """What may be spent on the federation's data, what is reserved and what is spent."""
    return BudgetList(items=budgets_of(call, federation_id))


@router.put(
    "/{federation_id}/budget",
    responses=problems(404, 409, 415),
    openapi_extra=request_body(BudgetSetting),
)
def set_budget(federation_id: str, call: FederationsWriter, value: JsonBody) -> BudgetList:
    """Set one budget. A total below what is spent only stops what is still to come.

    Where another project owns the content, its total cannot be raised, and a smaller one holds for
    the caller's project alone. A total of null removes one: what was spent under it stays charged,
    and the history has who did so.
    """
    setting = validated(BudgetSetting, value)
    return BudgetList(items=change_budget(call, federation_id, setting))


@router.get("/{federation_id}/history", responses=problems(404))
def list_federation_changes(
    federation_id: str, call: FederationsReader, parameters: Annotated[PageParameters, Query()]
) -> ChangePage:
    """Who set which budget, disclosure policy or rule on simulated noise, and when."""
    with call.reading() as session:
        found = find_federation(session, call.caller, federation_id)
        return change_page(session, call.caller, parameters, found.id)


@router.put(
    "/{federation_id}/simulation",
    responses=problems(404, 415),
    openapi_extra=request_body(SimulationSetting),
)
def set_simulation(federation_id: str, call: FederationsWriter, value: JsonBody) -> FederationBody:
    """Allow or forbid experiments whose noise is drawn from their seed.

    Where it is forbidden, so are experiments without noise. It holds for what is submitted from
    then on.
    """
    changed = change_simulation(call, federation_id, validated(SimulationSetting, value))
    return federation_body(changed, call=call)


@router.get("/{federation_id}/disclosure", responses=problems(404))
def get_disclosure(federation_id: str, call: FederationsReader) -> DisclosureBody:
    """What its owner lets anyone ask of the federation's groups, and the service's floor."""
    return read_disclosure(call, federation_id)


@router.put(
    "/{federation_id}/disclosure",
    responses=problems(404, 415),
    openapi_extra=request_body(DisclosurePolicy),
)
def set_disclosure(federation_id: str, call: FederationsWriter, value: JsonBody) -> DisclosureBody:
    """Set the whole policy; a field that is left out is left to each request.

    It binds what is submitted, retried or registered from then on, and stays with the content.
    """
    return change_disclosure(call, federation_id, value)


@router.post(
    "/proposals",
    name="propose_registration",
    responses=problems(404, 409, 415, 429),
    openapi_extra=request_body(ProposalRequest),
)
async def propose(call: FederationsWriter, value: JsonBody) -> ProposalBody:
    """Propose a registration for a table, from its first rows. Nothing is stored.

    Categories and codes are values of the data: keys that may write federations may see them.
    """
    asked = validated(ProposalRequest, value)
    return await call.resources.loads.run(
        call.project_id, partial(propose_registration, call, asked)
    )


@router.post(
    "/{federation_id}/proposals",
    responses=problems(404, 409, 415, 429),
    openapi_extra=request_body(SpecProposalRequest),
)
async def propose_experiment(
    federation_id: str, call: FederationsReader, value: JsonBody
) -> SpecProposalBody:
    """Propose an experiment on the federation, with the reason of each choice. Nothing is stored.

    It follows from numbers of clients and rows, columns, declared ranges, policy and budgets; no
    value and no outcome is looked at. `expected_useful` is a rule of thumb.
    """
    work = partial(propose_spec, call, federation_id, validated(SpecProposalRequest, value))
    return await call.resources.loads.run(call.project_id, work)


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
    call: FederationsWriter,
    value: JsonBody,
    background: BackgroundTasks,
    response: Response,
) -> FederationBody:
    """Register a federation's file otherwise, without sending it again.

    While it is rejected, or no experiment used it. `path` may be left out, as the file is known.
    """
    registered = await run_sync(partial(correct_registration, call, federation_id, value))
    if registered.unit is not None:
        background.add_task(dispatch, call.resources, registered.unit)
    response.status_code = _status_of(registered)
    return await run_sync(partial(federation_body, registered.row, call=call))


@router.post(
    "/{federation_id}/erasure",
    status_code=202,
    response_model=ErasureBody,
    responses=problems(404, 409, 415)
    | {200: {"model": ErasureBody, "description": "Erased before."}},
    openapi_extra=request_body(ErasureRequest),
)
def erase_federation(
    federation_id: str, call: Administrator, value: JsonBody, answer: Response
) -> Any:
    """Remove the data about the federation's people, for good; spending and signatures stay.

    Its data, profile and registration are removed, and of its experiments the models, record
    tables, counts of groups and the names of clients. Budgets keep what was spent, for anyone who
    registers the same content again. `remains` lists what stays and why.
    """
    asked = validated(ErasureRequest, value)
    made, is_new = erase(call, federation_id, reference=asked.reference)
    answer.status_code = 202 if is_new else 200
    return ErasureBody.of(made)


@router.get("/{federation_id}/erasure", responses=problems(404))
def get_erasure(federation_id: str, call: FederationsReader) -> ErasureBody:
    """The federation's last erasure: how far it is, and its signed receipt once it is done."""
    return ErasureBody.of(newest_erasure(call, federation_id))
