"""The shapes of answers about sweeps, as `result_types` has those of all others."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from fedaudit_client.result_types import Actor, GateOutcome, Progress, Status


class SweepProgress(TypedDict):
    """How far a sweep is."""

    cells: int
    ended: int
    statuses: Mapping[str, int]
    """Cells by status."""
    rounds: int
    rounds_total: int
    """Of all cells: the most that there can be."""


class SweepCell(TypedDict):
    """One cell: the newest try of it."""

    position: int
    experiment_id: str
    values: Mapping[str, Any]
    """By field, what distinguishes it from the others."""
    status: Status
    status_reason: str | None
    gate_outcome: GateOutcome | None
    progress: Progress


class SweepEpsilon(TypedDict):
    """An epsilon of all cells together."""

    observer: str
    delta: float
    adjacency: str
    unit: str
    value: float
    cell_max: float
    """The largest of a single cell, at its own delta."""


class SweepCosts(TypedDict):
    """What all cells cost together, at most; each null has its reason in `reasons`."""

    leakage: float | None
    log_ratio_max: float | None
    epsilon: Sequence[SweepEpsilon]
    reasons: Mapping[str, str]


class SweepFacts(TypedDict):
    """What the costs are worth."""

    cost_kinds: Sequence[str]
    noises: Sequence[str]
    """Under `simulation` the costs protect nobody."""
    guarantees: Sequence[str]
    """`formal`, `heuristic`, `none`."""
    conditions: Sequence[str]
    """Why a guarantee bounds some datasets only."""


class ListedSweep(TypedDict):
    """A sweep in a list."""

    id: str
    name: str
    status: Status
    """`failed` only where every cell failed: see the statuses in `progress`."""
    progress: SweepProgress
    created_at: str
    created_by: Actor | None


class Sweep(ListedSweep):
    """A sweep and its cells."""

    asked: Mapping[str, Any]
    """The request: base, grid, zip and repeats."""
    costs: SweepCosts
    facts: SweepFacts
    cells: Sequence[SweepCell]


class SubmittedSweep(Sweep):
    """A sweep that was accepted just now."""

    warnings: Sequence[str]


class SweepValidation(TypedDict):
    """What the service says of a sweep that it did not store."""

    cells: int
    costs: SweepCosts | None
    """None where a budget has no room, as `detail` says."""
    facts: SweepFacts
    has_room: bool
    detail: str | None
    warnings: Sequence[str]


class FigureSpread(TypedDict):
    """A figure over the seeds of a row; None without one, or what needs a second."""

    n: int
    mean: float | None
    standard_deviation: float | None
    low: float | None
    high: float | None
    """Student's t at 95 %, over seeds alone."""
    best: bool
    """Whether its interval lies beyond those of all other rows."""


class SweepRow(TypedDict):
    """One combination over its seeds."""

    values: Mapping[str, Any]
    experiment_ids: Sequence[str]
    seeds: int
    succeeded: int
    degenerate: int
    """Of these, how many models decide no better than a constant."""
    figures: Mapping[str, FigureSpread]
    unbounded: bool
    """Whether nothing bounds what a cell of it reveals: its costs are then None."""
    front: bool
    """Whether no other row is better in all of `front_figures`."""


class SweepTable(TypedDict):
    """A row for each combination."""

    figures: Sequence[str]
    """By name; those of an attribute as name[attribute]."""
    rows: Sequence[SweepRow]
    front_figures: Sequence[str]
    notes: Sequence[str]
    """What is to be known before a row is chosen."""
