"""The command `sweep`, the group `sweeps`, and their options."""

from typing import Annotated

import typer

from fedaudit.cli.forms import SweepTableForm
from fedaudit.cli.options import AsJson, Most, Out

sweep_app = typer.Typer()
sweeps = typer.Typer(no_args_is_help=True, help="Many experiments as one: see docs/sweeps.md.")

SweepId = Annotated[str, typer.Argument(metavar="ID", help="The sweep's id.")]
Everything = Annotated[
    bool, typer.Option("--all", help="Every figure, and not only those that are read first.")
]


@sweep_app.command()
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
    idempotency_key: Annotated[
        str | None, typer.Option(help="Submitting again with the same key starts nothing new.")
    ] = None,
) -> None:
    """Hand an experiment for every combination of values to the service at FEDAUDIT_URL.

    Exits 0 where every cell succeeded, 1 where one did not. The outcomes of their gates are shown
    and decide nothing: a sweep looks for cells that pass.
    """
    from fedaudit.cli.sweeps.submitted_sweep import dry_run_command, sweep_command

    if dry_run:
        raise typer.Exit(dry_run_command(file, as_json=as_json))
    raise typer.Exit(
        sweep_command(file, wait=wait, as_json=as_json, idempotency_key=idempotency_key)
    )


@sweeps.command("list")
def sweeps_list(*, most: Most = 50, as_json: AsJson = False) -> None:
    """List sweeps, newest first."""
    from fedaudit.cli.sweeps.stored_sweeps import list_sweeps_command

    list_sweeps_command(most=most, as_json=as_json)


@sweeps.command("show")
def sweeps_show(sweep_id: SweepId, *, as_json: AsJson = False) -> None:
    """Show how a sweep and its cells stand, and what it costs together."""
    from fedaudit.cli.sweeps.stored_sweeps import show_sweep_command

    show_sweep_command(sweep_id, as_json=as_json)


@sweeps.command("watch")
def sweeps_watch(sweep_id: SweepId, *, as_json: AsJson = False) -> None:
    """Follow a sweep until all cells have ended, and print its table."""
    from fedaudit.cli.sweeps.submitted_sweep import watch_sweep_command

    raise typer.Exit(watch_sweep_command(sweep_id, as_json=as_json))


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
    from fedaudit.cli.sweeps.stored_sweeps import table_command

    table_command(sweep_id, form=form, everything=everything, out=out)


@sweeps.command("cancel")
def sweeps_cancel(sweep_id: SweepId, *, as_json: AsJson = False) -> None:
    """End every cell that is queued or runs; what was spent stays spent."""
    from fedaudit.cli.sweeps.stored_sweeps import cancel_sweep_command

    cancel_sweep_command(sweep_id, as_json=as_json)


@sweeps.command("retry")
def sweeps_retry(
    sweep_id: SweepId,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Queue every cell that failed or was cancelled again; what it spent stays spent."""
    from fedaudit.cli.sweeps.submitted_sweep import retry_sweep_command

    raise typer.Exit(retry_sweep_command(sweep_id, wait=wait, as_json=as_json))
