"""Sweeps of one project and their cells."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, bindparam, func, select, update

from fedaudit.stored import CellPlace, ReservedCost
from models.person import Actor
from models.repositories.base import RowRepository, table_of
from models.repositories.budgets.counting import SETTLED
from models.tables.experiments import Experiment, ReportSummary, Sweep, SweepCell
from models.tables.ledger import Reservation
from models.values import Cursor, Page, utc_now

_SAME = (
    *("experiment_id", "federation_id", "figure", "observer"),
    *("adjacency", "unit", "unit_key", "delta"),
)
"""What a cost has as it was reserved."""
_OTHERS = ("amount", "spent", "state", "curve", "step", "planned", "compositions")
_COLUMNS = tuple(table_of(Reservation).c[name] for name in (*_SAME, *_OTHERS))
_OWN = table_of(SweepCell).c.project_id == bindparam("project_id")
_IN_SWEEP = _OWN, SweepCell.sweep_id == bindparam("sweep_id")
_RESERVED = (
    select(*_COLUMNS, (Experiment.status == "succeeded").label("reported"))
    .add_columns(SweepCell.experiment_id.label("try_"))
    .join_from(SweepCell, Experiment, Experiment.id == SweepCell.experiment_id)
    .join(Reservation, Reservation.experiment_id == SweepCell.experiment_id, isouter=True)
    .where(*_IN_SWEEP)
)
_IN_CELL = ("sweep_id", "name", "cells", "facts", "position", "values")
_PLACES = (
    select(SweepCell.experiment_id, Sweep.id, Sweep.name, Sweep.cells, Sweep.facts)
    .add_columns(SweepCell.position, SweepCell.values)
    .where(SweepCell.sweep_id == Sweep.id, _OWN)
    .where(SweepCell.experiment_id.in_(bindparam("experiment_ids", expanding=True)))
)
_HOLD = (
    select(Sweep.id)
    .where(Sweep.project_id == bindparam("project_id"), Sweep.id == bindparam("sweep_id"))
    .with_for_update(key_share=True)
)


@dataclass(frozen=True)
class SweepState:
    """Where the cells of a sweep stand."""

    statuses: Counter[str]
    """Cells of each status."""
    rounds_done: int
    rounds_total: int
    """The most rounds that all cells together can have."""


class SweepRepository(RowRepository[Sweep]):
    """A project's sweeps."""

    _table = Sweep

    def add(
        self,
        id: str,
        *,
        name: str,
        asked: Mapping[str, Any],
        facts: Mapping[str, Any],
        cells: Sequence[tuple[str, Mapping[str, Any]]],
        by: Actor,
    ) -> Sweep:
        """A sweep over experiments that are stored: (experiment id, values) of each cell."""
        created = {"created_at": utc_now(), "created_by": vars(by)}
        values = {"asked": dict(asked), "cells": len(cells), "facts": dict(facts)}
        sweep = self.store(Sweep(id=id, project_id=self.project_id, name=name, **values, **created))
        rows = [
            self._cell(id, position, experiment_id, values)
            for position, (experiment_id, values) in enumerate(cells)
        ]
        self._insert(SweepCell, rows)
        return sweep

    def list(self, *, cursor: Cursor | None = None, limit: int = 50) -> Page[Sweep]:
        """Newest first; the cursor is (id,)."""
        return self._page(self._select(Sweep), Sweep.id, cursor, limit)

    def cells(self, sweep_id: str) -> Sequence[tuple[SweepCell, Experiment]]:
        """Its cells by position, each with its newest try."""
        rows = self.session.execute(
            select(SweepCell, Experiment)
            .join(Experiment, Experiment.id == SweepCell.experiment_id)
            .where(*self._of(sweep_id), SweepCell.newest)
            .order_by(SweepCell.position),
            execution_options={"populate_existing": True},
        )
        return rows.all()

    def states(self, sweep_ids: Sequence[str]) -> dict[str, SweepState]:
        """Where several sweeps stand; one query for a whole page."""
        statuses: dict[str, Counter[str]] = {one: Counter() for one in sweep_ids}
        done, total = Counter[str](), Counter[str]()
        by = (SweepCell.sweep_id, Experiment.status)
        sums = (func.sum(Experiment.rounds_done), func.sum(Experiment.rounds_total))
        rows = self.session.execute(
            select(*by, func.count(), *sums)
            .join(Experiment, Experiment.id == SweepCell.experiment_id)
            .where(self._own(SweepCell), SweepCell.sweep_id.in_(sweep_ids), SweepCell.newest)
            .group_by(*by)
        )
        for sweep_id, status, count, rounds_done, rounds_total in rows:
            statuses[sweep_id][status] = count
            done[sweep_id] += int(rounds_done)
            total[sweep_id] += int(rounds_total)
        return {one: SweepState(statuses[one], done[one], total[one]) for one in sweep_ids}

    def degenerate(self, ids: Sequence[str]) -> set[str]:
        """The experiments whose report says that the model decides no better than a constant."""
        degenerate = ReportSummary.summary["degenerate"].as_boolean().is_(True)
        mine = (self._own(ReportSummary), ReportSummary.experiment_id.in_(ids))
        found = select(ReportSummary.experiment_id).where(*mine, degenerate)
        return set(self.session.scalars(found))

    def hold(self, sweep_id: str) -> None:
        """Let no cell of it be tried again, or get its report, until the transaction ends."""
        # The sweep rather than its cells: two would lock these in any order.
        self._rows(_HOLD, project_id=self.project_id, sweep_id=sweep_id)

    def leave(self, sweep_id: str, experiment_ids: Sequence[str]) -> set[str]:
        """Marks these cells as about to be retried; returns those that can be. Under `hold`, so
        that of two simultaneous callers only one gets each."""
        these = (SweepCell.experiment_id.in_(experiment_ids), SweepCell.newest)
        left = update(SweepCell).where(*self._of(sweep_id), *these).values(newest=False)
        return set(self._returned(left, SweepCell.experiment_id).scalars())

    def enter(self, sweep_id: str, cell: SweepCell, *, again: str) -> None:
        """A cell that was left is tried again by another experiment."""
        self._insert(SweepCell, [self._cell(sweep_id, cell.position, again, cell.values)])

    def _cell(
        self, sweep_id: str, position: int, experiment_id: str, values: Mapping[str, Any]
    ) -> dict[str, Any]:
        owner = {"sweep_id": sweep_id, "project_id": self.project_id}
        cell = {"experiment_id": experiment_id, "position": position, "values": values}
        return {**owner, **cell, "newest": True}

    def places(self, experiment_ids: Collection[str]) -> dict[str, CellPlace]:
        """The cells that experiments are tries of, by experiment; they stay the same."""
        ids = list(experiment_ids)
        found = self._rows(_PLACES, project_id=self.project_id, experiment_ids=ids)
        return {own: CellPlace(**dict(zip(_IN_CELL, row, strict=True))) for own, *row in found}

    def reserved_costs(self, sweep_id: str) -> tuple[Sequence[ReservedCost], Collection[str]]:
        """What every try of every cell has reserved, or spent; and these tries, the experiments of
        all cells, those that were tried again among them."""
        rows = self._rows(_RESERVED, project_id=self.project_id, sweep_id=sweep_id)
        costs = [_reserved_cost(row) for row in rows if row.experiment_id is not None]
        return costs, {row.try_ for row in rows}

    def _of(self, sweep_id: str) -> tuple[ColumnElement[bool], ...]:
        """The conditions that a cell is the sweep's."""
        return self._own(SweepCell), SweepCell.sweep_id == sweep_id


def _reserved_cost(row: Any) -> ReservedCost:
    """The cost in the columns `_COLUMNS`; `reported`: whether the run has a report. Losses may have
    ended it, or somebody who watched it, and an epsilon is proven for all rounds that were planned
    alone."""
    amount, curve = row.amount, row.curve
    begun = row.reported or (row.state == SETTLED and row.compositions)
    ended_early = begun and (row.compositions or 0) < (row.planned or 0)
    if ended_early and curve is not None and row.step is not None:
        curve = np.maximum(curve, row.planned * row.step)
    if row.figure != "epsilon":
        # An epsilon is composed from its curve, which becomes what was spent when it is settled.
        amount = row.spent if row.state == SETTLED else max(row.amount, row.spent)
    enlarged = (row.compositions or 0) > (row.planned or 0)
    same = {name: getattr(row, name) for name in _SAME}
    return ReservedCost(**same, amount=amount, curve=curve, enlarged=enlarged)
