"""Submitting an experiment: a form, its cost before anything runs, and the submission itself."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, Response

from api.http.problems import ProblemError
from api.pages import experiment_form as fields
from api.pages.experiment_form import DOCUMENT, MODE, Sheet, blank, build
from api.pages.spec_preview import as_yaml, preview, profile_defaults
from api.pages.templates import new_once
from api.pages.visits import ExperimentsAuthor, ExperimentsForm, Visit
from api.services.admission import parse_inherited
from api.services.dispatch import IdempotentRequest
from api.services.lookups import find_experiment, find_judged
from api.services.pending_uploads import proposal_for
from api.services.submission import plan_seeds, submit, try_admission
from fedaudit.reports.sections.part import Advice
from fedaudit.reports.verdict.advised_run import with_changes
from fedaudit.runs.proposed_experiment import ProposalAim
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import decode_text
from models.repositories import FederationRepository
from models.tables.federations import Federation

router = APIRouter(prefix="/experiments/new")

_ROUTE = "POST /experiments/new"
_MAX_FEDERATIONS = 200
_BUSY = (429, 503)
_SENT_BEFORE = (
    "this form was submitted before with other values, and that experiment remains; press Submit "
    "again to queue the present values as another one"
)


@router.get("")
def new_experiment_page(
    visit: ExperimentsAuthor,
    like: Annotated[str | None, Query()] = None,
    federation_id: Annotated[str | None, Query()] = None,
    advised: Annotated[bool, Query()] = False,
) -> HTMLResponse:
    """The form; with `like`, the spec of that experiment to change and submit again, and with
    `advised` after the changes that its report advises. With
    `federation_id`, that federation is chosen, if it may be, and what is proposed for it is filled
    in."""
    choices = _choices(visit)
    suited, notes = _suited(visit, choices, federation_id)
    typed = blank() | suited
    if like is not None and visit.may("experiments:read"):
        with visit.reading() as session:
            spec = find_experiment(session, visit.caller, like).spec
            if advised and visit.may("reports:read"):
                advice = Advice(**find_judged(session, visit.caller, like)["advice"])
                spec = with_changes(spec, advice.changes)
        typed |= {MODE: DOCUMENT, DOCUMENT: as_yaml(spec)}
        notes = ()
    return _page(visit, Sheet(typed, choices, new_once(), notes=notes))


@router.post("")
async def post_new_experiment(form: ExperimentsForm) -> Response:
    """The cost of what the form asks for, or its submission. A faulty form is shown again."""
    shown = await run_sync(_typed_sheet, form)
    try:
        return await form.run(partial(_answer, form, shown))
    except ProblemError as error:
        if error.status not in _BUSY:
            raise
        # The typed fields are kept; a page of the reason alone would lose them.
        return _page(form, replace(shown, refusal=error.detail), status=error.status)


def _typed_sheet(form: Visit) -> Sheet:
    typed = form.texts(*form.fields)
    if isinstance(document := form.fields.get(DOCUMENT), str):
        # Unchanged: blanks at the beginning of YAML have a meaning.
        typed[DOCUMENT] = document
    return Sheet(typed, _choices(form), form.once or new_once())


def _answer(form: Visit, shown: Sheet) -> Response:
    typed, choices = shown.typed, shown.federations
    if shown.text("action") == "defaults":
        suited, notes = _suited(form, choices, shown.text(fields.SOURCE))
        return _page(form, replace(shown, typed={**typed, **suited}, notes=notes))
    try:
        asked = decode_text(shown.text(DOCUMENT)) if shown.by_document else build(typed)
        spec = parse_inherited(form, asked)
        if shown.text("action") != "submit":
            plans = plan_seeds(form, spec)
            trial = try_admission(form, plans)
            return _page(form, replace(shown, preview=preview(plans[0], trial)))
        value = spec.model_dump(mode="json")
        again = IdempotentRequest.of(shown.once, _ROUTE, value)
        submitted = submit(form, value, again)
    except InvalidInputError as error:
        return _page(form, replace(shown, faults=shown.placed(error.errors)), status=422)
    except ProblemError as error:
        if error.errors:
            shown = replace(shown, faults=shown.placed(error.errors))
            return _page(form, shown, status=error.status)
        if error.status != 409:
            raise
        shown = replace(shown, refusal=error.detail)
        if error.slug == "idempotency-mismatch":
            shown = replace(shown, refusal=_SENT_BEFORE, once=new_once())
        return _page(form, shown, status=409)
    return form.to(f"/experiments/{submitted.row.id}", *submitted.units)


def _suited(
    visit: Visit, choices: Sequence[Federation], federation_id: str | None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """What suits a source of `choices`, by field, and why; nothing for another."""
    row = next((one for one in choices if one.id == federation_id), None)
    if row is None:
        return {}, ()
    try:
        return profile_defaults(row, proposal_for(visit, row, ProposalAim()))
    except (ProblemError, InvalidInputError) as error:
        return {fields.SOURCE: row.id, "/name": row.name}, (str(error),)


def _choices(visit: Visit) -> list[Federation]:
    if not visit.may("federations:read"):
        return []
    with visit.reading() as session:
        federations = FederationRepository(session, visit.project_id)
        ready = federations.list(status="ready", limit=_MAX_FEDERATIONS).items
    return [row for row in ready if row.registration is not None]


def _page(visit: Visit, shown: Sheet, status: int = 200) -> HTMLResponse:
    return visit.page("new_experiment.html", status=status, sheet=shown, fields=fields)
