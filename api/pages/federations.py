"""One federation: its data, its budgets and what was changed; and erasures of it."""

import json
from typing import Annotated, Any, assert_never

from fastapi import APIRouter, Path, Query
from starlette.responses import HTMLResponse, Response

from api.http.answers import as_file
from api.http.problems import not_found
from api.pages.visits import FederationsVisit
from api.pages.wording import NONE, figure, room, small_number
from api.routers.erasures import shown_erasure
from api.routers.federations import get_disclosure
from api.schemas.base import PageParameters
from api.schemas.federations import BudgetBody, DisclosureBody
from api.schemas.people import ChangeBody
from api.services.budgets import budgets_of
from api.services.lookups import change_page, find_federation
from api.services.registrations import federation_body
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.reports.sections.outcome_words import (
    labels_of_spec,
    outcome_of_profile,
    outcome_of_spec,
)
from models.repositories import ErasureRepository

router = APIRouter(prefix="/federations/{federation_id}")

_CHANGES = PageParameters(limit=20)
_ErasureNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.get("")
def federation_page(
    federation_id: str, visit: FederationsVisit, replaced: Annotated[bool, Query()] = False
) -> HTMLResponse:
    """One federation."""
    with visit.reading() as session:
        row = find_federation(session, visit.caller, federation_id)
        erasures = ErasureRepository(session, visit.project_id).of(row.id)
        changes = change_page(session, visit.caller, _CHANGES, row.id)
    found = federation_body(row, call=visit)
    profile = found.profile or {}
    budgets = budgets_of(visit, found.id)
    return visit.page(
        "federation.html",
        federation=found,
        profile=profile,
        labels=labels_of_spec(found.registration),
        favourable=outcome_of_profile(profile, found.registration),
        disclosure=_disclosure(get_disclosure(found.id, visit), found.registration),
        budgets=[(budget, *_budget_words(budget)) for budget in budgets],
        budget_scope=budgets[0].scope if budgets else "",
        changes=[(_change_words(one), one) for one in changes.items],
        more_changes=changes.next_cursor is not None,
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


def _change_words(change: ChangeBody) -> str:
    value = change.value
    match change.setting:
        case "budget":
            return NONE if value is None else _changed_budget(value)
        case "disclosure":
            names = "the policy was removed" if value is None else ", ".join(value)
            return f"what may be asked of groups: {names.replace('_', ' ')}"
        case "simulation":
            return f"simulated noise: {NONE if value is None else value['simulation']}"
        case _:
            assert_never(change.setting)


def _changed_budget(value: dict[str, Any]) -> str:
    total = value["total"]
    parts = [
        f"budget of {value['figure'].replace('_', ' ')} in the noise mode {value['book']}: "
        + ("the bound was removed" if total is None else f"total {room(total)}")
    ]
    if "delta" in value:
        parts.append(f"δ = {small_number(value['delta'])}")
    parts += [
        f"{name.replace('_', ' ')} {value[name]}"
        for name in ("adjacency", "observer", "radius", "clip", "unit_key")
        if name in value
    ]
    return ", ".join(parts)


def _disclosure(policy: DisclosureBody, registration: Any) -> list[tuple[str, str]]:
    size = max(policy.minimum_group_size or 1, policy.floor.minimum_group_size)
    clients = max(policy.minimum_group_clients or 1, policy.floor.minimum_group_clients)
    lines = [("Rows of a group", f"{size} or more"), ("Clients of a group", f"{clients} or more")]
    if policy.edges is not None:
        cuts = [f"{name} at {', '.join(map(figure, at))}" for name, at in policy.edges.items()]
        lines.append(("Edges", "; ".join(cuts) or "no attribute is cut"))
    stated = {**(registration or {}), "fairness": policy.model_dump(mode="json")}
    if policy.favourable is not None:
        lines.append(("Favourable outcome", outcome_of_spec(stated) or NONE))
    if policy.sensitive is not None:
        lines.append(("Sensitive attributes", ", ".join(policy.sensitive) or "none"))
    for name, groups in (policy.groups or {}).items():
        as_one = [f"{', '.join(values)} as {group}" for group, values in groups.items()]
        lines.append((f"Joined, of {name}", "; ".join(as_one)))
    for name, values in (policy.exclude or {}).items():
        lines.append((f"Left out, of {name}", ", ".join(values)))
    if policy.intersections is not None:
        joined = [" + ".join(parts) for parts in policy.intersections]
        lines.append(("Combinations", ", ".join(joined) or "none"))
    if policy.split is not None:
        split = policy.split
        of = {"client": "clients", "record": "every client's rows"}[split.validation_unit]
        share = f"{figure(split.validation_fraction)} of {of}, drawn by seed {split.seed}"
        lines.append(("Held out", f"{share}; scoring {split.scoring.method}"))
    if policy.source is not None:
        lines.append(("Columns and clients", "as registered"))
    return lines


def _budget_words(budget: BudgetBody) -> tuple[str, str]:
    match budget.figure:
        case "epsilon":
            return (
                f"Epsilon against {observer_words(budget.observer or '')}",
                f"of (epsilon, delta)-differential privacy; neighbours: "
                f"{adjacency_words(budget.adjacency or '')}",
            )
        case "leakage":
            return "Leakage", f"of metric privacy, added up over releases; {_terms(budget)}"
        case "log_ratio":
            return (
                "Log-ratio by the theorem",
                "of metric privacy, between any two datasets that choose alike; added up over "
                "releases of any radius and clip",
            )
        case _:
            assert_never(budget.figure)


def _terms(budget: BudgetBody) -> str:
    match budget.radius:
        case None:
            return "radius and clip not recorded, so it counts no run: set a total again"
        case "adaptive":
            radius = "adaptive radius"
        case distance:
            radius = f"radius {distance:g}"
    return f"{radius}, {'no clip' if budget.clip is None else f'clip {budget.clip:g}'}"
