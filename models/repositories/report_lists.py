"""Lists of reports: filters by any figure, and pages by the last item's values."""

from typing import Any

from sqlalchemy import Column, ColumnElement, Select, and_, exists, not_, or_, select
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from models.report_values import ListedReport, ReportFilters
from models.repositories.base import table_of
from models.tables.experiments import Experiment, ExperimentTag
from models.tables.report_figures import ReportFigure
from models.tables.report_summaries import ReportSummary
from models.tables.sign_offs import SignOff
from models.values import Bound, Cursor

SORT_KEYS = ("created_at", "finished_at", "name")
"""What a list may be sorted by besides figures."""

EPSILON = "epsilon_max"
"""The one figure that several observers may have."""

_summaries, _experiments = table_of(ReportSummary).c, table_of(Experiment).c
_sorting_table = table_of(ReportFigure).alias("sorting")
_sorting = _sorting_table.c


def listed(project_id: str, *, sort: str, attribute: str, observer: str) -> Select[Any]:
    """The columns of a ListedReport, of a project's reports that have the figure sorted by."""
    columns: list[ColumnElement[Any]] = [
        _experiments.id.label("experiment_id"),
        *(
            _experiments[name]
            for name in (
                "name",
                "status",
                "federation_id",
                "gate_outcome",
                "created_at",
                "finished_at",
                "created_by",
            )
        ),
        _summaries.report_hash,
        _summaries.summary,
    ]
    joined = _experiments.id == _summaries.experiment_id
    key = sort.removeprefix("-")
    if key in SORT_KEYS:
        statement = select(*columns).join_from(ReportSummary, Experiment, joined)
    else:
        figure = and_(
            _sorting.experiment_id == _summaries.experiment_id,
            _sorting.figure == key,
            _sorting.attribute == attribute,
            _sorting.observer == (observer if key == EPSILON else ""),
        )
        statement = (
            select(*columns, _sorting.value.label("sorted_by"))
            .join_from(ReportSummary, Experiment, joined)
            .join(_sorting_table, figure)
        )
    return statement.where(_summaries.project_id == project_id)


def filtered(statement: Select[Any], filters: ReportFilters, *, project_id: str) -> Select[Any]:
    """The statement with every filter that is set."""
    for name, column in _exact().items():
        value = getattr(filters, name)
        if value is not None:
            statement = statement.where(column == value)
    if filters.sign_off is not None:
        statement = statement.where(_signed_off(filters.sign_off))
    if filters.search is not None:
        statement = statement.where(_experiments.name.icontains(filters.search, autoescape=True))
    if filters.tag is not None:
        tags = table_of(ExperimentTag).c
        tagged = and_(tags.experiment_id == _experiments.id, tags.tag == filters.tag)
        statement = statement.where(exists().where(tagged))
    for time in ("created", "finished"):
        after, before = getattr(filters, f"{time}_after"), getattr(filters, f"{time}_before")
        column = _experiments[f"{time}_at"]
        if after is not None:
            statement = statement.where(column >= after)
        if before is not None:
            statement = statement.where(column <= before)
    statement = statement.where(*_filter_figures(filters))
    return statement.where(*(_within(bound, filters, project_id) for bound in filters.bounds))


def paged(statement: Select[Any], *, sort: str, cursor: Cursor | None) -> Select[Any]:
    """The statement in the order of `sort`, ties by id, beginning behind `cursor`."""
    column, descending = _sort_column(sort)
    identifier = _summaries.experiment_id
    if cursor is not None:
        statement = statement.where(_behind(column, descending, cursor))
    order: list[ColumnElement[Any]] = [identifier.desc() if descending else identifier.asc()]
    if column is not identifier:
        order = [column.is_(None), column.desc() if descending else column.asc(), *order]
    return statement.order_by(*order)


def cursor_of(report: ListedReport, sort: str) -> Cursor:
    """The cursor that continues behind this report."""
    key = sort.removeprefix("-")
    return (getattr(report, key if key in SORT_KEYS else "sorted_by"), report.experiment_id)


def has_epsilon(
    experiment_id: ColumnElement[str],
    *,
    observer: str | None = None,
    delta: float | None = None,
    adjacency: str | None = None,
) -> ColumnElement[bool]:
    """Whether a report counts an epsilon so, against the observer or against whoever sees most."""
    row = table_of(ReportFigure).alias("counted").c
    conditions = [
        row.experiment_id == experiment_id,
        row.figure == EPSILON,
        row.observer == (observer or ""),
        row.value.is_not(None),
    ]
    if delta is not None:
        conditions.append(row.delta == delta)
    if adjacency is not None:
        conditions.append(row.adjacency == adjacency)
    return exists().where(*conditions)


def _exact() -> dict[str, ColumnElement[Any]]:
    """What must be equal, by the name of the filter."""
    same = ("name", "federation_id", "mechanism", "gate_outcome")
    return {
        **{name: _experiments[name] for name in same},
        "guarantee": _summaries.guarantee_kind,
        "in_force": _summaries.in_force,
        "unit": _summaries.unit,
        "label": _summaries.summary["guarantee", "label"].as_string(),
        "person": _experiments.created_by["person"].as_string(),
    }


def _signed_off(decision: str) -> ColumnElement[bool]:
    """Whether the newest sign-off has this decision; `none`: whether there is none."""
    newest = table_of(SignOff).alias("newest").c
    mine = newest.experiment_id == _summaries.experiment_id
    if decision == "none":
        return not_(exists().where(mine))
    later = table_of(SignOff).alias("later").c
    followed = exists().where(
        later.experiment_id == newest.experiment_id, later.number > newest.number
    )
    return exists().where(mine, newest.decision == decision, not_(followed))


def _filter_figures(filters: ReportFilters) -> list[ColumnElement[bool]]:
    """The filters on what kind of figures a report has."""
    conditions: list[ColumnElement[bool]] = []
    if filters.attribute is not None:
        row = table_of(ReportFigure).alias("measured").c
        conditions.append(
            exists().where(row.experiment_id == _experiments.id, row.attribute == filters.attribute)
        )
    counted = {name: getattr(filters, name) for name in ("observer", "delta", "adjacency")}
    if any(value is not None for value in counted.values()):
        conditions.append(has_epsilon(_experiments.id, **counted))
    return conditions


def _within(bound: Bound, filters: ReportFilters, project_id: str) -> ColumnElement[bool]:
    """Whether the figure is within its bound for each attribute that is meant, and for one."""
    figure, side, limit = bound
    observer = filters.observer if figure == EPSILON else None

    def meant(row: ReadOnlyColumnCollection[str, Column[Any]]) -> list[ColumnElement[bool]]:
        conditions = [row.figure == figure, row.observer == (observer or "")]
        if filters.attribute is not None:
            conditions.append(row.attribute.in_(("", filters.attribute)))
        return conditions

    # The first goes by the index on values, and the second by the primary key.
    found = table_of(ReportFigure).alias("found").c
    inside = found.value <= limit if side == "lte" else found.value >= limit
    some = select(found.experiment_id).where(found.project_id == project_id, *meant(found), inside)
    other = table_of(ReportFigure).alias("other").c
    beyond = other.value > limit if side == "lte" else other.value < limit
    outside = exists().where(
        other.experiment_id == _summaries.experiment_id,
        *meant(other),
        or_(other.value.is_(None), beyond),
    )
    return and_(_summaries.experiment_id.in_(some), not_(outside))


def _sort_column(sort: str) -> tuple[ColumnElement[Any], bool]:
    key, descending = sort.removeprefix("-"), sort.startswith("-")
    if key == "created_at":
        # Ids rise with the time of creation, and are unique and indexed.
        return _summaries.experiment_id, descending
    return (_experiments[key] if key in SORT_KEYS else _sorting.value), descending


def _behind(column: ColumnElement[Any], descending: bool, cursor: Cursor) -> ColumnElement[bool]:
    value, last_id = cursor
    identifier = _summaries.experiment_id
    later_id: ColumnElement[bool] = identifier < last_id if descending else identifier > last_id
    if column is identifier:
        return later_id
    if value is None:
        return and_(column.is_(None), later_id)
    later = column < value if descending else column > value
    return or_(later, and_(column == value, later_id), column.is_(None))
