"""Stored reports, and the figures by which they are found."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import select, update

from models.clock import utc_now
from models.report_values import IndexedFigure, ListedReport, ReportFilters, ReportIndex
from models.repositories.base import ExperimentPartRepository, ScopedRepository, table_of
from models.repositories.report_lists import cursor_of, filtered, listed, paged
from models.tables.experiments import Experiment
from models.tables.report_figures import ReportFigure
from models.tables.report_summaries import ReportSummary
from models.tables.reports import Report
from models.values import Cursor, Page


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
    ) -> bool:
        """Stores the report; False where there is one, which stays as it is.

        Without an index the report is found by no figure, and a list shows little of it.
        """
        owner = {"experiment_id": experiment_id, "project_id": project_id}
        hashed = {**owner, "report_hash": report_hash}
        layout = None if model_layout is None else dict(model_layout)
        content = {"document": dict(document), "model_layout": layout, "created_at": utc_now()}
        stored = self._insert_absent(Report, {**hashed, **content})
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
        self._execute(
            update(ReportSummary)
            .where(ReportSummary.experiment_id == experiment_id)
            .values(summary=dict(summary))
        )

    def get(self, experiment_id: str) -> Report | None:
        """The report as stored."""
        return self._one(self._select(Report, experiment_id))


class ReportListRepository(ScopedRepository):
    """A project's reports by their figures; documents are not read."""

    def list(
        self,
        filters: ReportFilters | None = None,
        *,
        cursor: Cursor | None = None,
        limit: int = 50,
        sort: str = "-created_at",
        attribute: str = "",
    ) -> Page[ListedReport]:
        """One page; `cursor` is the page before's `next_cursor`, under the same sort.

        `sort` is a time, the name or a figure, with a minus in front for downwards; `attribute`
        is that of a fairness figure. Reports that lack the figure are not listed, nulls come last.
        """
        filters = filters or ReportFilters()
        observer = filters.observer or ""
        statement = listed(self.project_id, sort=sort, attribute=attribute, observer=observer)
        statement = filtered(statement, filters, project_id=self.project_id)
        statement = paged(statement, sort=sort, cursor=cursor)
        rows = self.session.execute(statement.limit(limit + 1)).mappings()
        items = [ListedReport(**row) for row in rows]
        more = len(items) > limit
        return Page(items[:limit], cursor_of(items[limit - 1], sort) if more else None)

    def figures(self, ids: Sequence[str]) -> "dict[str, Sequence[IndexedFigure]]":
        """The figures of several reports; one query for a whole page."""
        found: dict[str, Any] = {id_: [] for id_ in ids}
        columns = table_of(ReportFigure).c
        summaries = table_of(ReportSummary).c
        # Not by the figures' own project: SQLite would read all of it rather than these reports.
        mine = select(summaries.experiment_id).where(
            summaries.project_id == self.project_id, summaries.experiment_id.in_(ids)
        )
        statement = (
            select(
                *(columns[name] for name in ("experiment_id", *IndexedFigure.__dataclass_fields__))
            )
            .where(columns.experiment_id.in_(mine))
            .order_by(columns.experiment_id, columns.attribute, columns.figure, columns.observer)
        )
        for experiment_id, *values in self.session.execute(statement):
            names = IndexedFigure.__dataclass_fields__
            found[experiment_id].append(IndexedFigure(**dict(zip(names, values, strict=True))))
        return found

    def people(self, limit: int = 200) -> "Sequence[str]":
        """The names of those who submitted the experiments with a report, sorted."""
        experiments, summaries = table_of(Experiment).c, table_of(ReportSummary).c
        name = experiments.created_by["person"].as_string()
        return self.session.scalars(
            select(name)
            .join_from(ReportSummary, Experiment, experiments.id == summaries.experiment_id)
            .where(summaries.project_id == self.project_id, name.is_not(None))
            .distinct()
            .order_by(name)
            .limit(limit)
        ).all()

    def federations(self, limit: int = 200) -> "Sequence[str]":
        """The ids of the federations that reports are about, the newest last."""
        experiments, summaries = table_of(Experiment).c, table_of(ReportSummary).c
        return self.session.scalars(
            select(experiments.federation_id)
            .join_from(ReportSummary, Experiment, experiments.id == summaries.experiment_id)
            .where(summaries.project_id == self.project_id)
            .distinct()
            .order_by(experiments.federation_id)
            .limit(limit)
        ).all()

    def attributes(self, figure: str) -> "Sequence[str]":
        """The sensitive attributes for which some report has the figure, sorted."""
        columns = table_of(ReportFigure).c
        return self.session.scalars(
            select(columns.attribute)
            .where(columns.project_id == self.project_id, columns.figure == figure)
            .distinct()
            .order_by(columns.attribute)
        ).all()
