"""Federations: what the data is like, and what is left of the budgets on it."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import TypeAdapter
from starlette.responses import HTMLResponse, RedirectResponse

from api.http.answers import decode_cursor, encode_cursor
from api.http.bodies import validated
from api.pages.budget_form import LABELS, BudgetDraft, BudgetFault, faults_of, setting_of
from api.pages.change_lines import change_line
from api.pages.federation_views import attribute_views, budget_view, class_views, disclosure_lines
from api.pages.session import FederationsForm, FederationsVisitor, Visitor
from api.pages.templates import page
from api.schemas.base import PageParameters
from api.schemas.federations import FederationParameters
from api.services.budgets.federation_budgets import budgets_of, set_budget
from api.services.disclosure import get_disclosure
from api.services.lookups import change_page, find_federation
from api.services.registrations import federation_bodies, federation_body
from api.shared.resources import Resources, Shared
from fedaudit.reports.sections.outcome_words import outcome_of_profile
from fedaudit.spec.base import Text
from fedaudit.spec.errors import InvalidInputError
from models.repositories import ErasureRepository, FederationRepository

router = APIRouter()

_ON_A_PAGE = 24
_CHANGES = PageParameters(limit=20)
_KEY: TypeAdapter[tuple[str]] = TypeAdapter(tuple[Text])


@router.get("/federations")
def federations_list(
    request: Request, visitor: FederationsVisitor, resources: Shared
) -> HTMLResponse:
    """The project's federations, newest first."""
    asked = {name: value for name, value in request.query_params.items() if value}
    parameters = validated(FederationParameters, {"limit": _ON_A_PAGE, **asked})
    cursor = decode_cursor("federations", parameters.cursor, _KEY)
    with resources.database.read() as session:
        found = FederationRepository(session, visitor.caller.project_id).list(
            status=parameters.status, cursor=cursor, limit=parameters.limit
        )
    return page(
        request,
        "federations.html",
        visitor=visitor,
        federations=federation_bodies(resources, found.items, caller=visitor.caller),
        filtered=bool(asked),
        next_cursor=encode_cursor("federations", found.next_cursor),
    )


@router.get("/federations/{federation_id}")
def federation_page(
    federation_id: str,
    request: Request,
    visitor: FederationsVisitor,
    resources: Shared,
    saved: Annotated[bool, Query()] = False,
) -> HTMLResponse:
    """One federation."""
    return _shown(request, visitor, resources, federation_id, saved=saved)


@router.post("/federations/{federation_id}/budget")
def set_federation_budget(
    federation_id: str, request: Request, form: FederationsForm, resources: Shared
) -> Response:
    """Set one budget; what was typed is kept where it cannot be."""
    draft = BudgetDraft.of(form)
    try:
        set_budget(resources, form.visitor.caller, federation_id, setting_of(draft))
    except InvalidInputError as error:
        if not form.visitor.may("federations:read"):
            # The page around the form shows the profile.
            raise
        return _shown(
            request, form.visitor, resources, federation_id, draft=draft, faults=faults_of(error)
        )
    address = f"/federations/{federation_id}?saved=true#budgets"
    return RedirectResponse(address, status_code=303)


def _shown(
    request: Request,
    visitor: Visitor,
    resources: Resources,
    federation_id: str,
    *,
    saved: bool = False,
    draft: BudgetDraft | None = None,
    faults: Sequence[BudgetFault] = (),
) -> HTMLResponse:
    with resources.database.read() as session:
        row = find_federation(session, visitor.caller, federation_id)
        erasures = ErasureRepository(session, visitor.caller.project_id).of(row.id)
        changes = change_page(
            session, visitor.caller, _CHANGES, subject_kind="federation", subject=row.id
        )
    found = federation_body(resources, row, caller=visitor.caller)
    profile = found.profile or {}
    budgets = budgets_of(resources, visitor.caller, found.id)
    return page(
        request,
        "federation.html",
        visitor=visitor,
        status=422 if faults else 200,
        federation=found,
        profile=profile,
        attributes=attribute_views(profile, found.registration),
        classes=class_views(profile, found.registration),
        favourable=outcome_of_profile(profile, found.registration),
        disclosure=disclosure_lines(get_disclosure(resources, visitor.caller, found.id)),
        budgets=[budget_view(budget, number) for number, budget in enumerate(budgets)],
        budget_scope=budgets[0].scope if budgets else "",
        changes=[change_line(one) for one in changes.items],
        more_changes=changes.next_cursor is not None,
        erasures=erasures,
        saved=saved,
        draft=draft or BudgetDraft(),
        faults=faults,
        fault_of={fault.field: fault.message for fault in faults},
        budget_labels=LABELS,
    )
