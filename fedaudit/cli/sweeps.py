"""The command `sweep`, and those below `sweeps`: many experiments as one."""

from contextlib import closing
from typing import Annotated, Any, assert_never

import typer

from fedaudit.cli.connection import MAX_PAGE, checked_key, connected, first_of
from fedaudit.cli.display.output import (
    cells_bar,
    json_text,
    say,
    show_warnings,
    write_bytes,
    write_json,
    write_line,
)
from fedaudit.cli.display.sweep_table import (
    show_cells,
    show_costs,
    show_planned_cells,
    show_sweep,
    show_table,
    statuses_words,
)
from fedaudit.cli.failures import ExitCode, usage_error
from fedaudit.cli.options import AsJson, IdempotencyKey, Most, Out, SweepTableForm
from fedaudit.cli.specs import read_value
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import waits_for_registration
from fedaudit.spec.sweeps import SweepSpec, expand, parse_cells, parse_sweep
from fedaudit_client.client import Client
from fedaudit_client.errors import ProblemError
from fedaudit_client.pages import sweep_page
from fedaudit_client.result_types import SubmittedSweep, Sweep, SweepTable

app = typer.Typer()
sweeps = typer.Typer(no_args_is_help=True)
app.add_typer(sweeps, name="sweeps")
SweepId = Annotated[str, typer.Argument(metavar="ID", help="The sweep's id.")]
Everything = Annotated[
    bool, typer.Option("--all", help="Every figure, and not only those that are read first.")
]


@sweeps.command("list")
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


@sweeps.command("show")
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


@sweeps.command("watch")
def sweeps_watch(sweep_id: SweepId, *, as_json: AsJson = False) -> None:
    """Follow a sweep until all cells have ended, and print its table."""
    with connected() as client:
        raise typer.Exit(end_of(client, client.sweep(sweep_id), as_json=as_json))


@sweeps.command("table")
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


@sweeps.command("cancel")
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


@sweeps.command("retry")
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


@app.command()
def sweep(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A sweep as YAML or JSON; - is stdin.")
    ],
    *,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Follow it to its end, and print its table.")
    ] = True,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the cells and what they would cost; start nothing."),
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
            raise typer.Exit(_project(client, asked, as_json=as_json))
        submitted = client.submit_sweep(
            asked.model_dump(mode="json"), idempotency_key=idempotency_key
        )
        raise typer.Exit(go_on(client, submitted, wait=wait, as_json=as_json))


def _project(client: Client, asked: SweepSpec, *, as_json: bool) -> ExitCode:
    """Print the cells of a sweep and what they would cost together; nothing is stored."""
    found = client.project_sweep(asked.model_dump(mode="json"))
    cells = [dict(cell.values) for cell in expand(asked)]
    if as_json:
        write_json({**found, "values": cells})
    else:
        write_line(f"{found['cells']} cells")
        show_planned_cells(cells)
        if found["costs"] is not None:
            show_costs(found["costs"], found["facts"])
        show_warnings(found["warnings"])
    if not found["has_room"]:
        say(f"it would be refused: {found['detail']}")
        return ExitCode.FAILED
    return ExitCode.DONE


def _checked(value: Any) -> SweepSpec:
    """Raises InvalidInputError with the faults of the sweep and of every cell that this machine can
    tell, and CommandError for an experiment."""
    if isinstance(value, dict) and "base" not in value and "federation" in value:
        raise usage_error(
            "this is one experiment: submit it with `fedaudit submit`, or put it below `base` and "
            "say in `grid` what varies"
        )
    sweep = parse_sweep(value)
    if not any(waits_for_registration(cell.document) for cell in expand(sweep)):
        parse_cells(sweep, parse_spec)
    return sweep


def go_on(client: Client, sweep: SubmittedSweep, *, wait: bool, as_json: bool) -> ExitCode:
    """Print a sweep that was submitted just now; with `wait`, its table once all cells ended."""
    show_warnings(sweep["warnings"])
    if wait:
        say(f"submitted as {sweep['id']}, {sweep['progress']['cells']} cells")
        return end_of(client, sweep, as_json=as_json)
    if as_json:
        write_json(sweep)
    else:
        show_sweep(sweep)
        say(f"its page: {sweep_page(client.url, sweep['id'])}")
    return ExitCode.DONE


def end_of(client: Client, sweep: Sweep, *, as_json: bool) -> ExitCode:
    """Follow a sweep to its end, and print its table."""
    ended = _followed(client, sweep)
    table = _table(client, ended["id"])
    if as_json:
        write_json({**ended, "table": table})
    else:
        if table is not None:
            show_table(table)
        show_costs(ended["costs"], ended["facts"])
        write_line(f"page: {sweep_page(client.url, ended['id'])}")
    return _outcome(ended)


def _table(client: Client, sweep_id: str) -> SweepTable | None:
    try:
        return client.sweep_table(sweep_id)
    except ProblemError as error:
        if error.slug != "forbidden":
            raise
    # A key that only runs experiments is good enough to have run these.
    say("the key may not read reports, so the table is not shown here")
    return None


def _outcome(sweep: Sweep) -> ExitCode:
    outcomes = [cell["gate_outcome"] for cell in sweep["cells"] if cell["gate_outcome"]]
    if outcomes:
        passed = sum(outcome == "pass" for outcome in outcomes)
        say(f"{passed} of {len(outcomes)} cells with gates passed them")
    progress = sweep["progress"]
    if progress["statuses"].get("succeeded", 0) == progress["cells"]:
        return ExitCode.DONE
    say(f"fedaudit: of {progress['cells']} cells {statuses_words(sweep)}")
    reasons = {cell["status_reason"] for cell in sweep["cells"] if cell["status_reason"]}
    if reasons:
        say(f"reasons: {', '.join(sorted(reasons))}")
    say(f"to try the others again: fedaudit sweeps retry {sweep['id']}")
    return ExitCode.FAILED


def _followed(client: Client, sweep: Sweep) -> Sweep:
    """The sweep once all cells have ended; until then a progress bar, at a terminal."""
    id_, progress, ended = sweep["id"], sweep["progress"], sweep
    try:
        with (
            cells_bar(
                sweep["name"], cells=progress["cells"], rounds=progress["rounds_total"]
            ) as advance,
            closing(client.watch_sweep(id_)) as states,
        ):
            for ended in states:
                advance(ended["progress"]["ended"], ended["progress"]["rounds"])
    except KeyboardInterrupt:
        say(f"\nit goes on; to follow it again: fedaudit sweeps watch {id_}")
        say(f"to end it: fedaudit sweeps cancel {id_}")
        raise
    return ended
