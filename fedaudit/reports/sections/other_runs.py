"""The sections `sweep` and `repeats`: the other runs beside this one."""

from typing import Annotated, Any

from pydantic import Field

from fedaudit.reports.sections.part import WHERE_GIVEN, Part


class SweepEpsilonSection(Part):
    """An epsilon of all cells together, against one observer."""

    observer: str
    delta: float
    adjacency: str
    unit: str
    value: float = Field(ge=0)


class SweepSection(Part):
    """The sweep of which the run is a cell, and what all cells had booked when the report was made.

    Whoever chose this run among the cells states these costs, not those of the run.
    """

    id: str
    name: str
    cells: int
    position: int
    tries: Annotated[int | None, WHERE_GIVEN] = None
    """Runs of all cells by then: one that was tried again counts as often as it was tried. Absent
    from earlier reports."""
    values: dict[str, Any]
    """By field, what distinguishes this cell."""
    sweep_epsilon_max: float | None
    sweep_log_ratio_max: float | None
    sweep_leakage: float | None
    epsilon: list[SweepEpsilonSection]
    noises: list[str]
    """`simulation` where the noise of some cell is, which protects nobody."""
    guarantees: list[str]
    """The kinds of the cells' guarantees."""
    conditions: list[str]
    """Why the guarantee of some cell bounds some datasets only."""
    reasons: dict[str, str]


class SpreadSection(Part):
    """A figure over several seeds; `low` and `high` bound its mean over all seeds at 95 %."""

    n: int
    mean: float | None
    standard_deviation: float | None
    low: float | None
    high: float | None


class RepeatsSection(Part):
    """The same spec with other seeds: how far the figures are a matter of chance in training."""

    seeds: list[int]
    """Of the runs that have a report, this one's first."""
    asked: int
    experiment_ids: list[str]
    """Of the same runs."""
    metrics: dict[str, SpreadSection]
    """By figure; those of an attribute as name[attribute]."""
    reasons: dict[str, str]
