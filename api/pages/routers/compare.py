"""Reports side by side: figures, what was asked for differently, and Pareto fronts."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse

from api.http.problems import ProblemError
from api.pages.comparison_view import view_of
from api.pages.session import ReportsVisitor, Visitor
from api.pages.templates import page
from api.services.reports import comparison_of
from api.shared.resources import Resources, Shared
from fedaudit.reports.charts.front import axis_text
from models.repositories import ExperimentRepository
from models.tables.experiments import Experiment
from models.values import ExperimentFilters

router = APIRouter()

_FEWEST, _MOST = 2, 50
_OFFERED = 50


@router.get("/compare")
def comparison_page(
    request: Request,
    visitor: ReportsVisitor,
    resources: Shared,
    experiment_id: Annotated[list[str] | None, Query()] = None,
) -> HTMLResponse:
    """The comparison of the experiments named, or a choice where fewer than two are."""
    chosen = list(dict.fromkeys(experiment_id or []))
    if len(chosen) < _FEWEST:
        return page(
            request,
            "compare_choice.html",
            visitor=visitor,
            offered=_offered(resources, visitor),
            chosen=chosen,
            most=_MOST,
        )
    if len(chosen) > _MOST:
        raise ProblemError(
            422, "validation-error", f"at most {_MOST} experiments go side by side; leave some out"
        )
    found = comparison_of(resources, visitor.caller, chosen)
    return page(request, "compare.html", visitor=visitor, view=view_of(found), axis_text=axis_text)


def _offered(resources: Resources, visitor: Visitor) -> list[Experiment]:
    with resources.database.read() as session:
        experiments = ExperimentRepository(session, visitor.caller.project_id)
        return experiments.list(ExperimentFilters(status="succeeded"), limit=_OFFERED).items
