"""What goes into the repositories of reports and comes out of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from models.values import Bound


@dataclass(frozen=True, kw_only=True)
class ReportFilters:
    """Which reports a list shows; every filter that is set must hold.

    A bound on a fairness figure is one on `attribute`, or on every attribute of the report where
    none is named; one on an epsilon is on what `observer` sees, or on the largest of all. A report
    whose figure is null is outside every bound.
    """

    name: str | None = None
    search: str | None = None
    """A part of the name, whatever the case."""
    person: str | None = None
    """Who submitted it, by name."""
    tag: str | None = None
    federation_id: str | None = None
    mechanism: str | None = None
    gate_outcome: str | None = None
    guarantee: str | None = None
    label: str | None = None
    sign_off: str | None = None
    """The newest sign-off's decision, or `none` for reports that have none."""
    in_force: bool | None = None
    unit: str | None = None
    attribute: str | None = None
    observer: str | None = None
    delta: float | None = None
    adjacency: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    bounds: Sequence[Bound] = ()


@dataclass(frozen=True, kw_only=True)
class IndexedFigure:
    """A figure by which a report is found; `attribute` and `observer` are empty for neither."""

    figure: str
    attribute: str = ""
    observer: str = ""
    delta: float | None = None
    adjacency: str | None = None
    value: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class ReportIndex:
    """What a stored report is found by, and what a list shows of it."""

    guarantee_kind: str
    in_force: bool
    unit: str
    summary: Mapping[str, Any]
    figures: Sequence[IndexedFigure]


@dataclass(frozen=True, kw_only=True)
class ListedReport:
    """A report in a list, without its document; `summary` is None where that cannot be read."""

    experiment_id: str
    name: str
    status: str
    federation_id: str
    gate_outcome: str | None
    created_at: datetime
    finished_at: datetime | None
    created_by: Mapping[str, Any] | None
    report_hash: str
    summary: Mapping[str, Any] | None
    sorted_by: float | None = None
    """The figure that the list is sorted by."""
