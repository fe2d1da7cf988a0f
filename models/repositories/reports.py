"""Stored reports, and the figures by which they are found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from operator import eq, ge, le
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, and_, exists, not_, or_, select
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from fedaudit.stored import IndexedFigure
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
from models.values import Bound, Cursor, ListedReport, Page, ReportIndex, utc_now


class ReportRepository(ExperimentPartRepository):
    """One report an experiment, written once."""

    def put(
        self,
        experiment_id: str,
        *,
        report_hash: str,
        index: ReportIndex | None = None,
        **columns: Any,
    ) -> bool:
        """Stores the report with these columns; False if there is one, which stays. Without an
        index no figure finds it, and lists show little of it."""
        owner = self._owned(experiment_id)
        hashed = {**owner, "report_hash": report_hash}
        if not self._insert_absent(Report, {**hashed, **columns, "created_at": utc_now()}):
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
        self._set(ReportSummary, mine, summary=summary)

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
        filters, key = filters or {}, sort.removeprefix("-")
        identifier = _summaries.experiment_id
        statement = select(*_LISTED).join_from(
            ReportSummary, Experiment, _experiments.id == identifier
        )
        column: ColumnElement[Any]
        names: tuple[str, ...]
        if key == "created_at":
            # Ids rise with the time of creation, and are unique and indexed.
            column, names = identifier, ("experiment_id",)
        elif key in SORT_KEYS:
            column, names = _experiments[key], (key, "experiment_id")
        else:
            column, names = _sorting.value, ("sorted_by", "experiment_id")
            figure = and_(
                _sorting.experiment_id == identifier,
                _sorting.figure == key,
                _sorting.attribute == attribute,
                _sorting.observer == (filters.get("observer", "") if key == EPSILON else ""),
            )
            statement = statement.add_columns(column.label("sorted_by"))
            statement = statement.join(_sorting_table, figure)
        counted = {name: value for name, value in filters.items() if name in _COUNTED}
        others = {name: value for name, value in filters.items() if name not in _COUNTED}
        statement = filtered(statement, others, _CONDITIONS)
        statement = statement.where(
            _summaries.project_id == self.project_id,
            # What a report counts is of one epsilon.
            *([has_epsilon(_experiments.id, **counted)] if counted else []),
            *(_within(bound, filters, self.project_id) for bound in bounds),
        )
        descending = sort.startswith("-")
        paged = ordered(statement, column, identifier, descending=descending, cursor=cursor)
        rows = self.session.execute(paged.limit(limit + 1)).mappings()
        items = [ListedReport(**row) for row in rows]
        return page_of(items, limit, lambda last: tuple(getattr(last, name) for name in names))

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

    def people(self) -> "Sequence[str]":
        """The names of those who submitted the experiments with a report, sorted."""
        name = _experiments.created_by["person"].as_string()
        return self._distinct(name, name.is_not(None))

    def federations(self) -> "Sequence[str]":
        """The ids of the federations that reports are about, the newest last."""
        return self._distinct(_experiments.federation_id)

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
        self, column: ColumnElement[str], *conditions: ColumnElement[bool]
    ) -> "Sequence[str]":
        """The values of a column of the experiments with a report, as many as a list offers."""
        return self.session.scalars(
            select(column)
            .join_from(ReportSummary, Experiment, _experiments.id == _summaries.experiment_id)
            .where(_summaries.project_id == self.project_id, *conditions)
            .distinct()
            .order_by(column)
            .limit(_MOST_OFFERED)
        ).all()


SORT_KEYS = ("created_at", "finished_at", "name")
"""What a list may be sorted by besides figures."""

_MOST_OFFERED = 200
EPSILON = "epsilon_max"
"""The one figure that several observers may have."""

_summaries, _experiments = table_of(ReportSummary).c, table_of(Experiment).c
_tags = table_of(ExperimentTag).c
_sorting_table = table_of(ReportFigure).alias("sorting")
_sorting = _sorting_table.c


_SHOWN = (
    *("name", "status", "federation_id", "gate_outcome"),
    *("created_at", "finished_at", "created_by"),
)
"""What lists show of the experiment itself."""
_LISTED = (
    _experiments.id.label("experiment_id"),
    *(_experiments[name] for name in _SHOWN),
    _experiments.spec["tags"].label("tags"),
    _summaries.report_hash,
    _summaries.summary,
)


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


Condition = Callable[[Any], ColumnElement[bool]]
"""The condition that a filter with a value sets."""
OF_EXPERIMENTS: dict[str, Condition] = {
    **{name: partial(eq, _experiments[name]) for name in ("name", "federation_id", "mechanism")},
    "tag": lambda tag: exists().where(_tags.experiment_id == _experiments.id, _tags.tag == tag),
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
