"""One figure of a sweep's table as a drawing: each row's mean, with its interval over seeds."""

from collections.abc import Mapping
from typing import Any

from fedaudit.reports.charts.drawing import Chart, FigureTable, Row, range_chart
from fedaudit.sweeps.seed_spread import Spread
from fedaudit.sweeps.sweep_table import SweepRow, SweepTable, direction
from fedaudit.sweeps.table_lines import figure_words
from fedaudit.sweeps.varied_fields import value_words, varied_fields

_MOST = 40
"""Rows that a drawing has place for."""


def spread_chart(found: SweepTable, name: str) -> Chart | None:
    """The drawing of a figure of the table; None where no row has it.

    Of many rows those are drawn whose means are best, or the first where no end is better.
    """
    numbered = list(enumerate(found["rows"], start=1))
    measured = [one for one in numbered if one[1]["figures"][name]["mean"] is not None]
    if not measured:
        return None
    drawn = _best_of(measured, name)
    paths = list(varied_fields([row["values"] for row in found["rows"]]))
    return Chart(
        name="chart-spread",
        title=name,
        description=f"Range chart of {name}: a row for each of {len(drawn)} combinations, with the "
        "mean over seeds and its interval. The figures are in the table below.",
        caption=_caption(paths, drawn=len(drawn), rows=len(numbered)),
        drawing=range_chart(
            [_drawn(number, row, name) for number, row in drawn],
            kinds=("mean over seeds",),
            unit=name,
            whole=None,
        ),
        table=FigureTable(
            head=("Row", "Mean (interval over seeds)", "Seeds"),
            rows=[
                (
                    row_label(number, row["values"]),
                    figure_words(row, name),
                    str(row["figures"][name]["n"]),
                )
                for number, row in numbered
            ],
        ),
    )


def row_label(number: int, values: Mapping[str, Any]) -> str:
    """`2: 1, k-means`: its number in the table, and its values in the order of the columns."""
    said = ", ".join(value_words(one) for [one] in varied_fields([values]).values())
    return f"{number}: {said}" if said else str(number)


def _drawn(number: int, row: SweepRow, name: str) -> Row:
    figure: Spread = row["figures"][name]
    low, high = figure["low"], figure["high"]
    box = None if low is None or high is None else (low, high)
    return Row(row_label(number, row["values"]), (figure["mean"],), box=box, span=box)


def _best_of(measured: list[tuple[int, SweepRow]], name: str) -> list[tuple[int, SweepRow]]:
    if len(measured) <= _MOST:
        return measured
    better = direction(name)
    if better is not None:
        sign = -1.0 if better == "higher" else 1.0
        measured = sorted(measured, key=lambda one: sign * (one[1]["figures"][name]["mean"] or 0.0))
    return sorted(measured[:_MOST], key=lambda one: one[0])


def _caption(paths: list[str], *, drawn: int, rows: int) -> str:
    said = "The thick bar is the interval of the mean over seeds, by Student's t at 95 %."
    if paths:
        said += f" Rows are named by their number in the table, then {', '.join(paths)}."
    if drawn < rows:
        said += f" {drawn} of {rows} rows are drawn; the table lists all."
    return said
