"""Stored reports, and the figures by which they are found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from operator import eq, ge, le
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, and_, exists, not_, or_, select
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from fedaudit.stored import IndexedFigure
from models.clock import utc_now
from models.repositories.base import (
    ExperimentPartRepository,
    ScopedRepository,
    ordered,
    page_of,
    table_of,
)
from models.tables.experiments import (
    Experiment,
    ExperimentTag,
    Report,
    ReportFigure,
    ReportSummary,
    SignOff,
)
from models.values import Bound, Cursor, ListedReport, Page, ReportIndex


class ReportRepository(ExperimentPartRepository):
    """One report an experiment, written once."""

    def put(
        self,
        experiment_id: str,
        project_id: str,
        *,
        document: Mapping[str, Any],
        report_hash: str,
        index: ReportIndex | None = None,
        model_layout: Mapping[str, Any] | None = None,
        clients: Mapping[str, Any] | None = None,
        claims: Sequence[Mapping[str, Any]] | None = None,
    ) -> bool:
        """Stores the report; False if there is one, which stays. Without an index no figure finds
        it, and lists show little of it."""
        owner = {"experiment_id": experiment_id, "project_id": project_id}
        hashed = {**owner, "report_hash": report_hash}
        beside = {"model_layout": model_layout, "clients": clients}
        content: dict[str, Any] = {"document": dict(document)}
        content |= {name: None if one is None else dict(one) for name, one in beside.items()}
        content |= {"claims": None if claims is None else [dict(one) for one in claims]}
        stored = self._insert_absent(Report, {**hashed, **content, "created_at": utc_now()})
        if not stored:
            return False
        summary: dict[str, Any] = dict.fromkeys(("guarantee_kind", "in_force", "unit", "summary"))
        if index is not None:
            summary = {name: getattr(index, name) for name in summary}
            self._insert(ReportFigure, [{**owner, **asdict(one)} for one in index.figures])
        self._insert(ReportSummary, [{**hashed, **summary}])
        return True

    def restate(self, experiment_id: str, *, summary: Mapping[str, Any]) -> None:
        """What lists show of the report once it has to be judged otherwise; it stays as it is."""
        mine = ReportSummary.experiment_id == experiment_id
        self._set(ReportSummary, mine, summary=dict(summary))

    def get(self, experiment_id: str) -> Report | None:
        """The report as stored."""
        return self._one(self._select(Report, experiment_id))

    def claims(self, experiment_id: str) -> "Sequence[dict[str, Any]]":
        """What it claims, in signed bundles; none without a report, and of earlier ones."""
        row = self.get(experiment_id)
        return [] if row is None else row.claims or []


class ReportListRepository(ScopedRepository):
    """A project's reports by their figures; documents are not read."""

    def list(
        self,
        filters: Mapping[str, Any] | None = None,
        *,
        bounds: Sequence[Bound] = (),
        cursor: Cursor | None = None,
        limit: int = 50,
        sort: str = "-created_at",
        attribute: str = "",
    ) -> Page[ListedReport]:
        """One page; `filters`: of `FILTERS`, all of which must hold; `cursor`: the previous page's
        `next_cursor`, same sort: a time, the name or a figure, descending with a minus, nulls last.
        `attribute`: a fairness figure's. Reports without the figure are not listed."""
        filters = filters or {}
        observer = filters.get("observer", "")
        statement = _listed(self.project_id, sort=sort, attribute=attribute, observer=observer)
        statement = _filtered(statement, filters)
        of_figures = (_within(bound, filters, self.project_id) for bound in bounds)
        statement = statement.where(*of_figures)
        statement = _paged(statement, sort, cursor)
        rows = self.session.execute(statement.limit(limit + 1)).mappings()
        items = [ListedReport(**row) for row in rows]
        return page_of(items, limit, lambda last: _cursor_of(last, sort))

    def figures(self, ids: Sequence[str]) -> "dict[str, Sequence[IndexedFigure]]":
        """The figures of several reports; one query for a whole page."""
        found: dict[str, Any] = {id_: [] for id_ in ids}
        columns, names = table_of(ReportFigure).c, tuple(IndexedFigure.__dataclass_fields__)
        # Not by the figures' own project: SQLite would read all of it rather than these reports.
        mine = select(_summaries.experiment_id).where(
            _summaries.project_id == self.project_id, _summaries.experiment_id.in_(ids)
        )
        statement = (
            select(columns.experiment_id, *(columns[name] for name in names))
            .where(columns.experiment_id.in_(mine))
            .order_by(columns.experiment_id, columns.attribute, columns.figure, columns.observer)
        )
        for experiment_id, *values in self.session.execute(statement):
            found[experiment_id].append(IndexedFigure(**dict(zip(names, values, strict=True))))
        return found

    def people(self, limit: int = 200) -> "Sequence[str]":
        """The names of those who submitted the experiments with a report, sorted."""
        name = _experiments.created_by["person"].as_string()
        return self._distinct(name, limit, name.is_not(None))

    def federations(self, limit: int = 200) -> "Sequence[str]":
        """The ids of the federations that reports are about, the newest last."""
        return self._distinct(_experiments.federation_id, limit)

    def attributes(self, figure: str) -> "Sequence[str]":
        """The sensitive attributes for which some report has the figure, sorted."""
        columns = table_of(ReportFigure).c
        return self.session.scalars(
            select(columns.attribute)
            .where(columns.project_id == self.project_id, columns.figure == figure)
            .distinct()
            .order_by(columns.attribute)
        ).all()

    def _distinct(
        self, column: ColumnElement[str], limit: int, *conditions: ColumnElement[bool]
    ) -> "Sequence[str]":
        """The values of a column of the experiments with a report."""
        return self.session.scalars(
            select(column)
            .join_from(ReportSummary, Experiment, _experiments.id == _summaries.experiment_id)
            .where(_summaries.project_id == self.project_id, *conditions)
            .distinct()
            .order_by(column)
            .limit(limit)
        ).all()


SORT_KEYS = ("created_at", "finished_at", "name")
"""What a list may be sorted by besides figures."""

EPSILON = "epsilon_max"
"""The one figure that several observers may have."""

_summaries, _experiments = table_of(ReportSummary).c, table_of(Experiment).c
_sorting_table = table_of(ReportFigure).alias("sorting")
_sorting = _sorting_table.c


_SHOWN = (
    *("name", "status", "federation_id", "gate_outcome"),
    *("created_at", "finished_at", "created_by"),
)
"""What lists show of the experiment itself."""


def _listed(project_id: str, *, sort: str, attribute: str, observer: str) -> Select[Any]:
    """The columns of a ListedReport, of a project's reports that have the figure sorted by."""
    columns: list[ColumnElement[Any]] = [
        _experiments.id.label("experiment_id"),
        *(_experiments[name] for name in _SHOWN),
        _experiments.spec["tags"].label("tags"),
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


def _paged(statement: Select[Any], sort: str, cursor: Cursor | None) -> Select[Any]:
    """The statement in the order of `sort`, ties by id, beginning behind `cursor`."""
    key, identifier = sort.removeprefix("-"), _summaries.experiment_id
    # Ids rise with the time of creation, and are unique and indexed.
    column = _experiments[key] if key in SORT_KEYS else _sorting.value
    column = identifier if key == "created_at" else column
    descending = sort.startswith("-")
    return ordered(statement, column, identifier, descending=descending, cursor=cursor)


def _cursor_of(report: ListedReport, sort: str) -> Cursor:
    """The cursor that continues behind this report."""
    key = sort.removeprefix("-")
    if key == "created_at":
        return (report.experiment_id,)
    return (getattr(report, key if key in SORT_KEYS else "sorted_by"), report.experiment_id)


def has_epsilon(
    experiment_id: ColumnElement[str],
    *,
    observer: str | None = None,
    delta: float | None = None,
    adjacency: str | None = None,
) -> ColumnElement[bool]:
    """Whether a report has such an epsilon, against the observer or the largest."""
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


def _measures(attribute: str) -> ColumnElement[bool]:
    """Whether a report has figures of a sensitive attribute."""
    row = table_of(ReportFigure).alias("measured").c
    return exists().where(row.experiment_id == _experiments.id, row.attribute == attribute)


def _has_tag(tag: str) -> ColumnElement[bool]:
    tags = table_of(ExperimentTag).c
    return exists().where(tags.experiment_id == _experiments.id, tags.tag == tag)


Condition = Callable[[Any], ColumnElement[bool]]
"""The condition that a filter with a value sets."""
OF_EXPERIMENTS: dict[str, Condition] = {
    **{name: partial(eq, _experiments[name]) for name in ("name", "federation_id", "mechanism")},
    "tag": _has_tag,
    "created_after": partial(ge, _experiments.created_at),
    "created_before": partial(le, _experiments.created_at),
}
"""Those that lists of experiments and of reports share, by name."""
_CONDITIONS: dict[str, Condition] = {
    **OF_EXPERIMENTS,
    "finished_after": partial(ge, _experiments.finished_at),
    "finished_before": partial(le, _experiments.finished_at),
    "gate_outcome": partial(eq, _experiments.gate_outcome),
    "person": partial(eq, _experiments.created_by["person"].as_string()),
    "search": lambda text: _experiments.name.icontains(text, autoescape=True),
    "guarantee": partial(eq, _summaries.guarantee_kind),
    "label": partial(eq, _summaries.summary["guarantee", "label"].as_string()),
    "in_force": partial(eq, _summaries.in_force),
    "unit": partial(eq, _summaries.unit),
    "sign_off": _signed_off,
    "attribute": _measures,
}
_COUNTED = ("observer", "delta", "adjacency")
FILTERS = (*_CONDITIONS, *_COUNTED)
"""What a list of reports may be filtered by, beside bounds."""


def filtered(
    statement: Select[*tuple[Any, ...]],
    filters: Mapping[str, Any],
    conditions: Mapping[str, Condition],
) -> Select[Any]:
    """The statement with every filter. Raises KeyError for one without a condition."""
    return statement.where(*(conditions[name](value) for name, value in filters.items()))


def _filtered(statement: Select[Any], filters: Mapping[str, Any]) -> Select[Any]:
    """The same; what a report counts is of one epsilon."""
    counted = {name: value for name, value in filters.items() if name in _COUNTED}
    others = {name: value for name, value in filters.items() if name not in _COUNTED}
    if counted:
        statement = statement.where(has_epsilon(_experiments.id, **counted))
    return filtered(statement, others, _CONDITIONS)


def _within(bound: Bound, filters: Mapping[str, Any], project_id: str) -> ColumnElement[bool]:
    """Whether the figure is within its bound for each attribute that is meant, and for one."""
    figure, side, limit = bound
    attribute = filters.get("attribute")
    observer = filters.get("observer", "") if figure == EPSILON else ""

    def meant(row: ReadOnlyColumnCollection[str, Column[Any]]) -> list[ColumnElement[bool]]:
        conditions = [row.figure == figure, row.observer == observer]
        if attribute is not None:
            conditions.append(row.attribute.in_(("", attribute)))
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
