"""A sweep for people: a line, its cells, its table, and what it costs together."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from rich.box import HORIZONTALS
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedaudit.cli.display.output import print_records, standard_output, write_line
from fedaudit.sweeps import sweep_costs, sweep_facts, sweep_table
from fedaudit.sweeps.cost_lines import cost_cautions, cost_lines
from fedaudit.sweeps.leading_figures import leading_figures, measured_figures
from fedaudit.sweeps.table_lines import figure_words
from fedaudit_client.sweep_types import ListedSweep, Sweep, SweepCosts, SweepFacts, SweepTable

_CELLS = ("cell", "experiment", "status", "rounds", "gates")


def show_sweep(sweep: ListedSweep) -> None:
    """One line."""
    write_line(f"{sweep['id']}  {sweep['status']}  {statuses_words(sweep)}  {sweep['name']}")


def statuses_words(sweep: ListedSweep) -> str:
    """`7 succeeded, 1 failed`."""
    statuses = sweep["progress"]["statuses"].items()
    return ", ".join(f"{count} {status}" for status, count in statuses if count)


def show_cells(sweep: Sweep) -> None:
    """Every cell with its experiment, on a line."""
    table = _table([*_CELLS, *_paths(sweep["cells"])])
    for cell in sweep["cells"]:
        progress, reason = cell["progress"], cell["status_reason"]
        values = [_value(cell["values"], path) for path in _paths(sweep["cells"])]
        table.add_row(
            str(cell["position"] + 1),
            cell["experiment_id"],
            cell["status"] + (f": {reason}" if reason else ""),
            f"{progress['round']} of {progress['rounds']}",
            (cell["gate_outcome"] or "").replace("_", " "),
            *map(escape, values),
        )
    print_records(table)


def show_costs(costs: SweepCosts, facts: SweepFacts) -> None:
    """What all cells cost together, and what that is worth."""
    console = standard_output()
    console.print("\n[bold]What the sweep costs together[/bold]")
    for line in cost_lines(cast("sweep_costs.SweepCosts", costs)):
        told = f"at most {line.value}, {line.remark}" if line.value else f"none: {line.remark}"
        console.print(escape(f"  {line.name}: {told}"))
    for caution in cost_cautions(cast("sweep_facts.SweepFacts", facts)):
        console.print(f"  [bold]Mind.[/bold] {escape(caution)}")


def show_table(table: SweepTable, *, everything: bool = False) -> None:
    """Rows by combination, in as many tables as the terminal needs; then what is to be known."""
    found = cast("sweep_table.SweepTable", table)
    measured = measured_figures(found)
    shown = measured if everything else leading_figures(found, measured)
    console = standard_output()
    for names in _parts(found, shown, console):
        print_records(_rows(found, names))
    if any(row["figures"][name]["best"] for row in found["rows"] for name in shown):
        console.print("* the best beyond the intervals of all other rows, which count seeds alone")
    if found["front_figures"]:
        figures = escape(", ".join(found["front_figures"]))
        console.print(f"front: no other row is better in all of {figures}")
    for note in found["notes"]:
        console.print(f"[bold]Mind.[/bold] {escape(note)}")
    if left_out := len(measured) - len(shown):
        console.print(f"{left_out} more figures: fedaudit sweeps table ID --all")


def _parts(
    found: sweep_table.SweepTable, names: Sequence[str], console: Console
) -> Iterator[list[str]]:
    """The figures of each table: as many as fit beside the values; all where not even one does."""
    rest = list(names)
    while rest:
        fits = 0
        while fits < len(rest) and _is_within(_rows(found, rest[: fits + 1]), console):
            fits += 1
        taken = fits or len(rest)
        yield rest[:taken]
        rest = rest[taken:]
    if not names:
        yield []


def _is_within(table: Table, console: Console) -> bool:
    wide = console.options.update(width=1000)
    return console.measure(table, options=wide).maximum <= console.width


def _rows(found: sweep_table.SweepTable, names: Sequence[str]) -> Table:
    paths = _paths(found["rows"])
    table = _table([*paths, "seeds", *names, "front"])
    for row in found["rows"]:
        seeds = f"{row['succeeded']} of {row['seeds']}"
        if row["degenerate"]:
            seeds += f"\n{row['degenerate']} degenerate"
        values = [escape(_value(row["values"], path)) for path in paths]
        figures = [_figure(row, name) for name in names]
        table.add_row(*values, seeds, *figures, "yes" if row["front"] else "")
    return table


def _figure(row: sweep_table.SweepRow, name: str) -> str:
    words = figure_words(row, name).replace(" (", "\n(")
    return f"[bold]{words} *[/bold]" if row["figures"][name]["best"] else words


def _table(heads: Sequence[str]) -> Table:
    table = Table(box=HORIZONTALS, padding=(0, 1, 0, 0), pad_edge=False)
    for head in heads:
        # A field of a spec or a figure of an attribute may break where its name has a joint.
        table.add_column(escape(head.replace(".", ".\n").replace("[", "\n[")))
    return table


def _paths(rows: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(path for row in rows for path in row["values"]))


def _value(values: Mapping[str, Any], path: str) -> str:
    value = values.get(path)
    return value if isinstance(value, str) else json.dumps(value)
