"""The form that asks for an audit of predictions."""

import math
from functools import partial
from typing import Any

from fastapi import APIRouter, BackgroundTasks, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.http.problems import ProblemError
from api.pages.federation_names import federation_names
from api.pages.session import CheckedForm, ExperimentsAuthor, ExperimentsForm, Visitor
from api.pages.spec_form.sheet import ONCE, is_once, new_once
from api.pages.templates import page
from api.services.audits import ask_for_audit
from api.services.dispatch import dispatch
from api.shared.resources import Resources, Shared
from fedaudit.spec.errors import InvalidInputError

router = APIRouter(prefix="/audits/new")

_TEXTS = ("name", "id", "path", "truth", "prediction", "score", "threshold", "client_key")
_LISTS = ("sensitive", "favourable")
"""Columns, or values, separated by commas."""
_KEPT = (409, 429)
"""Refusals that are told above the form."""


@router.get("")
def new_audit_page(request: Request, visitor: ExperimentsAuthor, resources: Shared) -> HTMLResponse:
    """The form, still empty."""
    return _shown(request, visitor, resources, {ONCE: new_once()})


@router.post("")
async def post_audit(
    request: Request, form: ExperimentsForm, resources: Shared, background: BackgroundTasks
) -> Response:
    """Ask for the audit; the same form does it once. A faulty form is shown again."""
    # The file is read to its end for its hash, which may take as long as loading it.
    return await resources.loads.run(
        form.visitor.caller.project_id,
        partial(_answer, request, form, resources, background),
        request=request,
    )


def _answer(
    request: Request, form: CheckedForm, resources: Resources, background: BackgroundTasks
) -> Response:
    visitor = form.visitor
    typed = {name: form.text(name) for name in (*_TEXTS, *_LISTS, ONCE)}
    once = typed[ONCE]
    try:
        asked = ask_for_audit(
            resources, visitor.caller, _audit(typed), once if is_once(once) else None
        )
    except InvalidInputError as error:
        return _shown(request, visitor, resources, typed, faults=_by_field(error), status=422)
    except ProblemError as error:
        if error.status not in _KEPT:
            raise
        return _shown(
            request, visitor, resources, typed, faults={"": error.detail}, status=error.status
        )
    if asked.unit_message is not None:
        background.add_task(dispatch, resources, asked.unit_message)
    if not visitor.may("experiments:read"):
        return _shown(
            request, visitor, resources, {ONCE: new_once()}, asked=asked.audit.id, status=202
        )
    return RedirectResponse("/audits", status_code=303, background=background)


def _audit(typed: dict[str, str]) -> dict[str, Any]:
    """What was typed, as it is sent to the service's interface; what is empty is left out."""
    value: dict[str, Any] = {name: typed[name] for name in _TEXTS if typed[name]}
    if "threshold" in value:
        value["threshold"] = _finite(typed["threshold"])
    for name in _LISTS:
        parts = [part.strip() for part in typed[name].split(",") if part.strip()]
        if parts:
            value[name] = parts
    return value


def _finite(text: str) -> float | str:
    """The number that the text stands for; any other text as it is, for the fault to be told."""
    try:
        found = float(text)
    except ValueError:
        return text
    return found if math.isfinite(found) else text


def _by_field(error: InvalidInputError) -> dict[str, str]:
    """The faults by the form's field; those of no field under an empty name."""
    found: dict[str, list[str]] = {}
    for one in error.errors:
        name = one.pointer.split("/")[1] if "/" in one.pointer else ""
        known = name in (*_TEXTS, *_LISTS)
        message = one.message if known else f"{one.pointer} {one.message}".strip()
        found.setdefault(name if known else "", []).append(message)
    return {name: "; ".join(messages) for name, messages in found.items()}


def _shown(
    request: Request,
    visitor: Visitor,
    resources: Resources,
    typed: dict[str, str],
    *,
    faults: dict[str, str] | None = None,
    asked: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    names = federation_names(resources, visitor)
    return page(
        request,
        "new_audit.html",
        visitor=visitor,
        status=status,
        typed=typed,
        faults=faults or {},
        asked=asked,
        federations=[("", "none: a path below"), *names.items()],
    )
