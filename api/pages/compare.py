"""Reports side by side: figures, what was asked for differently, and Pareto fronts."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, Response

from api.http.problems import ProblemError
from api.pages.chosen_axes import ComparedAxes
from api.pages.visits import ReportsVisit, Visit, as_picture
from api.routers.reports import comparison_of
from fedaudit.reports.charts.report_charts import CHOSEN, Measured, Point
from fedaudit.reports.comparison.compared_reports import DifferenceRow, difference_rows
from fedaudit.reports.comparison.fronts import LEADING_GAPS, Comparison, FigureRow
from fedaudit.reports.page.picture_files import PictureForm
from models.repositories import ExperimentRepository

router = APIRouter()

_MOST = 50
_COSTS = ("epsilon_max", "log_ratio_max", "leakage_max")


def _view(visit: Visit, asked: ComparedAxes) -> dict[str, Any]:
    """What the page shows of a comparison, whose experiments are numbered in its order. Raises
    ProblemError for too few or too many."""
    chosen = list(dict.fromkeys(asked.experiment_id))
    if not 2 <= len(chosen) <= _MOST:
        raise ProblemError(
            "validation-error", f"from 2 to {_MOST} experiments go side by side; choose others"
        )
    comparison = comparison_of(visit, chosen)
    differences = difference_rows(comparison.spec_differences)
    numbers = {one.id: place for place, one in enumerate(comparison.experiments, start=1)}
    tables = [
        _table(section.capitalize(), [row for row in comparison.figures if row.section == section])
        for section in ("privacy", "utility")
    ]
    gaps = [row for row in comparison.figures if row.section == "fairness"]
    if gaps:
        measured = {row.figure for row in gaps if any(one.value is not None for one in row.cells)}
        leading = next((name for name in LEADING_GAPS if name in measured), LEADING_GAPS[0])
        tables.append(_table("Fairness", [row for row in gaps if row.figure == leading]))
    privacy_last = sorted(comparison.figures, key=lambda row: row.section == "privacy")
    costs = [row for row in comparison.figures if row.figure in _COSTS]
    known = {_row_name(row): sum(cell.value is not None for cell in row.cells) for row in costs}
    return {
        "comparison": comparison,
        "numbers": numbers,
        "tables": tables,
        "asked": [("experiment_id", one.id) for one in comparison.experiments],
        "picture": asked.picture(
            _points(comparison, differences),
            list(dict.fromkeys(map(_row_name, privacy_last))),
            # The cost that most experiments have is usual across the picture.
            preferred=max(known, key=known.__getitem__, default=""),
        ),
        "differences": differences,
    }


def _row_name(row: FigureRow) -> str:
    """What its values have in common, such as `epsilon_max, formal, final_model, delta 1e-05`."""
    by = [row.attribute and f"by {row.attribute}", row.guarantee, row.observer, row.adjacency]
    delta = None if row.delta is None else f"delta {row.delta:g}"
    return ", ".join(filter(None, (row.figure, *by, delta, row.loss)))


def _points(comparison: Comparison, differences: Sequence[DifferenceRow]) -> list[Point]:
    """The experiments, with what their specs say differently and the figures that each has."""
    best = {one for front in comparison.fronts for one in front.front}
    found = []
    for place, one in enumerate(comparison.experiments):
        fields = {"experiment": f"{place + 1}: {one.name}"}
        fields |= {row.label: row.cells[place] or "" for row in differences}
        figures = {}
        for row in comparison.figures:
            value, between = row.cells[place].value, row.cells[place].interval
            if value is not None:
                low, high = (between.low, between.high) if between else (None, None)
                figures[_row_name(row)] = Measured(value, low, high)
        found.append(Point(place + 1, fields, figures, one.id in best))
    return found


def _table(title: str, rows: list[FigureRow]) -> dict[str, Any]:
    """Rows of one table with a figure, and each reason of empty cells with the experiments'
    numbers."""
    missing: dict[str, list[int]] = {}
    for row in rows:
        for number, cell in enumerate(row.cells, start=1):
            if cell.value is None and cell.reason is not None:
                numbers = missing.setdefault(cell.reason, [])
                if number not in numbers:
                    numbers.append(number)
    filled = [
        row for row in rows if any(one.value is not None or one.unbounded for one in row.cells)
    ]
    return {"title": title, "rows": filled, "missing": list(missing.items())}


@router.get("/compare")
def comparison_page(visit: ReportsVisit, asked: Annotated[ComparedAxes, Query()]) -> HTMLResponse:
    """The comparison of the experiments named, or a choice where fewer than two are."""
    chosen = list(dict.fromkeys(asked.experiment_id))
    if len(chosen) < 2:
        with visit.reading() as session:
            experiments = ExperimentRepository(session, visit.project_id)
            offered = experiments.list({"status": "succeeded"}, limit=_MOST).items
        return visit.page("compare_choice.html", offered=offered, chosen=chosen, most=_MOST)
    return visit.page("compare.html", view=_view(visit, asked))


@router.get("/compare/picture.{form}")
def comparison_picture(
    form: PictureForm, visit: ReportsVisit, asked: Annotated[ComparedAxes, Query()]
) -> Response:
    """What the page draws, as a file."""
    picture = _view(visit, asked)["picture"] or {}
    return as_picture([picture.get("chart")], CHOSEN, form)
