"""Bodies of sweeps."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from api.schemas.experiments import Progress, Status
from api.schemas.people import ActorBody
from fedaudit.sweeps.sweep_costs import SweepCosts, SweepFacts
from fedaudit.sweeps.sweep_table import SweepRow


class SweepProgress(BaseModel):
    """How far a sweep is."""

    cells: int
    ended: int
    """Cells that have ended, in whatever way."""
    statuses: dict[str, int]
    """Cells by status."""
    rounds: int
    rounds_total: int
    """Of all cells: the most that there can be."""


class SweepCellBody(BaseModel):
    """One cell: the newest try of it."""

    position: int
    experiment_id: str
    values: dict[str, Any]
    """By field, what distinguishes it from the others."""
    status: Status
    status_reason: str | None
    gate_outcome: str | None
    progress: Progress


class ListedSweepBody(BaseModel):
    """A sweep in a list."""

    id: str
    name: str
    status: Status
    """`running` from the first cell that runs to the last that ends; `succeeded` where some cell
    did."""
    progress: SweepProgress
    created_at: datetime
    created_by: ActorBody


class SweepBody(ListedSweepBody):
    """A sweep and its cells."""

    asked: dict[str, Any]
    """The request: base, grid, zip and repeats."""
    costs: SweepCosts
    """Of all cells together, as they have booked it: what each may spend while it runs, and what it
    spent once it has ended. It covers choosing the best of them."""
    facts: SweepFacts
    """What the costs are worth: under the noise `simulation` they protect nobody."""
    cells: list[SweepCellBody]


class SubmittedSweepBody(SweepBody):
    """A sweep that was accepted."""

    warnings: list[str]


class SweepTableBody(BaseModel):
    """A row for each combination, over its seeds."""

    figures: list[str]
    """By name; those of an attribute as name[attribute]."""
    rows: list[SweepRow]
    front_figures: list[str]
    """By the means of which rows are on the front; as far as every row has them."""
    notes: list[str]


class SweepPage(BaseModel):
    """Some sweeps."""

    items: list[ListedSweepBody]
    next_cursor: str | None


class SweepValidationBody(BaseModel):
    """A sweep that could be run; nothing was stored."""

    cells: int
    costs: SweepCosts | None
    """Null where a budget has no room, as `detail` says."""
    facts: SweepFacts
    """What the costs are worth: under the noise `simulation` they protect nobody."""
    has_room: bool
    """Whether the budgets have room for the whole sweep just now."""
    detail: str | None
    """Why a submission would be refused."""
    warnings: list[str]
