"""Which experiment of a row is the best, where that can be said.

Somebody chooses a run by such a mark, so it is rare. Only runs that could be chosen compete: one
without protection, or whose model is degenerate, is never the best, whatever its figure. A gap is
the best only where its interval lies apart from every other; a figure without an interval is not
known well enough. A cost is exact, and competes where its guarantee is in force. Nothing is the
best where the figures do not mean the same: on other data, for other outcomes, within another
radius.
"""

from collections.abc import Sequence
from typing import assert_never

from fedaudit.reports.comparison.parts import Caution, Cell, FigureRow
from fedaudit.reports.comparison.warnings import warnings
from fedaudit.reports.report import Report
from fedaudit.spec.metrics import is_ratio

_TOTALS = ("leakage_max", "log_ratio_max", "epsilon_max")
_OF_COSTS: frozenset[Caution] = frozenset({"other-radius", "other-model", "early-end"})
_OF_GAPS: frozenset[Caution] = frozenset({"other-data", "other-outcome", "other-loss"})


def with_best(rows: Sequence[FigureRow], reports: Sequence[Report]) -> list[FigureRow]:
    """The rows, with the best cell of each marked where there is one beyond doubt."""
    return [_marked(row, _best(row, reports)) for row in rows]


def _marked(row: FigureRow, best: int | None) -> FigureRow:
    if best is None:
        return row
    cells = list(row.cells)
    cells[best] = cells[best].model_copy(update={"best": True})
    return row.model_copy(update={"cells": cells})


def _best(row: FigureRow, reports: Sequence[Report]) -> int | None:
    competing = [
        place
        for place, (cell, report) in enumerate(zip(row.cells, reports, strict=True))
        if cell.value is not None and _may_win(row, report)
    ]
    if len(competing) < 2 or _means_something_else(row, [reports[one] for one in competing]):
        return None
    ranges = {place: _range(row, row.cells[place]) for place in competing}
    known = {place: found for place, found in ranges.items() if found is not None}
    if len(known) < len(ranges):
        return None
    best = min(known, key=lambda place: known[place][1])
    others = (low for place, (low, _) in known.items() if place != best)
    return best if known[best][1] < min(others) else None


def _may_win(row: FigureRow, report: Report) -> bool:
    if report.guarantee.kind == "none":
        return False
    if row.section == "privacy":
        return report.guarantee.in_force is True
    # Reports of earlier versions do not say whether the model decides anything.
    return report.utility.degenerate is not True


def _means_something_else(row: FigureRow, competing: Sequence[Report]) -> bool:
    refused = _OF_COSTS if row.section == "privacy" else _OF_GAPS
    return any(one.code in refused for one in warnings(competing))


def _range(row: FigureRow, cell: Cell) -> tuple[float, float] | None:
    """From the best to the worst that the figure may be, less being better; None if not known."""
    match row.section:
        case "privacy":
            exact = cell.value if row.figure in _TOTALS else None
            return None if exact is None else (exact, exact)
        case "utility":
            return None  # losses and accuracies have no interval
        case "fairness":
            if cell.interval is None:
                return None
            low, high = cell.interval.low, cell.interval.high
            return (-high, -low) if is_ratio(row.figure) else (low, high)
        case _:
            assert_never(row.section)
