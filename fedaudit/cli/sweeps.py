"""The commands below `sweeps`."""

from contextlib import closing
from typing import Annotated, assert_never

import typer

from fedaudit.cli.connection import MAX_PAGE, connected, first_of
from fedaudit.cli.display.output import json_text, say, write_bytes, write_json, write_line
from fedaudit.cli.display.sweep_table import show_cells, show_costs, show_sweep, show_table
from fedaudit.cli.failures import usage_error
from fedaudit.cli.forms import SweepTableForm
from fedaudit.cli.options import AsJson, Most, Out
from fedaudit.cli.submitted_sweep import end_of, go_on
from fedaudit_client.pages import sweep_page

app = typer.Typer(no_args_is_help=True, help="Many experiments as one: see docs/sweeps.md.")
SweepId = Annotated[str, typer.Argument(metavar="ID", help="The sweep's id.")]
Everything = Annotated[
    bool, typer.Option("--all", help="Every figure, and not only those that are read first.")
]


@app.command("list")
def sweeps_list(*, most: Most = 50, as_json: AsJson = False) -> None:
    """List sweeps, newest first."""
    with connected() as client, closing(client.sweeps(limit=min(most, MAX_PAGE))) as asked:
        shown = first_of(asked, most, what="sweeps")
    if as_json:
        write_json(shown)
    elif not shown:
        say("there is no sweep")
    for one in () if as_json else shown:
        show_sweep(one)


@app.command("show")
def sweeps_show(sweep_id: SweepId, *, as_json: AsJson = False) -> None:
    """Show how a sweep and its cells stand, and what it costs together."""
    with connected() as client:
        sweep, page = client.sweep(sweep_id), sweep_page(client.url, sweep_id)
    if as_json:
        write_json(sweep)
        return
    show_sweep(sweep)
    show_cells(sweep)
    show_costs(sweep["costs"], sweep["facts"])
    write_line(f"page: {page}")


@app.command("watch")
def sweeps_watch(sweep_id: SweepId, *, as_json: AsJson = False) -> None:
    """Follow a sweep until all cells have ended, and print its table."""
    with connected() as client:
        raise typer.Exit(end_of(client, client.sweep(sweep_id), as_json=as_json))


@app.command("table")
def sweeps_table(
    sweep_id: SweepId,
    *,
    form: Annotated[
        SweepTableForm, typer.Option("--format", help="text is for reading here.")
    ] = "text",
    everything: Everything = False,
    out: Out = None,
) -> None:
    """Print every combination with its figures over seeds, as far as cells have ended."""
    if form == "text" and out is not None:
        raise usage_error("--out: goes with --format json, csv and markdown; text is for here")
    if form != "text" and everything:
        raise usage_error("--all: goes with --format text; the other forms have every figure")
    with connected() as client:
        match form:
            case "text":
                show_table(client.sweep_table(sweep_id), everything=everything)
            case "json":
                write_bytes(f"{json_text(client.sweep_table(sweep_id))}\n".encode(), out)
            case "csv" | "markdown":
                write_bytes(client.sweep_table_text(sweep_id, form).encode(), out)
            case _:
                assert_never(form)


@app.command("cancel")
def sweeps_cancel(sweep_id: SweepId, *, as_json: AsJson = False) -> None:
    """End every cell that is queued or runs; what was spent stays spent."""
    with connected() as client:
        sweep = client.cancel_sweep(sweep_id)
    if as_json:
        write_json(sweep)
        return
    if sweep["progress"]["ended"] == sweep["progress"]["cells"]:
        say("all cells have ended; what they have spent stays spent")
    else:
        say(f"cells that run end after their round; to wait: fedaudit sweeps watch {sweep_id}")


@app.command("retry")
def sweeps_retry(
    sweep_id: SweepId,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Queue every cell that failed or was cancelled again; what it spent stays spent."""
    with connected() as client:
        submitted = client.retry_sweep(sweep_id)
        raise typer.Exit(go_on(client, submitted, wait=wait, as_json=as_json))
