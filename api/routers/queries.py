"""Questions to all reports: which meet these bounds, and how some of them compare."""

from typing import Annotated

from fastapi import APIRouter, Query

from api.http.answers import Linked
from api.openapi import problems
from api.schemas.reports import ComparisonParameters, ReportPage, ReportParameters
from api.services.reports.comparisons import comparison_of
from api.services.reports.report_lists import report_page
from api.shared.resources import Shared
from api.shared.security import ReportsReader
from fedaudit.reports.comparison.parts import Comparison

router = APIRouter(tags=["reports"])


@router.get("/reports", responses=problems())
def list_reports(
    caller: ReportsReader,
    parameters: Annotated[ReportParameters, Query()],
    resources: Shared,
    linked: Linked[ReportPage],
) -> ReportPage:
    """The project's reports by any of their figures, newest first unless sorted otherwise."""
    return linked(report_page(resources, caller.project_id, parameters))


@router.get("/comparisons", responses=problems(404, 409))
def compare_reports(
    caller: ReportsReader, parameters: Annotated[ComparisonParameters, Query()], resources: Shared
) -> Comparison:
    """Reports side by side: figures, what their specs say differently, and Pareto fronts."""
    return comparison_of(
        resources,
        caller,
        parameters.experiment_id,
        fairness=parameters.fairness,
        utility=parameters.utility,
    )
