"""The commands of the group `sweeps` that look at sweeps, and end them."""

from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import assert_never

from fedaudit.cli.display.output import json_text, say, write_bytes, write_json, write_line
from fedaudit.cli.failures import usage_error
from fedaudit.cli.forms import SweepTableForm
from fedaudit.cli.queries import MAX_PAGE
from fedaudit.cli.remote import connected
from fedaudit.cli.sweeps.sweep_display import show_cells, show_costs, show_sweep, show_table
from fedaudit_client.pages import sweep_page


def list_sweeps_command(*, most: int, as_json: bool) -> None:
    """Print the newest sweeps, at most so many."""
    with connected() as client, closing(client.sweeps(limit=min(most, MAX_PAGE))) as asked:
        found = list(islice(asked, most + 1))
    shown = found[:most]
    if as_json:
        write_json(shown)
    elif not shown:
        say("there is no sweep")
    else:
        for one in shown:
            show_sweep(one)
    if len(found) > most:
        say(f"there are more sweeps than the {most} shown; raise --most")


def show_sweep_command(sweep_id: str, *, as_json: bool) -> None:
    """Print one sweep and its cells."""
    with connected() as client:
        sweep, page = client.sweep(sweep_id), sweep_page(client.url, sweep_id)
    if as_json:
        write_json(sweep)
        return
    show_sweep(sweep)
    show_cells(sweep)
    show_costs(sweep["costs"], sweep["facts"])
    write_line(f"page: {page}")


def table_command(
    sweep_id: str, *, form: SweepTableForm, everything: bool, out: Path | None
) -> None:
    """Print the table of a sweep, or save it."""
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


def cancel_sweep_command(sweep_id: str, *, as_json: bool) -> None:
    """Ask for the end of every cell."""
    with connected() as client:
        sweep = client.cancel_sweep(sweep_id)
    if as_json:
        write_json(sweep)
        return
    if sweep["progress"]["ended"] == sweep["progress"]["cells"]:
        say("all cells have ended; what they have spent stays spent")
    else:
        say(f"cells that run end after their round; to wait: fedaudit sweeps watch {sweep_id}")
