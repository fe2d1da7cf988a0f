"""The list of reports, for those who decide by them: filters by a GET form, pages by cursor."""

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from api.http.bodies import validated
from api.pages.federation_names import federation_names
from api.pages.report_filters import asked_for, whole_days
from api.pages.report_rows import UNBOUNDED, report_row
from api.pages.session import ReportsVisitor, Visitor
from api.pages.templates import page
from api.schemas.reports import ReportParameters
from api.services.reports import report_page
from api.shared.resources import Resources, Shared
from models.repositories import ReportListRepository

router = APIRouter()

_ON_A_PAGE = 25
_OUTCOMES = ("pass", "fail", "insufficient_evidence")
_LABELS = (
    ("formal", "formal"),
    ("formal within the radius", "formal within the radius"),
    ("heuristic", "heuristic"),
    ("none", UNBOUNDED),
)
_IN_FORCE = (("", "any"), ("true", "in force"), ("false", "not in force"))
_SIGN_OFFS = (
    ("", "any"),
    ("none", "not signed off"),
    ("approved", "approved"),
    ("needs-changes", "needs changes"),
    ("rejected", "rejected"),
)
_SORTS = (
    ("-created_at", "Newest first"),
    ("created_at", "Oldest first"),
    ("-finished_at", "Ended last"),
    ("name", "Name"),
)
_BEHIND_A_CLICK = (
    *("search", "person", "federation_id", "label", "in_force"),
    *("finished_after", "finished_before", "sign_off", "sort"),
)


@router.get("/reports")
def reports_list(request: Request, visitor: ReportsVisitor, resources: Shared) -> HTMLResponse:
    """The project's reports. A form sends the fields too that were left empty."""
    asked = asked_for(request)
    parameters = validated(ReportParameters, {"limit": _ON_A_PAGE, **whole_days(asked)})
    found = report_page(resources, visitor.caller.project_id, parameters)
    names = federation_names(resources, visitor)
    filters = {name: value for name, value in asked.items() if name not in ("cursor", "limit")}
    return page(
        request,
        "reports.html",
        visitor=visitor,
        rows=[report_row(one, names.get(one.experiment.federation_id)) for one in found.items],
        filters=filters,
        hidden_filters=sum(name in filters for name in _BEHIND_A_CLICK),
        outcomes=[(name, _address({**filters, "gate_outcome": name})) for name in ("", *_OUTCOMES)],
        labels=[("", "any"), *_LABELS],
        in_force=_IN_FORCE,
        sign_off_states=_SIGN_OFFS,
        sorts=_SORTS,
        table=_address(filters, "/reports.csv"),
        first_page=_address(filters) if parameters.cursor else None,
        next_page=_address({**filters, "cursor": found.next_cursor}) if found.next_cursor else None,
        **_choices(resources, visitor, names),
    )


def _choices(resources: Resources, visitor: Visitor, names: dict[str, str]) -> dict[str, Any]:
    """What the filters offer: people and data that some report has."""
    with resources.database.read() as session:
        reports = ReportListRepository(session, visitor.caller.project_id)
        people, federations = reports.people(), reports.federations()
    return {
        "people": [("", "anybody"), *((name, name) for name in people)],
        "federations": [("", "any"), *((id_, names.get(id_, id_)) for id_ in federations)],
    }


def _address(parameters: dict[str, str], path: str = "/reports") -> str:
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{path}?{query}" if query else path
