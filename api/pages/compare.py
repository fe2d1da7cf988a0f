"""Reports side by side: figures, what was asked for differently, and Pareto fronts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from api.http.problems import ProblemError
from api.pages.visits import ReportsVisit
from api.services.reports import comparison_of
from fedaudit.reports.charts.drawing import Chart
from fedaudit.reports.charts.scatter import axis_text, front_charts
from fedaudit.reports.comparison.compared_reports import DifferenceRow, difference_rows
from fedaudit.reports.comparison.parts import Comparison, FigureRow, Front
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
_KIND = (
    "family",
    "guarantee",
    "unit",
    "adjacency",
    "delta",
    "observer",
    "radius",
    "per_layer",
    "loss",
)


@dataclass(frozen=True)
class FigureTable:
    """Rows of one table, with the reasons of its empty cells."""

    title: str
    rows: list[FigureRow]
    missing: list[tuple[str, list[int]]]
    """Each reason, with the numbers of its experiments."""


@dataclass(frozen=True)
class FrontGroup:
    """The fronts of one kind of privacy figure, one for each sensitive attribute."""

    kind: Front
    """Any of them: family, guarantee, unit and the like are the same."""
    fronts: list[Front]
    """Those with something to weigh."""
    alone: list[int]
    """The experiments of this kind, where there is nothing to weigh them against."""
    left_out: list[tuple[int, str]]
    cautions: list[str]


@dataclass(frozen=True)
class ComparisonView:
    """Everything that the page shows of a comparison."""

    comparison: Comparison
    numbers: Mapping[str, int]
    """Experiment -> its number on the page."""
    tables: list[FigureTable]
    """Privacy, utility, and the leading gap by attribute."""
    by_attribute: list[FigureTable]
    """All gaps of each attribute."""
    groups: list[FrontGroup]
    charts: list[Chart]
    differences: list[DifferenceRow]


def view_of(comparison: Comparison) -> ComparisonView:
    """The view of a comparison, whose experiments are numbered in its order."""
    numbers = {one.id: place for place, one in enumerate(comparison.experiments, start=1)}
    charts = [
        chart
        for place, front in enumerate(comparison.fronts, start=1)
        for chart in front_charts(front, name=f"front-{place}", numbers=numbers)
    ]
    return ComparisonView(
        comparison=comparison,
        numbers=numbers,
        tables=list(_tables(comparison.figures)),
        by_attribute=list(_by_attribute(comparison.figures)),
        groups=list(_groups(comparison, numbers)),
        charts=charts,
        differences=difference_rows(comparison.model_dump()["spec_differences"]),
    )


def _tables(rows: Sequence[FigureRow]) -> Iterator[FigureTable]:
    yield _table("Privacy", [row for row in rows if row.section == "privacy"])
    yield _table("Utility", [row for row in rows if row.section == "utility"])
    gaps = [row for row in rows if row.section == "fairness"]
    if gaps:
        measured = {row.figure for row in gaps if any(one.value is not None for one in row.cells)}
        leading = next((name for name in _LEADING if name in measured), _LEADING[0])
        yield _table("Fairness", [row for row in gaps if row.figure == leading])


def _by_attribute(rows: Sequence[FigureRow]) -> Iterator[FigureTable]:
    gaps = [row for row in rows if row.section == "fairness"]
    for attribute in dict.fromkeys(row.attribute for row in gaps):
        found = [row for row in gaps if row.attribute == attribute]
        yield _table(f"Fairness by {attribute}", found)


def _table(title: str, rows: list[FigureRow]) -> FigureTable:
    missing: dict[str, list[int]] = {}
    for row in rows:
        for number, cell in enumerate(row.cells, start=1):
            if cell.value is None and cell.reason is not None:
                numbers = missing.setdefault(cell.reason, [])
                if number not in numbers:
                    numbers.append(number)
    return FigureTable(title, rows, list(missing.items()))


def _groups(comparison: Comparison, numbers: Mapping[str, int]) -> Iterator[FrontGroup]:
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
        yield FrontGroup(
            kind=fronts[0],
            fronts=weighed,
            alone=[] if weighed else sorted(numbers[one] for one in here),
            left_out=sorted(left_out),
            cautions=[text for text in cautions if text not in said],
        )


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
    found = comparison_of(visit.resources, visit.caller, chosen)
    return visit.page("compare.html", view=view_of(found), axis_text=axis_text)
