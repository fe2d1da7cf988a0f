"""Lists of experiments: filters, and pages by the last item's values rather than by offset."""

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, false, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from models.repositories.base import table_of
from models.repositories.report_lists import has_epsilon
from models.tables.experiments import Experiment, ExperimentTag
from models.values import Cursor, ExperimentFilters

FIGURES = (
    "leakage_max",
    "leakage_median",
    "log_ratio_max",
    "epsilon_max",
    "validation_loss",
    "accuracy",
    "demographic_parity_difference",
    "equalized_odds_difference",
    "equal_opportunity_difference",
)
"""Final figures that a bound may name."""

SORT_KEYS = ("created_at", "name", "started_at", "finished_at", *FIGURES)
"""What a list may be sorted by; with a minus in front, downwards."""


def filtered(statement: Select[Experiment], filters: ExperimentFilters) -> Select[Experiment]:
    """The statement with every filter that is set. Raises ValueError for an unknown bound."""
    for name in ("status", "name", "federation_id", "mechanism", "delta"):
        value = getattr(filters, name)
        if value is not None:
            statement = statement.where(getattr(Experiment, name) == value)
    if filters.tag is not None:
        tagged = select(ExperimentTag.experiment_id).where(
            ExperimentTag.project_id == Experiment.project_id, ExperimentTag.tag == filters.tag
        )
        statement = statement.where(Experiment.id.in_(tagged))
    if filters.created_after is not None:
        statement = statement.where(Experiment.created_at >= filters.created_after)
    if filters.created_before is not None:
        statement = statement.where(Experiment.created_at <= filters.created_before)
    if filters.alarm is not None:
        raised = func.coalesce(Experiment.alarms, 0) > 0
        statement = statement.where(raised if filters.alarm else ~raised)
    if filters.adjacency is not None:
        counted = has_epsilon(table_of(Experiment).c.id, adjacency=filters.adjacency)
        statement = statement.where(counted)
    for figure, side, bound in filters.bounds:
        statement = statement.where(_within(figure, side, bound))
    return statement


def paged(statement: Select[Experiment], *, sort: str, cursor: Cursor | None) -> Select[Experiment]:
    """The statement in the order of `sort`, ties by id, beginning behind `cursor`.

    Nulls come last in both directions. Raises ValueError for an unknown `sort`, or a cursor that
    another sort made.
    """
    column, descending = _sort_column(sort)
    identifier = Experiment.id.desc() if descending else Experiment.id.asc()
    if column is Experiment.id:
        order: list[ColumnElement[Any]] = [identifier]
    else:
        order = [column.is_(None).asc(), column.desc() if descending else column.asc(), identifier]
    if cursor is not None:
        statement = statement.where(_behind(column, descending, cursor))
    return statement.order_by(*order)


def cursor_of(experiment: Experiment, sort: str) -> Cursor:
    """The cursor that continues behind this experiment."""
    column, _ = _sort_column(sort)
    if column is Experiment.id:
        return (experiment.id,)
    return (getattr(experiment, column.key), experiment.id)


def _within(figure: str, side: str, bound: float) -> ColumnElement[bool]:
    if figure not in FIGURES:
        raise ValueError(f"{figure}: not a final figure; use one of {', '.join(FIGURES)}")
    column: ColumnElement[float] = table_of(Experiment).c[figure]
    if side in ("lte", "gte"):
        return column <= bound if side == "lte" else column >= bound
    raise ValueError(f"{figure}[{side}]: use [lte] or [gte]")


def _sort_column(sort: str) -> tuple[InstrumentedAttribute[Any], bool]:
    name = sort.removeprefix("-")
    if name not in SORT_KEYS:
        raise ValueError(f"sort: {name!r} is unknown; use one of {', '.join(SORT_KEYS)}")
    # Ids rise with the time of creation, and are unique and indexed.
    column = Experiment.id if name == "created_at" else getattr(Experiment, name)
    return column, sort.startswith("-")


def _behind(
    column: InstrumentedAttribute[Any], descending: bool, cursor: Cursor
) -> ColumnElement[bool]:
    if len(cursor) != (1 if column is Experiment.id else 2):
        raise ValueError("cursor: it belongs to another sort; begin again without one")
    identifier = table_of(Experiment).c.id
    later_id: ColumnElement[bool] = (
        identifier < cursor[-1] if descending else identifier > cursor[-1]
    )
    if column is Experiment.id:
        return later_id
    value = cursor[0]
    if value is None:
        return and_(column.is_(None), later_id)
    later = column < value if descending else column > value
    nulls = column.is_(None) if column.nullable else false()
    return or_(later, and_(column == value, later_id), nulls)
