"""A table in the browser: sent, examined, corrected and registered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.http.bodies import media_type
from api.http.origins import refuse_foreign
from api.http.problems import ProblemError
from api.pages.session import CSRF_FIELD, check_word
from api.pages.spec_preview import as_yaml
from api.pages.visits import FederationsAuthor, FederationsForm, Visit
from api.pages.wording import place_words
from api.services import pending_uploads
from api.services.uploads import IncomingFile, received
from fedaudit.federations.proposals.column_survey import Column, Survey
from fedaudit.federations.proposals.proposal import proposal_yaml
from fedaudit.reports.checks import value_at
from fedaudit.spec.errors import FieldError, InvalidInputError, listed, no_column, pointer
from fedaudit.spec.labels import find_class
from fedaudit.spec.parse import decode_text
from fedaudit.spec.registration import parse_uploaded
from models.tables.federations import PendingUpload
from models.values import new_id

router = APIRouter(prefix="/federations/new")

_FORM = "multipart/form-data"
_SHOWN_BESIDE = (409, 413, 422)
_SAMPLE, _LONGEST = 5, 24
_LISTS = ("features", "drop")


@dataclass(frozen=True)
class RegistrationSheet:
    """What a table seems to hold, and its registration as YAML, proposed or as it was typed."""

    upload: PendingUpload
    looked: pending_uploads.LookedAt
    document: str
    header: bool
    faults: Sequence[tuple[str, str]] = ()
    """Where each is, in words, and what it is."""
    refusal: str | None = None

    @property
    def columns(self) -> list[tuple[str, str, str]]:
        """The name of each column, what it holds, and some of its values."""
        return [(one.name, _facts(one), _sample(one)) for one in self.looked.survey.columns]

    def proposed(self, name: str) -> str:
        """The column that is proposed as `client_key` or `target`; '' for none."""
        proposal = self.looked.proposal
        return "" if proposal is None else proposal.federation.get(name) or ""


@router.get("")
def new_federation_page(visit: FederationsAuthor) -> HTMLResponse:
    """Where a file is chosen; tables that wait for their registration are listed."""
    return _choice(visit)


@router.post("")
async def upload_table(visit: FederationsAuthor) -> Response:
    """Take a file, and go on to what it seems to hold."""
    refuse_foreign(visit.request)
    if media_type(visit.request) != _FORM:
        raise ProblemError("unsupported-media-type", f"send the form as {_FORM}")

    def accept(word: bytes, _name: str) -> None:
        check_word(visit.caller, word.decode("utf-8", "replace"))

    upload_id, content_type = new_id(), visit.request.headers["content-type"]
    try:
        await run_sync(pending_uploads.check_room, visit)
        incoming = IncomingFile(visit, upload_id, content_type, text=CSRF_FIELD, accept=accept)
        async with received(visit.request, incoming) as sent:
            await run_sync(pending_uploads.keep_upload, visit, sent, upload_id)
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
    upload = await run_sync(pending_uploads.find_upload, visit, upload_id)
    known = {"client_key": client_key or None, "target": target or None}
    look = partial(pending_uploads.look_at, visit.resources, upload, header=header, **known)
    try:
        looked = await visit.run(look)
    except InvalidInputError as error:
        faults = [one.message for one in error.errors]
        return visit.page("no_table.html", status=422, upload=upload, faults=faults)
    if looked.proposal is None:
        federation = {"source": "table", "target": "", **({} if header else {"header": False})}
        document = as_yaml({"name": upload.file_name, "federation": federation})
    else:
        document = proposal_yaml(looked.proposal)
    return _shown(visit, RegistrationSheet(upload, looked, document, header, refusal=looked.why))


@router.post("/{upload_id}")
async def post_registration(upload_id: str, form: FederationsForm) -> Response:
    """Register the table as corrected, or discard it. A faulty form is shown again."""
    if form.text("action") == "discard":
        unwanted = await run_sync(pending_uploads.find_upload, form, upload_id)
        await run_sync(form.resources.discard_upload, unwanted)
        return RedirectResponse("/federations/new", status_code=303)
    return await form.run(partial(_answer, form, upload_id))


def _choice(visit: Visit, *, fault: str | None = None, status: int = 200) -> HTMLResponse:
    return visit.page(
        "new_federation.html",
        status=status,
        fault=fault,
        waiting=pending_uploads.waiting_uploads(visit),
        largest=visit.resources.settings.max_upload_bytes,
    )


def _answer(form: Visit, upload_id: str) -> Response:
    document, value = form.text("document"), dict[str, Any]()
    try:
        value = decode_text(document)
        # The file's name is not typed; it is set when the table is registered.
        registration = parse_uploaded(value, file_name="data.csv")
        registered = pending_uploads.register_pending(form, upload_id, registration)
    except (InvalidInputError, ProblemError) as error:
        status = error.status if isinstance(error, ProblemError) else 422
        if status not in _SHOWN_BESIDE:
            raise
        upload = pending_uploads.find_upload(form, upload_id)
        header = value_at(value, "federation", "header") is not False
        looked = pending_uploads.look_at(form.resources, upload, header=header)
        refusal = None if error.errors else str(error)
        found = {one.pointer: one.message for one in unknown_names(value, looked.survey)}
        found |= {one.pointer: one.message for one in error.errors}
        faults = [(place_words(where, value), message) for where, message in found.items()]
        sheet = RegistrationSheet(upload, looked, document, header, faults, refusal)
        return _shown(form, sheet, status=status)
    if form.may("federations:read"):
        again = "" if registered.replaced is None else "?replaced=true"
        return form.to(f"/federations/{registered.row.id}{again}", *registered.units)
    answer = form.page("federation_registered.html", title=registration.name)
    answer.background = form.dispatching(*registered.units)
    return answer


def unknown_names(value: Any, survey: Survey) -> list[FieldError]:
    """The columns that a registration names, valid or not, and the file lacks; and its positive
    class where the target has no such value."""
    known = {one.name: one for one in survey.columns}
    joined = value_at(value, "federation", "join")
    named = {
        pointer("federation", name): value_at(value, "federation", name)
        for name in ("client_key", "target")
    }
    for section, name in (*(("federation", one) for one in _LISTS), ("fairness", "sensitive")):
        entries = value_at(value, section, name)
        for place, one in enumerate(entries if isinstance(entries, list) else ()):
            named[pointer(section, name, place)] = value_at(one, "name") or one
    faults = [
        FieldError(where, no_column(name, list(known)))
        for where, name in named.items()
        if isinstance(name, str) and name not in known
        if not (isinstance(joined, Mapping) and name in joined)
    ]
    target = known.get(str(value_at(value, "federation", "target")))
    positive = value_at(value, "federation", "positive")
    if target is None or target.many or not survey.complete or not isinstance(positive, str):
        return faults
    if find_class(target.distinct, positive) is None:
        message = f"the target has no class {positive!r}; it has {listed(target.distinct)}"
        faults.append(FieldError("/federation/positive", message))
    return faults


def _shown(visit: Visit, sheet: RegistrationSheet, *, status: int = 200) -> HTMLResponse:
    return visit.page(
        "register_table.html", status=status, sheet=sheet, most_rows=pending_uploads.FIRST_ROWS
    )


def _facts(column: Column) -> str:
    kind = "numbers" if column.numeric else "texts"
    distinct = len(column.distinct)
    many = f"more than {distinct}" if column.many else str(distinct)
    gaps = f", {max(column.missing / column.rows, 0.001):.1%} empty" if column.missing else ""
    return f"{kind}, {many} different{gaps}"


def _sample(column: Column) -> str:
    """Some values; of many numbers where they begin and end."""
    if column.numeric and len(column.distinct) > _SAMPLE:
        return f"{column.low:g} to {column.high:g}, median {column.quantile(0.5):g}"
    shown = [value[:_LONGEST] for value in column.distinct[:_SAMPLE]]
    return ", ".join(shown) + (" …" if len(column.distinct) > _SAMPLE else "")
