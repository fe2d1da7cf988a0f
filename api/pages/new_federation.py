"""A table in the browser: sent, examined, corrected and registered."""

from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.http.bodies import media_type
from api.http.origins import refuse_foreign
from api.http.problems import ProblemError
from api.pages import registration_form
from api.pages.registration_form import (
    RegistrationSheet,
    faults_at,
    registration_texts,
    typed_registration,
)
from api.pages.session import CSRF_FIELD, check_word
from api.pages.visits import FederationsAuthor, FederationsForm, Visit
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
from api.services.uploads import IncomingForm, received
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.registration import Registration, parse_uploaded
from models.identifiers import new_id
from models.tables.federations import PendingUpload

router = APIRouter(prefix="/federations/new")

_FORM = "multipart/form-data"
_SHOWN_BESIDE = (409, 413, 422)


@router.get("")
def new_federation_page(visit: FederationsAuthor) -> HTMLResponse:
    """Where a file is chosen; tables that wait for their registration are listed."""
    return _choice(visit)


@router.post("")
async def upload_table(visit: FederationsAuthor) -> Response:
    """Take a file, and go on to what it seems to hold."""
    refuse_foreign(visit.request)
    if media_type(visit.request) != _FORM:
        raise ProblemError(415, "unsupported-media-type", f"send the form as {_FORM}")
    upload_id = new_id()
    try:
        await _take(visit, upload_id)
    except ProblemError as error:
        if error.status not in _SHOWN_BESIDE:
            raise
        fault = "; ".join(one.message for one in error.errors) or error.detail
        return await run_sync(partial(_choice, visit, fault=fault, status=error.status))
    return visit.to(f"/federations/new/{upload_id}")


@router.get("/{upload_id}")
async def registration_page(
    upload_id: str,
    visit: FederationsAuthor,
    client_key: Annotated[str | None, Query()] = None,
    target: Annotated[str | None, Query()] = None,
    header: Annotated[bool, Query()] = True,
) -> HTMLResponse:
    """What is proposed for a table: with `client_key` or `target` where these are known."""
    upload = await run_sync(find_upload, visit.call, upload_id)
    known = {"client_key": client_key or None, "target": target or None}
    look = partial(look_at, visit.resources, upload, header=header, **known)
    try:
        looked = await visit.run(look)
    except InvalidInputError as error:
        faults = [one.message for one in error.errors]
        return visit.page("no_table.html", status=422, upload=upload, faults=faults)
    return _shown(visit, _begun(upload, looked, header=header))


@router.post("/{upload_id}")
async def post_registration(upload_id: str, form: FederationsForm) -> Response:
    """Register the table as corrected, or discard it. A faulty form is shown again."""
    if form.text("action") == "discard":
        await run_sync(discard, form.call, upload_id)
        return RedirectResponse("/federations/new", status_code=303)
    return await form.run(partial(_answer, form, upload_id))


def _answer(form: Visit, upload_id: str) -> Response:
    typed = form.texts(*form.fields)
    made = typed_registration(typed)
    try:
        registration = _parsed(made.value, made.faults)
        registered = register_pending(form.call, upload_id, registration)
    except (InvalidInputError, ProblemError) as error:
        status = error.status if isinstance(error, ProblemError) else 422
        if status not in _SHOWN_BESIDE:
            raise
        upload = find_upload(form.call, upload_id)
        looked = look_at(form.resources, upload, header=not typed.get("header"))
        refusal = None if error.errors else str(error)
        faults = faults_at(error.errors, made, typed, looked.survey.columns)
        sheet = RegistrationSheet(upload, looked, typed, faults, refusal)
        return _shown(form, sheet, status=status)
    if form.may("federations:read"):
        again = "" if registered.replaced is None else "?replaced=true"
        return form.to(f"/federations/{registered.row.id}{again}", registered.unit_message)
    answer = form.page("federation_registered.html", title=registration.name)
    answer.background = form.dispatching(registered.unit_message)
    return answer


def _parsed(value: object, faults: list[FieldError]) -> Registration:
    """The registration. Raises InvalidInputError with these faults and all others."""
    try:
        # The file's name is not typed; it is set when the table is registered.
        registration = parse_uploaded(value, file_name="data.csv")
    except InvalidInputError as error:
        raise InvalidInputError([*faults, *error.errors]) from None
    if faults:
        raise InvalidInputError(faults)
    return registration


async def _take(visit: Visit, upload_id: str) -> None:
    await run_sync(check_room, visit.call)
    accept = partial(check_word, visit.visitor)
    incoming = IncomingForm(
        visit.resources, visit.project_id, upload_id, word=CSRF_FIELD, check=accept
    )
    async with received(visit.request, incoming):
        arrived = await run_sync(incoming.finish)
        await run_sync(keep_upload, visit.call, arrived, upload_id)


def _begun(upload: PendingUpload, looked: LookedAt, *, header: bool) -> RegistrationSheet:
    proposal, survey = looked.proposal, looked.survey
    if proposal is None:
        registration = {"name": upload.file_name, "federation": {"header": header}, "fairness": {}}
        texts = registration_texts(registration, survey, {})
        return RegistrationSheet(upload, looked, texts, refusal=looked.why)
    texts = registration_texts(proposal.registration, survey, proposal.joinable)
    return RegistrationSheet(upload, looked, texts)


def _choice(visit: Visit, *, fault: str | None = None, status: int = 200) -> HTMLResponse:
    return visit.page(
        "new_federation.html",
        status=status,
        fault=fault,
        waiting=waiting_uploads(visit.call),
        largest=visit.resources.settings.max_upload_bytes,
    )


def _shown(visit: Visit, sheet: RegistrationSheet, *, status: int = 200) -> HTMLResponse:
    return visit.page(
        "register_table.html",
        status=status,
        sheet=sheet,
        names=registration_form,
        most_rows=FIRST_ROWS,
    )
