"""Federations: their registrations, profiles, budgets and policies, and proposals for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync
from fastapi import Request
from starlette.convertors import StringConvertor, register_url_convertor

from api.http.answers import SmallInteger, key_type
from api.http.bodies import JsonBody, decode_json, media_type, read_value
from api.http.problems import conflict
from api.openapi import Router, located, problems, request_body, upload_body
from api.schemas.base import IdempotencyHeader, PageParameters, of_row
from api.schemas.federations import (
    BudgetList,
    BudgetSetting,
    DisclosureBody,
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
from api.schemas.people import ChangeBody, ChangePage
from api.services.budgets import bodies, budgets_of
from api.services.disclosure import floor_of, policy_of, stored_policy
from api.services.dispatch import Accepting, dispatch
from api.services.lookups import find_federation, list_page, note
from api.services.pending_uploads import SURVEYED_ROWS, proposal_for
from api.services.registrations import (
    Registered,
    correct_registration,
    federation_bodies,
    federation_body,
    register_path,
    register_upload,
)
from api.services.uploads import IncomingFile, received
from api.shared.security import Call, FederationsReader, FederationsWriter
from fedaudit.runs.proposed_experiment import ProposalAim
from fedaudit.spec.disclosure import DisclosurePolicy, parse_disclosure_policy
from fedaudit.spec.errors import FieldError, raise_errors
from fedaudit.spec.registration import Registration, parse_uploaded
from models.repositories import AuditLogRepository, FederationRepository
from models.repositories.webhooks import announcing_low
from models.tables.federations import Federation
from models.values import AuditAction, new_id

if TYPE_CHECKING:
    from fedaudit.federations.reading.source_files import SourceFile


class _FederationId(StringConvertor):
    """What follows `/federations/` and is not a separate path, which has other methods."""

    regex = "(?!proposals$)[^/]+"


register_url_convertor("federation", _FederationId())
router = Router(prefix="/federations", tags=["federations"])
_CHANGES: tuple[AuditAction, ...] = ("budget.set", "disclosure.set", "simulation.set")


@router.post(
    "",
    status_code=202,
    response_model=FederationBody,
    responses={
        **problems(409),
        **located(200, "Registered so before, and ready.", "federation", model=FederationBody),
        **located(202, "To be profiled.", "federation"),
    },
    openapi_extra=upload_body(Registration),
)
async def register_federation(
    *,
    request: Request,
    call: FederationsWriter,
    accepting: Accepting,
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
        registered = await call.run(partial(register_path, call, value, idempotency_key))
    row = accepting.of(call, registered, f"/v1/federations/{registered.row.id}")
    accepting.response.status_code = 200 if row.status == "ready" else 202
    body = await run_sync(partial(federation_body, row, call=call))
    if (earlier := registered.replaced) is not None:
        again = f"replaced the registration of {earlier!r}, which has the same content"
        body.warnings.insert(0, again)
    return body


async def _upload(request: Request, call: Call, idempotency_key: str | None) -> Registered:
    def accept(text: bytes, name: str) -> Registration:
        return parse_uploaded(decode_json(text), file_name=name)

    content_type = request.headers["content-type"]
    incoming = IncomingFile(call, new_id(), content_type, text="registration", accept=accept)
    async with received(request, incoming) as sent:
        return await run_sync(register_upload, call, incoming.accepted, sent, idempotency_key)


@router.get("")
def list_federations(call: FederationsReader, parameters: FederationParameters) -> FederationPage:
    """The project's federations, newest first: each is data that experiments are run on."""
    with call.reading() as session:
        bodies = partial(federation_bodies, session, caller=call.caller)
        rows = partial(
            FederationRepository(session, call.project_id).list, status=parameters.status
        )
        return list_page(FederationPage, "federations", parameters, rows, bodies)


@router.get("/{federation_id:federation}")
def get_federation(federation_id: str, call: FederationsReader) -> FederationBody:
    """One federation."""
    found = call.find(find_federation, federation_id)
    return federation_body(found, call=call)


@router.delete("/{federation_id:federation}", status_code=204, responses=problems(409))
def delete_federation(federation_id: str, call: FederationsWriter) -> None:
    """Delete the file and its profile. Experiments, reports and what was spent stay."""
    with call.writing() as session:
        found = find_federation(session, call.caller, federation_id)
        federations = FederationRepository(session, call.project_id)
        federations.lock(found.id)
        if federations.in_use(found.id):
            raise conflict(
                "experiments on the federation, or attacks on them, are queued or running; wait "
                "for their end, or cancel them"
            )
        if federations.mark_deleted(found.id):
            note(session, call.caller, "federation.removed", found.id)
    if found.storage_key is None:
        return
    # Where the storage fails, the same call again removes the rest.
    call.resources.storage.delete(found.storage_key)
    with call.writing() as session:
        FederationRepository(session, call.project_id).forget_file(found.id, found.storage_key)


@router.get("/{federation_id}/profile", responses=problems(409))
def get_profile(federation_id: str, call: FederationsReader) -> ShownProfile:
    """What the data looks like: sizes, names, and shares of groups that are large enough."""
    found = call.find(find_federation, federation_id)
    profile = shown_profile(found)
    if found.status != "ready" or profile is None:
        faults = found.reasons or []
        errors = [FieldError(one["pointer"], one["message"]) for one in faults]
        why = f"the federation is {found.status} without a profile; wait, or register its file"
        raise conflict(why, errors=errors, reasons=faults)
    return profile


@router.get("/{federation_id}/budget")
def get_budget(federation_id: str, call: FederationsReader) -> BudgetList:
    """What may be spent on the federation's data, what is reserved and what is spent."""
    return BudgetList(items=budgets_of(call, federation_id))


@router.put("/{federation_id}/budget", responses=problems(409))
def set_budget(federation_id: str, call: FederationsWriter, setting: BudgetSetting) -> BudgetList:
    """Set one budget. A total below what is spent only stops what is still to come.

    Where another project owns the content, its total cannot be raised, and a smaller one holds for
    the caller's project alone. A total of null removes one: what was spent under it stays charged,
    and the history has who did so.
    """
    with call.writing() as session:
        found = find_federation(session, call.caller, federation_id)
        budgets = call.budgets(session)
        with announcing_low(budgets, found.id):
            budget = budgets.set_budget(found.id, **setting.stored_fields())
        own, owners = budget.own_total, budget.owner_total
        if not (budget.is_owner or own is None or owners is None or own <= owners):
            raise conflict(
                "another project of this service owns this content and has set a total of "
                f"{owners:.6g}, which holds for all projects and only it can raise; set a smaller "
                "one, which then holds for your project alone",
                federation_id=found.id,
                total=owners,
            )
        value = setting.model_dump(mode="json", exclude_none=True) | {"total": setting.total}
        note(session, call.caller, "budget.set", found.id, value=value)
        return BudgetList(items=bodies(budgets, found.id))


@router.get("/{federation_id}/history")
def list_federation_changes(
    federation_id: str, call: FederationsReader, parameters: PageParameters
) -> ChangePage:
    """Who set which budget, disclosure policy or rule on simulated noise, and when."""
    with call.reading() as session:
        found = find_federation(session, call.caller, federation_id)
        about = {"subject": found.id, "actions": _CHANGES}
        rows = partial(AuditLogRepository(session, call.project_id).list, about)
        route, bodies = f"changes:federation:{found.id}", partial(map, ChangeBody.of)
        return list_page(ChangePage, route, parameters, rows, bodies, key=key_type(SmallInteger))


@router.put("/{federation_id}/simulation")
def set_simulation(
    federation_id: str, call: FederationsWriter, setting: SimulationSetting
) -> FederationBody:
    """Allow or forbid experiments whose noise is drawn from their seed.

    Where it is forbidden, so are experiments without noise. It holds for what is submitted from
    then on.
    """
    with call.writing() as session:
        found = find_federation(session, call.caller, federation_id)
        federations = FederationRepository(session, call.project_id)
        changed = federations.set_simulation(found.id, setting.simulation)
        value = {"simulation": setting.simulation}
        note(session, call.caller, "simulation.set", found.id, value=value)
    return federation_body(changed, call=call)


@router.get("/{federation_id}/disclosure")
def get_disclosure(federation_id: str, call: FederationsReader) -> DisclosureBody:
    """What its owner lets anyone ask of the federation's groups, and the service's floor."""
    return _disclosure(call, call.find(find_federation, federation_id))


@router.put("/{federation_id}/disclosure", openapi_extra=request_body(DisclosurePolicy))
def set_disclosure(federation_id: str, call: FederationsWriter, value: JsonBody) -> DisclosureBody:
    """Set the whole policy; a field that is left out is left to each request.

    It binds what is submitted, retried or registered from then on, and stays with the content.
    """
    policy = parse_disclosure_policy(value)
    faults = []
    for name, least in vars(floor_of(call.resources.settings)).items():
        asked = getattr(policy, name)
        if asked is not None and asked < least:
            message = f"is below {least}, the least that this service allows anyway; raise it"
            faults.append(FieldError(f"/{name}", message))
    raise_errors(faults)
    with call.writing() as session:
        found = find_federation(session, call.caller, federation_id)
        federations = FederationRepository(session, call.project_id)
        stored = stored_policy(policy)
        changed = federations.set_disclosure(found.id, stored)
        note(session, call.caller, "disclosure.set", found.id, value=stored)
        return _disclosure(call, changed)


def _disclosure(call: Call, row: Federation) -> DisclosureBody:
    floor, set_at = floor_of(call.resources.settings), row.disclosure_set_at
    return of_row(DisclosureBody, policy_of(row), floor=floor, set_at=set_at)


@router.post("/proposals", responses=problems(404, 409))
async def propose_registration(call: FederationsWriter, asked: ProposalRequest) -> ProposalBody:
    """Propose a registration for a table, from its first rows. Nothing is stored.

    Categories and codes are values of the data: keys that may write federations may see them.
    """

    def answer() -> ProposalBody:
        # Imported here because this package loads pyarrow.
        from fedaudit.federations.proposals.column_survey import survey_table
        from fedaudit.federations.proposals.proposal import proposal_yaml, propose

        with _opened_source(call, asked) as (file, name):
            survey = survey_table(file, header=asked.header, most_rows=SURVEYED_ROWS)
        found = propose(survey, name=name, client_key=asked.client_key, target=asked.target)
        return ProposalBody(**asdict(found), yaml=proposal_yaml(found))

    return await call.run(answer)


@contextmanager
def _opened_source(call: Call, asked: ProposalRequest) -> Iterator[tuple["SourceFile", str]]:
    from fedaudit.federations.reading.source_files import open_stored

    path, pointer = asked.path, "/path"
    name = "" if path is None else path.rpartition("/")[2]
    if path is None:
        pointer = "/id"
        row = call.find(find_federation, str(asked.id))
        name = row.file_name or row.name
        if row.status in ("deleted", "erased") or row.registration is None:
            raise conflict("the federation has no file; upload it again")
        if row.storage_key is not None:
            with (
                call.resources.storage.local(row.storage_key) as place,
                open_stored(place, name) as file,
            ):
                yield file, name
            return
        path = str(row.registration["federation"]["path"])
    with call.resources.open_source(call.project_id, path, pointer=pointer) as file:
        yield file, name


@router.post("/{federation_id}/proposals", responses=problems(409))
async def propose_experiment(
    federation_id: str, call: FederationsReader, asked: SpecProposalRequest
) -> SpecProposalBody:
    """Propose an experiment on the federation, with the reason of each choice. Nothing is stored.

    It follows from numbers of clients and rows, columns, declared ranges, policy, budgets and the
    share of the rarer class that the profile shows; it reads no row. `expected_useful` is a rule of
    thumb.
    """

    def answer() -> SpecProposalBody:
        cost = asked.model_dump(exclude={"privacy"})
        aim = ProposalAim(**cost, private=asked.privacy is None)
        row = call.find(find_federation, federation_id)
        return of_row(SpecProposalBody, proposal_for(call, row, aim))

    return await call.run(answer)


@router.put(
    "/{federation_id}/registration",
    responses={
        **problems(409),
        200: {"description": "Registered so already, and ready."},
        202: {"description": "To be profiled.", "model": FederationBody},
    },
    openapi_extra=request_body(Registration),
)
async def set_registration(
    *, federation_id: str, call: FederationsWriter, value: JsonBody, accepting: Accepting
) -> FederationBody:
    """Register a federation's file otherwise, without sending it again.

    While it is rejected, or no experiment used it. `path` may be left out, as the file is known.
    """
    registered = await run_sync(partial(correct_registration, call, federation_id, value))
    accepting.background.add_task(dispatch, call.resources, *registered.units)
    row = registered.row
    accepting.response.status_code = 200 if row.status == "ready" else 202
    return await run_sync(partial(federation_body, row, call=call))
