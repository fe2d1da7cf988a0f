"""Reports side by side: figures, what was asked for differently, and Pareto fronts."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from api.http.problems import ProblemError
from api.pages.visits import ReportsVisit
from api.services.reports import comparison_of
from fedaudit.reports.charts.scatter import axis_text, front_charts
from fedaudit.reports.comparison.compared_reports import difference_rows
from fedaudit.reports.comparison.fronts import Comparison, FigureRow, Front, FrontKind
from models.repositories import ExperimentRepository
from models.values import ExperimentFilters

router = APIRouter()

_MOST = 50
# The first that has a value is the one that fairness is read by first.
_LEADING = (
    "equalized_odds_difference",
    "demographic_parity_difference",
    "equal_opportunity_difference",
    "loss_difference",
)
_KIND = tuple(FrontKind.model_fields)


def _view(comparison: Comparison) -> dict[str, Any]:
    """What the page shows of a comparison, whose experiments are numbered in its order."""
    numbers = {one.id: place for place, one in enumerate(comparison.experiments, start=1)}
    charts = [
        chart
        for place, front in enumerate(comparison.fronts, start=1)
        for chart in front_charts(front, name=f"front-{place}", numbers=numbers)
    ]
    tables = [
        _table(section.capitalize(), [row for row in comparison.figures if row.section == section])
        for section in ("privacy", "utility")
    ]
    gaps = [row for row in comparison.figures if row.section == "fairness"]
    if gaps:
        measured = {row.figure for row in gaps if any(one.value is not None for one in row.cells)}
        leading = next((name for name in _LEADING if name in measured), _LEADING[0])
        tables.append(_table("Fairness", [row for row in gaps if row.figure == leading]))
    return {
        "comparison": comparison,
        "numbers": numbers,
        "tables": tables,
        "by_attribute": [
            _table(f"Fairness by {name}", [row for row in gaps if row.attribute == name])
            for name in dict.fromkeys(row.attribute for row in gaps)
        ],
        "groups": list(_groups(comparison, numbers)),
        "charts": charts,
        "differences": difference_rows(comparison.model_dump()["spec_differences"]),
    }


def _table(title: str, rows: list[FigureRow]) -> dict[str, Any]:
    """Rows of one table, and each reason of its empty cells with the numbers of experiments."""
    missing: dict[str, list[int]] = {}
    for row in rows:
        for number, cell in enumerate(row.cells, start=1):
            if cell.value is None and cell.reason is not None:
                numbers = missing.setdefault(cell.reason, [])
                if number not in numbers:
                    numbers.append(number)
    return {"title": title, "rows": rows, "missing": list(missing.items())}


def _groups(comparison: Comparison, numbers: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """The fronts of each kind of privacy figure, one for each sensitive attribute; `alone`: the
    experiments of a kind, where there is nothing to weigh them against."""
    said = {one.message for one in comparison.warnings}
    of_kind: dict[tuple[Any, ...], list[Front]] = {}
    for front in comparison.fronts:
        of_kind.setdefault(tuple(getattr(front, name) for name in _KIND), []).append(front)
    for fronts in of_kind.values():
        weighed = [front for front in fronts if len(front.experiments) > 1]
        here = {one.experiment_id for front in fronts for one in front.experiments}
        left_out = {
            (numbers[one.experiment_id], one.reason) for front in fronts for one in front.left_out
        }
        cautions = dict.fromkeys(text for front in fronts for text in front.cautions)
        yield {
            "kind": fronts[0],
            "fronts": weighed,
            "alone": [] if weighed else sorted(numbers[one] for one in here),
            "left_out": sorted(left_out),
            "cautions": [text for text in cautions if text not in said],
        }


@router.get("/compare")
def comparison_page(
    visit: ReportsVisit, experiment_id: Annotated[list[str] | None, Query()] = None
) -> HTMLResponse:
    """The comparison of the experiments named, or a choice where fewer than two are."""
    chosen = list(dict.fromkeys(experiment_id or []))
    if len(chosen) < 2:
        with visit.reading() as session:
            experiments = ExperimentRepository(session, visit.project_id)
            offered = experiments.list(ExperimentFilters(status="succeeded"), limit=_MOST).items
        return visit.page("compare_choice.html", offered=offered, chosen=chosen, most=_MOST)
    if len(chosen) > _MOST:
        raise ProblemError(
            422, "validation-error", f"at most {_MOST} experiments go side by side; leave some out"
        )
    found = comparison_of(visit.call, chosen)
    return visit.page("compare.html", view=_view(found), axis_text=axis_text)
