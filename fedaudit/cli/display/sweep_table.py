"""A sweep for people: a line, its cells, its table, and what it costs together."""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, cast

from rich.box import HORIZONTALS
from rich.markup import escape
from rich.table import Table

from fedaudit.cli.display.output import print_records, standard_output, write_line
from fedaudit.sweeps import sweep_costs, sweep_table
from fedaudit.sweeps.sweep_costs import cost_cautions, cost_lines
from fedaudit.sweeps.sweep_table import (
    figure_words,
    leading_figures,
    measured_figures,
    short_names,
    value_words,
    varied_fields,
)
from fedaudit_client.result_types import ListedSweep, Sweep, SweepCosts, SweepFacts, SweepTable

_HEAD_WIDTH = 16


class Column(NamedTuple):
    """A head, which is plain text, and a cell for each row, which may have markup of rich."""

    head: str
    cells: Sequence[str]


def show_sweep(sweep: ListedSweep) -> None:
    """One line."""
    write_line(f"{sweep['id']}  {sweep['status']}  {statuses_words(sweep)}  {sweep['name']}")


def statuses_words(sweep: ListedSweep) -> str:
    """`7 succeeded, 1 failed`."""
    statuses = sweep["progress"]["statuses"].items()
    return ", ".join(f"{count} {status}" for status, count in statuses if count)


def show_cells(sweep: Sweep) -> None:
    """Every cell with its values and its experiment."""
    cells = sweep["cells"]
    told = [
        Column("experiment", [cell["experiment_id"] for cell in cells]),
        Column("status", [_status(cell["status"], cell["status_reason"]) for cell in cells]),
        Column(
            "rounds",
            [f"{cell['progress']['round']} of {cell['progress']['rounds']}" for cell in cells],
        ),
    ]
    if any(cell["gate_outcome"] for cell in cells):
        outcomes = [(cell["gate_outcome"] or "").replace("_", "\n") for cell in cells]
        told.append(Column("gates", outcomes))
    numbers = Column("cell", [str(cell["position"] + 1) for cell in cells])
    _print([numbers, *_values([cell["values"] for cell in cells]), *told])


def show_planned_cells(cells: Sequence[Mapping[str, Any]]) -> None:
    """The values of each cell of a sweep that is not submitted."""
    numbers = Column("cell", [str(number) for number in range(1, len(cells) + 1)])
    _print([numbers, *(_values(cells) or [Column("values", ["the base as it is"] * len(cells))])])


def show_costs(costs: SweepCosts, facts: SweepFacts) -> None:
    """What all cells cost together, and what that is worth."""
    standard_output().print("\n[bold]What the sweep costs together[/bold]")
    lines = cost_lines(cast("sweep_costs.SweepCosts", costs))
    # What nothing bounds mostly has one reason, whatever it is counted as.
    for (value, remark), same in groupby(lines, key=lambda line: (line.value, line.remark)):
        names = ", ".join(line.name for line in same)
        _item(f"{names}: at most {value}, {remark}" if value else f"{names}: none: {remark}")
    for caution in cost_cautions(cast("sweep_costs.SweepFacts", facts)):
        _mind(caution)


def show_table(table: SweepTable, *, everything: bool = False) -> None:
    """Rows by combination, in as many tables as the terminal needs; then what is to be known."""
    found = cast("sweep_table.SweepTable", table)
    measured = measured_figures(found)
    shown = measured if everything else leading_figures(found, measured)
    rows = found["rows"]
    seeds = Column("seeds", [_seeds(row) for row in rows])
    figures = [Column(name, [_figure(row, name) for row in rows]) for name in shown]
    if any(row["front"] for row in rows):
        figures.insert(0, Column("front", ["yes" if row["front"] else "" for row in rows]))
    numbers = Column("row", [str(number) for number in range(1, len(rows) + 1)])
    values = _values([row["values"] for row in rows], taken=found["figures"])
    _print([numbers, *values, seeds, *figures])
    if any(row["figures"][name]["best"] for row in rows for name in shown):
        _item("*: the best beyond the intervals of all other rows, which count seeds alone")
    if found["front_figures"]:
        _item(f"front: no other row is better in all of {', '.join(found['front_figures'])}")
    for note in found["notes"]:
        _mind(note)
    if left_out := len(measured) - len(shown):
        _item(f"{left_out} more figures: fedaudit sweeps table ID --all")


def _values(rows: Sequence[Mapping[str, Any]], *, taken: Collection[str] = ()) -> list[Column]:
    fields = varied_fields(rows)
    names = short_names(list(fields), taken=taken)
    return [
        Column(name, [escape(value_words(value)) for value in values])
        for name, values in zip(names, fields.values(), strict=True)
    ]


def _status(status: str, reason: str | None) -> str:
    return f"{status}:\n{reason}" if reason else status


def _seeds(row: sweep_table.SweepRow) -> str:
    told = f"{row['succeeded']} of {row['seeds']}"
    return f"{told}\n{row['degenerate']} degenerate" if row["degenerate"] else told


def _figure(row: sweep_table.SweepRow, name: str) -> str:
    words = figure_words(row, name).replace(" (", "\n(")
    return f"[bold]{words} *[/bold]" if row["figures"][name]["best"] else words


def _mind(caution: str) -> None:
    _item(f"Mind: {caution}")


def _item(text: str) -> None:
    """A sentence, its further lines set in; whole in a file or pipe."""
    console = standard_output()
    width = 10_000 if console.soft_wrap else console.width
    lines = textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")
    console.print("\n".join(lines), markup=False)


def _print(columns: Sequence[Column]) -> None:
    table = Table(box=HORIZONTALS, padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(escape(_broken(column.head)))
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*cells)
    print_records(table)


def _broken(head: str) -> str:
    """A long name on several lines, broken after its joints: `equalized_odds_`, `difference`,
    `[group]`."""
    lines = [""]
    for piece in head.replace(".", ".\n").replace("_", "_\n").replace("[", "\n[").split("\n"):
        if lines[-1] and len(lines[-1]) + len(piece) > _HEAD_WIDTH:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)
