"""A table of one's own in the browser: sent, looked at, corrected and registered."""

from functools import partial
from typing import Annotated

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter, BackgroundTasks, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.http.bodies import in_blocks, media_type
from api.http.problems import ProblemError
from api.pages.registration_form import names
from api.pages.registration_form.registration_sheet import RegistrationSheet, faults_at
from api.pages.registration_form.registration_texts import registration_texts
from api.pages.registration_form.typed_registration import typed_registration
from api.pages.session import (
    CSRF_FIELD,
    CheckedForm,
    FederationsAuthor,
    FederationsForm,
    Visitor,
    check_word,
    refuse_foreign,
)
from api.pages.templates import page
from api.services.dispatch import dispatch
from api.services.pending_uploads import (
    FIRST_ROWS,
    LookedAt,
    check_room,
    discard,
    find_upload,
    keep_upload,
    look_at,
    register_pending,
    waiting_uploads,
)
from api.services.uploads import IncomingForm
from api.shared.resources import Resources, Shared
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.registration import Registration, parse_uploaded
from models.identifiers import new_id
from models.tables.federations import PendingUpload

router = APIRouter(prefix="/federations/new")

_FORM = "multipart/form-data"
_KEPT = (409, 413, 422)
"""Refusals of a file that are told beside its field."""


@router.get("")
def new_federation_page(
    request: Request, visitor: FederationsAuthor, resources: Shared
) -> HTMLResponse:
    """Where a file is chosen; tables that wait for their registration are listed."""
    return _choice(request, visitor, resources)


@router.post("")
async def upload_table(request: Request, visitor: FederationsAuthor, resources: Shared) -> Response:
    """Take a file, and go on to what it seems to hold."""
    refuse_foreign(request)
    if media_type(request) != _FORM:
        raise ProblemError(415, "unsupported-media-type", f"send the form as {_FORM}")
    upload_id = new_id()
    try:
        await _take(request, visitor, resources, upload_id)
    except ProblemError as error:
        if error.status not in _KEPT:
            raise
        fault = "; ".join(one.message for one in error.errors) or error.detail
        return await run_sync(
            partial(_choice, request, visitor, resources, fault=fault, status=error.status)
        )
    return RedirectResponse(f"/federations/new/{upload_id}", status_code=303)


@router.get("/{upload_id}")
async def registration_page(
    *,
    upload_id: str,
    request: Request,
    visitor: FederationsAuthor,
    resources: Shared,
    client_key: Annotated[str | None, Query()] = None,
    target: Annotated[str | None, Query()] = None,
    header: Annotated[bool, Query()] = True,
) -> HTMLResponse:
    """What is proposed for a table: with `client_key` or `target` where these are known."""
    upload = await run_sync(find_upload, resources, visitor.caller, upload_id)
    try:
        looked = await resources.loads.run(
            visitor.caller.project_id,
            partial(
                look_at,
                resources,
                upload,
                header=header,
                client_key=client_key or None,
                target=target or None,
            ),
            request=request,
        )
    except InvalidInputError as error:
        return _no_table(request, visitor, upload, error)
    return _shown(request, visitor, _begun(upload, looked, header=header))


@router.post("/{upload_id}")
async def post_registration(
    *,
    upload_id: str,
    request: Request,
    form: FederationsForm,
    resources: Shared,
    background: BackgroundTasks,
) -> Response:
    """Register the table as corrected, or throw it away. A faulty form is shown again."""
    if form.text("action") == "discard":
        await run_sync(discard, resources, form.visitor.caller, upload_id)
        return RedirectResponse("/federations/new", status_code=303)
    return await resources.loads.run(
        form.visitor.caller.project_id,
        partial(_answer, upload_id, request, form, resources, background),
        request=request,
    )


def _answer(
    upload_id: str,
    request: Request,
    form: CheckedForm,
    resources: Resources,
    background: BackgroundTasks,
) -> Response:
    caller = form.visitor.caller
    typed = {name: form.text(name) for name in form.fields}
    made = typed_registration(typed)
    try:
        registration = _parsed(made.value, made.faults)
        registered = register_pending(resources, caller, upload_id, registration)
    except (InvalidInputError, ProblemError) as error:
        if isinstance(error, ProblemError) and error.status not in _KEPT:
            raise
        upload = find_upload(resources, caller, upload_id)
        looked = look_at(resources, upload, header=not typed.get(names.HEADER))
        refusal = None if error.errors else str(error)
        sheet = RegistrationSheet(upload, looked, typed, faults_at(error.errors, made), refusal)
        status = error.status if isinstance(error, ProblemError) else 422
        return _shown(request, form.visitor, sheet, status=status)
    if registered.unit_message is not None:
        background.add_task(dispatch, resources, registered.unit_message)
    if not form.visitor.may("federations:read"):
        return page(
            request, "federation_registered.html", visitor=form.visitor, title=registration.name
        )
    address = f"/federations/{registered.federation.id}"
    return RedirectResponse(address, status_code=303, background=background)


def _parsed(value: object, faults: list[FieldError]) -> Registration:
    """The registration. Raises InvalidInputError with these faults and all others."""
    try:
        # The name of the file is no part of what is typed, and is set when it is registered.
        registration = parse_uploaded(value, file_name="data.csv")
    except InvalidInputError as error:
        raise InvalidInputError([*faults, *error.errors]) from None
    if faults:
        raise InvalidInputError(faults)
    return registration


async def _take(request: Request, visitor: Visitor, resources: Resources, upload_id: str) -> None:
    """Disk, hashing and database are left to threads; one request uses one at a time."""
    # Only now: most calls do not need the parser.
    from api.services.uploads import FormReader

    caller = visitor.caller
    await run_sync(check_room, resources, caller)
    incoming = IncomingForm(
        resources.storage,
        f"federations/{caller.project_id}/{upload_id}",
        largest_bytes=resources.settings.max_upload_bytes,
        word=CSRF_FIELD,
        check=partial(check_word, visitor),
    )
    reader = FormReader(request.headers["content-type"], incoming)
    try:
        async for block in in_blocks(request):
            await run_sync(reader.feed, block)
        reader.finish()
        arrived = await run_sync(incoming.finish)
        await run_sync(keep_upload, resources, caller, arrived, upload_id)
    finally:
        # Nothing happens where the file was committed. A request that is cancelled cleans up too.
        with anyio.CancelScope(shield=True):
            await run_sync(incoming.abort)


def _begun(upload: PendingUpload, looked: LookedAt, *, header: bool) -> RegistrationSheet:
    """The form as it is first shown."""
    proposal = looked.proposal
    if proposal is None:
        registration = {"name": upload.file_name, "federation": {"header": header}, "fairness": {}}
        return RegistrationSheet(
            upload, looked, registration_texts(registration, looked.survey, {}), refusal=looked.why
        )
    typed = registration_texts(proposal.registration, looked.survey, proposal.joinable)
    return RegistrationSheet(upload, looked, typed)


def _choice(
    request: Request,
    visitor: Visitor,
    resources: Resources,
    *,
    fault: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    return page(
        request,
        "new_federation.html",
        visitor=visitor,
        status=status,
        fault=fault,
        waiting=waiting_uploads(resources, visitor.caller),
        largest=resources.settings.max_upload_bytes,
    )


def _no_table(
    request: Request, visitor: Visitor, upload: PendingUpload, error: InvalidInputError
) -> HTMLResponse:
    return page(
        request,
        "no_table.html",
        visitor=visitor,
        status=422,
        upload=upload,
        faults=[one.message for one in error.errors],
    )


def _shown(
    request: Request, visitor: Visitor, sheet: RegistrationSheet, *, status: int = 200
) -> HTMLResponse:
    return page(
        request,
        "register_table.html",
        visitor=visitor,
        status=status,
        sheet=sheet,
        names=names,
        most_rows=FIRST_ROWS,
    )
