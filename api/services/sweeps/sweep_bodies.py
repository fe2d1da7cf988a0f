"""Sweeps as callers see them: where they stand, and what they cost."""

from collections.abc import Sequence
from typing import cast

from sqlalchemy.orm import Session

from api.schemas.experiments import Progress, Status
from api.schemas.people import ActorBody
from api.schemas.sweeps import (
    ListedSweepBody,
    SubmittedSweepBody,
    SweepBody,
    SweepCellBody,
    SweepProgress,
)
from api.shared.security import Caller
from fedaudit.sweeps.sweep_costs import SweepCosts, sweep_costs
from fedaudit.sweeps.sweep_facts import SweepFacts
from models.repositories import SweepRepository
from models.repositories.experiments import ENDED
from models.repositories.sweeps import CellRow, SweepState
from models.tables.experiments import Sweep

_GOING_ON = ("running", "cancelling")


def sweep_body(session: Session, caller: Caller, sweep: Sweep) -> SweepBody:
    """A sweep with its cells and what it costs."""
    sweeps = SweepRepository(session, caller.project_id)
    state = sweeps.states([sweep.id])[sweep.id]
    return SweepBody(
        **_head(sweep, state).model_dump(),
        asked=sweep.asked,
        costs=costs_of(session, caller, sweep),
        facts=cast(SweepFacts, sweep.facts),
        cells=[_cell(cell) for cell in sweeps.cells(sweep.id)],
    )


def submitted_body(
    session: Session, caller: Caller, sweep: Sweep, warnings: Sequence[str]
) -> SubmittedSweepBody:
    """A sweep that was accepted."""
    return SubmittedSweepBody(**vars(sweep_body(session, caller, sweep)), warnings=list(warnings))


def listed_bodies(
    session: Session, caller: Caller, sweeps: Sequence[Sweep]
) -> list[ListedSweepBody]:
    """Sweeps in a list, without their cells."""
    states = SweepRepository(session, caller.project_id).states([one.id for one in sweeps])
    return [_head(one, states[one.id]) for one in sweeps]


def costs_of(session: Session, caller: Caller, sweep: Sweep) -> SweepCosts:
    """What all tries of all cells have booked together, as it is now."""
    sweeps = SweepRepository(session, caller.project_id)
    return sweep_costs(sweeps.booked(sweep.id), runs=sweeps.tries(sweep.id), facts=sweep.facts)


def _cell(cell: CellRow) -> SweepCellBody:
    experiment = cell.experiment
    return SweepCellBody(
        position=cell.position,
        experiment_id=experiment.id,
        values=dict(cell.values),
        status=cast(Status, experiment.status),
        status_reason=experiment.status_reason,
        gate_outcome=experiment.gate_outcome,
        progress=Progress(round=experiment.rounds_done, rounds=experiment.rounds_total),
    )


def _head(sweep: Sweep, state: SweepState) -> ListedSweepBody:
    return ListedSweepBody(
        id=sweep.id,
        name=sweep.name,
        status=status_of(state),
        progress=SweepProgress(
            cells=sweep.cells,
            ended=sum(state.statuses[one] for one in ENDED),
            statuses=dict(state.statuses),
            rounds=state.rounds_done,
            rounds_total=state.rounds_total,
        ),
        created_at=sweep.created_at,
        created_by=ActorBody.model_validate(sweep.created_by),
    )


def status_of(state: SweepState) -> Status:
    """Of the sweep as one: `failed` only where every cell failed, `succeeded` where one did not."""
    counts = state.statuses
    ended = sum(counts[one] for one in ENDED)
    if ended < sum(counts.values()):
        if counts["cancelling"]:
            return "cancelling"
        return "running" if ended or any(counts[one] for one in _GOING_ON) else "queued"
    if counts["succeeded"]:
        return "succeeded"
    return "failed" if counts["failed"] else "cancelled"
