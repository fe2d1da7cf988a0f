"""Submitting an experiment: a form, its cost before anything runs, and the submission itself."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, BackgroundTasks, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.http.problems import ProblemError
from api.pages.session import CheckedForm, ExperimentsAuthor, ExperimentsForm, Visitor
from api.pages.spec_form import fields, sheet
from api.pages.spec_form.build import Built, build
from api.pages.spec_form.demands import demanded
from api.pages.spec_form.preview import Preview, as_yaml, preview
from api.pages.spec_form.profile_defaults import ProfileDefaults, profile_defaults
from api.pages.spec_form.sheet import Sheet
from api.pages.templates import page
from api.services.admission import parse_inherited, plan, try_admission
from api.services.disclosure import floor_of, policy_of
from api.services.dispatch import IdempotentRequest, dispatch
from api.services.lookups import find_experiment
from api.services.submission import plan_others, submit
from api.shared.resources import Resources, Shared
from fedaudit.spec.disclosure import DisclosurePolicy
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import decode_text, parse_spec
from models.repositories import FederationRepository
from models.tables.federations import Federation

router = APIRouter(prefix="/experiments")

_ROUTE = "POST /experiments/new"
_MAX_FEDERATIONS = 200
_BUSY = (429, 503)
_SENT_BEFORE = (
    "this form was submitted before with other values, and that experiment stands; press Submit "
    "again to queue the present values as another one"
)


@router.get("/new")
def new_experiment_page(
    request: Request,
    visitor: ExperimentsAuthor,
    resources: Shared,
    like: Annotated[str | None, Query()] = None,
    federation_id: Annotated[str | None, Query()] = None,
) -> HTMLResponse:
    """The form; with `like`, the spec of that experiment to change and submit again.

    With `federation_id`, that federation is chosen, if it may be, and what follows from its profile
    and its disclosure policy is filled in.
    """
    choices = _choices(resources, visitor)
    suited, notes = _suited(resources, choices, federation_id)
    typed = sheet.blank() | suited
    if like is not None and visitor.may("experiments:read"):
        with resources.database.read() as session:
            spec = find_experiment(session, visitor.caller, like).spec
        typed |= {sheet.MODE: sheet.DOCUMENT, sheet.DOCUMENT: as_yaml(spec)}
        notes = ()
    return _page(request, visitor, Sheet(typed, choices, sheet.new_once(), notes=notes))


@router.post("/new")
async def post_new_experiment(
    request: Request, form: ExperimentsForm, resources: Shared, background: BackgroundTasks
) -> Response:
    """The cost of what the form asks for, or its submission. A faulty form is shown again."""
    shown = await run_sync(_typed_sheet, form, resources)
    try:
        return await resources.loads.run(
            form.visitor.caller.project_id,
            partial(_answer, request, form, resources, background, shown),
            request=request,
        )
    except ProblemError as error:
        if error.status not in _BUSY:
            raise
        # What was typed is worth more than a page of its own for the reason.
        return _page(
            request, form.visitor, replace(shown, refusal=error.detail), status=error.status
        )


def _typed_sheet(form: CheckedForm, resources: Resources) -> Sheet:
    """The form as it was sent."""
    typed = {name: form.text(name) for name in form.fields}
    if isinstance(document := form.fields.get(sheet.DOCUMENT), str):
        # As it is: blanks at the beginning of YAML mean something.
        typed[sheet.DOCUMENT] = document
    once = typed.get(sheet.ONCE, "")
    choices = _choices(resources, form.visitor)
    return Sheet(typed, choices, once if sheet.is_once(once) else sheet.new_once())


def _answer(
    request: Request,
    form: CheckedForm,
    resources: Resources,
    background: BackgroundTasks,
    shown: Sheet,
) -> Response:
    typed, choices = shown.typed, shown.federations
    if shown.text("action") == "defaults":
        suited, notes = _suited(resources, choices, shown.text(fields.SOURCE))
        return _page(request, form.visitor, replace(shown, typed={**typed, **suited}, notes=notes))
    built: Built | None = None
    try:
        if shown.by_document:
            written = decode_text(shown.text(sheet.DOCUMENT))
            spec = parse_inherited(resources, form.visitor.caller, written)
        else:
            built = build(typed, {row.id: row.registration or {} for row in choices})
            spec = parse_spec(built.value)
        if shown.text("action") != "submit":
            found = _preview(resources, form.visitor, spec)
            return _page(request, form.visitor, replace(shown, preview=found))
        experiment_id = _submit(resources, form.visitor, spec, shown.once, background)
    except InvalidInputError as error:
        shown = replace(shown, faults=sheet.faults_of(error.errors, built, typed))
        return _page(request, form.visitor, shown, status=422)
    except ProblemError as error:
        if error.errors:
            shown = replace(shown, faults=sheet.faults_of(error.errors, built, typed))
            return _page(request, form.visitor, shown, status=error.status)
        if error.status != 409:
            raise
        shown = replace(shown, refusal=error.detail)
        if error.slug == "idempotency-mismatch":
            shown = replace(shown, refusal=_SENT_BEFORE, once=sheet.new_once())
        return _page(request, form.visitor, shown, status=409)
    return RedirectResponse(f"/experiments/{experiment_id}", 303, background=background)


def _suited(
    resources: Resources, choices: Sequence[Federation], federation_id: str | None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """What suits a source of `choices`, by field, and why; else what the service demands."""
    policy, found = DisclosurePolicy(), ProfileDefaults({}, ())
    for row in choices:
        if row.id == federation_id:
            policy = policy_of(row)
            found = profile_defaults(row, policy)
    begun = sheet.blank() | found.typed
    return found.typed | demanded(begun, policy, floor_of(resources.settings)), found.notes


def _preview(resources: Resources, visitor: Visitor, spec: ExperimentSpec) -> Preview:
    planned = plan(resources, visitor.caller, spec)
    others = plan_others(resources, visitor.caller, planned)
    return preview(planned, try_admission(resources, visitor.caller.project_id, planned, others))


def _submit(
    resources: Resources,
    visitor: Visitor,
    spec: ExperimentSpec,
    once: str,
    background: BackgroundTasks,
) -> str:
    """The id of the experiment that the form's key stands for, queued now or before."""
    value = spec.model_dump(mode="json")
    submitted = submit(resources, visitor.caller, value, IdempotentRequest.of(once, _ROUTE, value))
    if submitted.unit_message is not None:
        background.add_task(dispatch, resources, submitted.unit_message)
    return submitted.experiment.id


def _choices(resources: Resources, visitor: Visitor) -> list[Federation]:
    """The registered federations that a spec can name, newest first."""
    if not visitor.may("federations:read"):
        return []
    with resources.database.read() as session:
        federations = FederationRepository(session, visitor.caller.project_id)
        ready = federations.list(status="ready", limit=_MAX_FEDERATIONS).items
    return [row for row in ready if row.registration is not None]


def _page(request: Request, visitor: Visitor, shown: Sheet, status: int = 200) -> HTMLResponse:
    return page(
        request, "new_experiment.html", visitor=visitor, status=status, sheet=shown, fields=fields
    )
