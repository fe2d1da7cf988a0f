"""Attacks on an experiment that has succeeded: what was asked for, and the form that asks."""

from functools import partial
from typing import Any

from fastapi import APIRouter, BackgroundTasks, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.http.problems import ProblemError
from api.pages.session import CheckedForm, ExperimentsForm, ExperimentsVisitor, Visitor
from api.pages.spec_form.sheet import ONCE, is_once, new_once
from api.pages.templates import page
from api.services.attacks.later_attacks import ask_for_attacks, cancel_attacks
from api.services.attacks.later_bodies import later_list
from api.services.dispatch import IdempotentRequest, dispatch
from api.services.lookups import find_experiment, find_report
from api.shared.resources import Resources, Shared
from fedaudit.spec.attacks.attack_spec import attack_titles
from fedaudit.spec.errors import InvalidInputError
from models.repositories.audits import OPEN_ATTACKS

router = APIRouter(prefix="/experiments/{experiment_id}/attacks")

_NUMBERS = {"canaries": "count", "membership": "shadows", "gradient-leakage": "images"}
"""What an attack of a kind counts, as a spec names it."""
_METHODS = [
    ("", "as usual for the kind"),
    *((one, f"membership: {one}") for one in ("threshold", "likelihood-ratio", "relative")),
    *(
        (one, f"gradient-leakage: {one}")
        for one in ("lbfgs", "adam-cosine", "first-layer", "features")
    ),
]
_KEPT = (409, 410, 429)
"""Refusals that are told above the form."""
_REFRESH_SECONDS = 5


@router.get("")
def attacks_page(
    request: Request, experiment_id: str, visitor: ExperimentsVisitor, resources: Shared
) -> HTMLResponse:
    """What was asked for after the report, and the form; the page looks again while one goes on."""
    return _shown(request, visitor, resources, experiment_id, {})


@router.post("")
async def post_attack(
    request: Request,
    experiment_id: str,
    form: ExperimentsForm,
    resources: Shared,
    background: BackgroundTasks,
) -> Response:
    """Ask for one attack; the same form does it once. A faulty form is shown again."""
    # The run's data are loaded, which may take long.
    return await resources.loads.run(
        form.visitor.caller.project_id,
        partial(_answer, request, experiment_id, form, resources, background),
        request=request,
    )


@router.post("/later/{later_id}/cancel")
def post_cancel_attacks(
    experiment_id: str, later_id: str, form: ExperimentsForm, resources: Shared
) -> RedirectResponse:
    """Ask for their end; what they have found by then stays."""
    cancel_attacks(resources, form.visitor.caller, experiment_id, later_id)
    return RedirectResponse(f"/experiments/{experiment_id}/attacks", 303)


def _answer(
    request: Request,
    experiment_id: str,
    form: CheckedForm,
    resources: Resources,
    background: BackgroundTasks,
) -> Response:
    caller, once = form.visitor.caller, form.text(ONCE)
    typed = {name: form.text(name) for name in ("kind", "method", "number")}
    with resources.database.read() as session:
        mechanism = find_experiment(session, caller, experiment_id).mechanism
    value = {"attacks": [_attack(typed, mechanism)]}
    route = f"POST /experiments/{experiment_id}/attacks"
    again = IdempotentRequest.of(once if is_once(once) else None, route, value)
    shown = partial(_shown, request, form.visitor, resources, experiment_id, typed)
    try:
        asked = ask_for_attacks(resources, caller, experiment_id, value, again)
    except InvalidInputError as error:
        return shown(faults=_by_field(error), status=422)
    except ProblemError as error:
        if error.status not in _KEPT:
            raise
        return shown(faults={"": error.detail}, status=error.status)
    if asked.unit_message is not None:
        background.add_task(dispatch, resources, asked.unit_message)
    return RedirectResponse(f"/experiments/{experiment_id}/attacks", 303, background=background)


def _attack(typed: dict[str, str], mechanism: str) -> dict[str, Any]:
    """What was typed, as a spec has it; what is empty is left out."""
    kind = typed["kind"]
    value: dict[str, Any] = {"kind": kind}
    if kind == "canaries":
        # Another unit than that of the mechanism is refused in any case.
        value["unit"] = "record" if mechanism == "record-personalised" else "client"
    if typed["method"]:
        value["method"] = typed["method"]
    if typed["number"]:
        digits = typed["number"].isdecimal() and len(typed["number"]) < 10
        value[_NUMBERS.get(kind, "number")] = int(typed["number"]) if digits else typed["number"]
    return value


def _by_field(error: InvalidInputError) -> dict[str, str]:
    """The faults by the form's field; those of no field under an empty name."""
    names = {"kind": "kind", "method": "method", **dict.fromkeys(_NUMBERS.values(), "number")}
    found: dict[str, list[str]] = {}
    for one in error.errors:
        name = names.get(one.pointer.rpartition("/")[2], "")
        told = one.message if name else f"{one.pointer} {one.message}".strip()
        found.setdefault(name, []).append(told)
    return {name: "; ".join(messages) for name, messages in found.items()}


def _shown(
    request: Request,
    visitor: Visitor,
    resources: Resources,
    experiment_id: str,
    typed: dict[str, str],
    *,
    faults: dict[str, str] | None = None,
    status: int = 200,
) -> HTMLResponse:
    with resources.database.read() as session:
        experiment = find_experiment(session, visitor.caller, experiment_id)
        find_report(session, visitor.caller, experiment_id)
    asked = later_list(resources, visitor.caller, experiment_id).items
    going_on = any(one.status in OPEN_ATTACKS for one in asked)
    return page(
        request,
        "attacks.html",
        visitor=visitor,
        status=status,
        experiment=experiment,
        # What attacks found is for readers of reports.
        asked=asked if visitor.may("reports:read") else [],
        open_ones=OPEN_ATTACKS,
        going_on=going_on,
        may_ask=visitor.may("experiments:write") and not going_on,
        kinds=[(kind, title.partition(":")[0]) for kind, title in attack_titles().items()],
        questions=attack_titles().values(),
        methods=_METHODS,
        typed=typed,
        faults=faults or {},
        once=new_once(),
        refresh_seconds=_REFRESH_SECONDS if going_on and request.method == "GET" else None,
    )
