"""One federation: its data, its budgets and what was changed; and erasures of it."""

import json
from typing import Annotated, assert_never

from fastapi import APIRouter, Path, Query
from starlette.responses import HTMLResponse, Response

from api.http.answers import as_file
from api.http.problems import not_found
from api.pages.spec_preview import as_yaml
from api.pages.visits import FederationsVisit
from api.pages.wording import small_number
from api.routers.erasures import shown_erasure
from api.routers.federations import get_disclosure
from api.schemas.federations import BudgetBody, DisclosureBody
from api.services.budgets import BY_RDP, budgets_of
from api.services.lookups import find_federation
from api.services.registrations import federation_body
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.reports.sections.outcome_words import labels_of_spec, outcome_of_profile
from models.repositories import ErasureRepository

router = APIRouter(prefix="/federations/{federation_id}")

_ErasureNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.get("")
def federation_page(
    federation_id: str, visit: FederationsVisit, replaced: Annotated[bool, Query()] = False
) -> HTMLResponse:
    """One federation."""
    with visit.reading() as session:
        row = find_federation(session, visit.caller, federation_id)
        erasures = ErasureRepository(session, visit.project_id).of(row.id)
    found = federation_body(row, call=visit)
    profile = found.profile or {}
    budgets = budgets_of(visit, found.id)
    return visit.page(
        "federation.html",
        federation=found,
        profile=profile,
        labels=labels_of_spec(found.registration),
        favourable=outcome_of_profile(profile, found.registration),
        disclosure=_disclosure(get_disclosure(found.id, visit)),
        budgets=[(budget, *_budget_words(budget)) for budget in budgets],
        totals=dict.fromkeys(map(_total, budgets)),
        budget_scope=budgets[0].scope if budgets else "",
        erasures=erasures,
        replaced=replaced,
    )


@router.get("/erasures/{number}")
def erasure_page(
    federation_id: str, number: _ErasureNumber, visit: FederationsVisit
) -> HTMLResponse:
    """What was removed and what remains, by the signed receipt."""
    found = shown_erasure(visit, federation_id, number)
    return visit.page("erasure.html", found=found, erasure=found.body)


@router.get("/erasures/{number}/receipt.json")
def erasure_receipt(
    federation_id: str, number: _ErasureNumber, visit: FederationsVisit
) -> Response:
    """The receipt as it was signed (DSSE). Raises ProblemError before it is."""
    found = shown_erasure(visit, federation_id, number).body
    if found.receipt is None:
        raise not_found("receipt: the erasure is not done yet")
    name = f"{found.federation_id}-erasure-{number}-receipt.json"
    return as_file(json.dumps(found.receipt, indent=2) + "\n", name, "application/json")


def _disclosure(policy: DisclosureBody) -> str:
    """What the policy sets, as a spec has it, with the least sizes of groups that hold here."""
    floor = vars(policy.floor).items()
    least = {name: max(getattr(policy, name) or 1, size) for name, size in floor}
    kept = policy.model_dump(mode="json", exclude_none=True, exclude={"floor", "set_at"})
    return as_yaml({**kept, **least})


def _budget_words(budget: BudgetBody) -> tuple[str, str]:
    match budget.figure:
        case "epsilon":
            return (
                f"Epsilon at \u03b4 = {small_number(budget.delta)} against "
                f"{observer_words(budget.observer or '')}",
                f"of (epsilon, delta)-differential privacy, {BY_RDP}; neighbours: "
                f"{adjacency_words(budget.adjacency or '')}",
            )
        case "leakage":
            return f"Leakage, {_terms(budget)}", "of metric privacy, added up over releases"
        case "log_ratio":
            return (
                "Log-ratio by the theorem",
                "of metric privacy, between any two datasets that choose alike; added up over "
                "releases of any radius and clip",
            )
        case _:
            assert_never(budget.figure)


def _total(budget: BudgetBody) -> str:
    """What sets a total, for release, of what the budget counts."""
    names = ("delta", "adjacency", "observer", "radius", "clip")
    given = {name: getattr(budget, name) for name in names}
    terms = (f" --{name} {value}" for name, value in given.items() if value is not None)
    return f"{budget.figure}={budget.total or 8:g}{''.join(terms)}"


def _terms(budget: BudgetBody) -> str:
    if budget.radius is None:
        return "radius and clip not recorded, so it counts no run: set a total again"
    radius = "adaptive radius" if budget.radius == "adaptive" else f"radius {budget.radius:g}"
    return f"{radius}, {'no clip' if budget.clip is None else f'clip {budget.clip:g}'}"
