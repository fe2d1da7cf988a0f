"""The command `sweep`, and the commands under `sweeps`: many experiments as one."""

import textwrap
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import groupby
from typing import Annotated, Any, cast

from rich.markup import escape
from typer import Argument, Exit, Option, Typer

from fedaudit.cli import output
from fedaudit.cli.options import AsJson, IdempotencyKey, read_value
from fedaudit.cli.remote import checked_key, connected
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import waits_for_registration
from fedaudit.spec.sweeps import SweepSpec, expand, parse_cells, parse_sweep
from fedaudit.sweeps import sweep_costs, sweep_table
from fedaudit.sweeps.sweep_costs import cost_cautions, cost_lines
from fedaudit.sweeps.sweep_table import (
    figure_words,
    leading_figures,
    measured_figures,
    value_words,
    varied_fields,
)
from fedaudit_client.client import Client
from fedaudit_client.errors import ForbiddenError
from fedaudit_client.wire import Json

_HEAD_WIDTH, _MOST_PLANNED = 16, 20


Cells = Sequence[str]


def statuses_words(sweep: Json) -> str:
    """`7 succeeded, 1 failed`."""
    statuses = sweep["progress"]["statuses"].items()
    return ", ".join(f"{count} {status}" for status, count in statuses if count)


def show_planned_cells(cells: Sequence[Mapping[str, Any]]) -> None:
    """The values of each cell of a sweep that is not submitted; of many, those of each field."""
    if len(cells) > _MOST_PLANNED:
        for field, taken in varied_fields(cells).items():
            _item(f"{field}: {', '.join(dict.fromkeys(map(value_words, taken)))}")
        return
    numbers = [str(number) for number in range(1, len(cells) + 1)]
    values = _values(cells) or {"values": ["the base as it is"] * len(cells)}
    _print({"cell": numbers, **values})


def show_costs(costs: Json, facts: Json) -> None:
    """What all cells cost together, and what that is worth."""
    output.standard_output().print("\n[bold]What the sweep costs together[/bold]")
    stated = cast("sweep_costs.SweepCosts", costs)
    lines = cost_lines(stated)
    # Unbounded costs mostly share one reason, under every figure.
    for (value, remark), same in groupby(lines, key=lambda line: (line.value, line.note)):
        names = ", ".join(line.label for line in same)
        _item(f"{names}: at most {value}, {remark}" if value else f"{names}: none: {remark}")
    for caution in cost_cautions(cast("sweep_costs.SweepFacts", facts), stated):
        _item(f"Mind: {caution}")


def show_table(table: Json) -> None:
    """Rows by combination, in as many tables as the terminal needs; then remarks."""
    found = cast("sweep_table.SweepTable", table)
    measured, rows = measured_figures(found), found["rows"]
    shown = leading_figures(found, measured)
    columns: dict[str, Cells] = {
        "row": [str(number) for number in range(1, len(rows) + 1)],
        **_values([row["values"] for row in rows]),
        "seeds": [
            f"{row['succeeded']} of {row['seeds']}"
            + (f"\n{row['degenerate']} degenerate" if row["degenerate"] else "")
            for row in rows
        ],
    }
    if any(row["front"] for row in rows):
        columns["front"] = ["yes" if row["front"] else "" for row in rows]
    _print(columns | {name: [_figure(row, name) for row in rows] for name in shown})
    if any(row["figures"][name]["best"] for row in rows for name in shown):
        _item("*: the best beyond the intervals of all other rows, which count seeds alone")
    if found["front_figures"]:
        _item(f"front: no other row is better in all of {', '.join(found['front_figures'])}")
    for note in found["notes"]:
        _item(f"Mind: {note}")
    if left_out := len(measured) - len(shown):
        _item(f"{left_out} more figures: fedaudit api GET sweeps/ID/table.csv")


def _values(rows: Sequence[Mapping[str, Any]]) -> dict[str, Cells]:
    return {
        path: [escape(value_words(value)) for value in values]
        for path, values in varied_fields(rows).items()
    }


def _figure(row: sweep_table.SweepRow, name: str) -> str:
    words = figure_words(row, name).replace(" (", "\n(")
    return f"[bold]{words} *[/bold]" if row["figures"][name]["best"] else words


def _item(text: str) -> None:
    """A sentence, its further lines set in; whole in a file or pipe."""
    console = output.standard_output()
    width = 10_000 if console.soft_wrap else console.width
    lines = textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")
    console.print("\n".join(lines), markup=False)


def _print(columns: Mapping[str, Cells]) -> None:
    output.print_columns({_broken(head): cells for head, cells in columns.items()})


def _broken(head: str) -> str:
    """A long name on several lines, broken after its joints: `equalized_odds_`, `difference`,
    `[group]`."""
    lines = [""]
    for piece in head.replace(".", ".\n").replace("_", "_\n").replace("[", "\n[").split("\n"):
        if lines[-1] and len(lines[-1]) + len(piece) > _HEAD_WIDTH:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


app = Typer()
sweeps = Typer(no_args_is_help=True)
app.add_typer(sweeps, name="sweeps")
SweepId = Annotated[str, Argument(metavar="ID", help="The sweep's id.")]


@sweeps.command("table")
def sweeps_table(sweep_id: SweepId) -> None:
    """Print every combination with its figures over seeds, as far as cells have ended."""
    with connected() as client:
        show_table(client.sweep_table(sweep_id))


@sweeps.command("watch")
def sweeps_watch(sweep_id: SweepId, *, as_json: AsJson = False) -> None:
    """Follow a sweep until all cells have ended, and print its table."""
    with connected() as client:
        raise Exit(end_of(client, client.sweep(sweep_id), as_json=as_json))


@app.command()
def sweep(
    file: Annotated[str, Argument(metavar="FILE", help="A sweep as YAML or JSON; - is stdin.")],
    *,
    wait: Annotated[
        bool, Option("--wait/--no-wait", help="Follow it to its end, and print its table.")
    ] = True,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print the cells and what they would cost; start nothing.")
    ] = False,
    as_json: AsJson = False,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Hand an experiment for every combination of values to the service at FEDAUDIT_URL.

    Exits 0 where every cell succeeded, 1 where one did not. The outcomes of their gates are shown
    and decide nothing: a sweep looks for cells that pass.
    """
    checked_key(idempotency_key)
    asked = _checked(read_value(file))
    with connected() as client:
        if dry_run:
            raise Exit(_project(client, asked, as_json=as_json))
        submitted = client.submit_sweep(
            asked.model_dump(mode="json"), idempotency_key=idempotency_key
        )
        output.show_warnings(submitted["warnings"])
        if wait:
            output.say(f"submitted as {submitted['id']}, {submitted['progress']['cells']} cells")
            raise Exit(end_of(client, submitted, as_json=as_json))
        if as_json:
            output.write_json(submitted)
        else:
            id_, words = submitted["id"], statuses_words(submitted)
            output.write_line(f"{id_}  {submitted['status']}  {words}  {submitted['name']}")
            output.say(f"its page: {client.page('sweeps/{}', id_)}")


def _project(client: Client, asked: SweepSpec, *, as_json: bool) -> output.ExitCode:
    """Print the cells of a sweep and what they would cost together; nothing is stored."""
    found = client.project_sweep(asked.model_dump(mode="json"))
    cells = [dict(cell.values) for cell in expand(asked)]
    if as_json:
        output.write_json({**found, "values": cells})
    else:
        output.write_line(f"{found['cells']} cells")
        if found["costs"] is not None:
            show_costs(found["costs"], found["facts"])
        output.show_warnings(found["warnings"])
        show_planned_cells(cells)
    if not found["has_room"]:
        output.say(f"it would be refused: {found['detail']}")
        return output.ExitCode.FAILED
    return output.ExitCode.DONE


def _checked(value: Any) -> SweepSpec:
    """Raises InvalidInputError with the faults of the sweep and of every cell that this machine can
    find."""
    sweep = parse_sweep(value)
    if not any(waits_for_registration(cell.document) for cell in expand(sweep)):
        parse_cells(sweep, parse_spec)
    return sweep


def end_of(client: Client, sweep: Json, *, as_json: bool) -> output.ExitCode:
    """Follow a sweep to its end, and print its table."""
    ended = _followed(client, sweep)
    table = None
    try:
        table = client.sweep_table(ended["id"])
    except ForbiddenError:
        # A key that only runs experiments is enough to have run these.
        output.say("the key may not read reports, so the table is not shown here")
    if as_json:
        output.write_json({**ended, "table": table})
    else:
        if table is not None:
            show_table(table)
        show_costs(ended["costs"], ended["facts"])
        output.write_line(f"page: {client.page('sweeps/{}', ended['id'])}")
    return _outcome(ended)


def _outcome(sweep: Json) -> output.ExitCode:
    outcomes = [cell["gate_outcome"] for cell in sweep["cells"] if cell["gate_outcome"]]
    if outcomes:
        passed = sum(outcome == "pass" for outcome in outcomes)
        output.say(f"{passed} of {len(outcomes)} cells with gates passed them")
    progress = sweep["progress"]
    if progress["statuses"].get("succeeded", 0) == progress["cells"]:
        return output.ExitCode.DONE
    output.say(f"fedaudit: of {progress['cells']} cells {statuses_words(sweep)}")
    reasons = {cell["status_reason"] for cell in sweep["cells"] if cell["status_reason"]}
    if reasons:
        output.say(f"reasons: {', '.join(sorted(reasons))}")
    output.say(f"to try the others again: fedaudit api POST sweeps/{sweep['id']}/retry")
    return output.ExitCode.FAILED


def _followed(client: Client, sweep: Json) -> Json:
    """The sweep once all cells have ended; until then a progress bar, at a terminal."""
    id_, progress, ended = sweep["id"], sweep["progress"], sweep
    try:
        with (
            output.progress_bars(
                sweep["name"],
                {"cells ended": progress["cells"], "rounds": progress["rounds_total"]},
            ) as advance,
            closing(client.watch_sweep(id_)) as states,
        ):
            for ended in states:
                advance(ended["progress"]["ended"], ended["progress"]["rounds"])
    except KeyboardInterrupt:
        output.say(f"\nit goes on; to follow it again: fedaudit sweeps watch {id_}")
        output.say(f"to end it: fedaudit api POST sweeps/{id_}/cancel")
        raise
    return ended
