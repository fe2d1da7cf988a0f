"""The commands on stored experiments and their options."""

from typing import Annotated

import typer

from fedaudit.cli.experiments.sign_off_commands import sign_offs
from fedaudit.cli.options import AsJson, ExperimentId, Most, Sort, Where

experiments = typer.Typer()
experiments.add_typer(sign_offs)


@experiments.command("list")
def experiments_list(
    *,
    status: Annotated[
        str | None,
        typer.Option(help="queued, running, cancelling, cancelled, succeeded or failed."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Exactly this name.")] = None,
    tag: Annotated[str | None, typer.Option(help="Those with this tag.")] = None,
    federation: Annotated[
        str | None, typer.Option(metavar="ID", help="Those on this federation's data.")
    ] = None,
    mechanism: Annotated[str | None, typer.Option(help="As laplace-l2.")] = None,
    where: Where = None,
    sort: Sort = None,
    most: Most = 50,
    as_json: AsJson = False,
) -> None:
    """List experiments in every state, newest first."""
    from fedaudit.cli.experiments.stored_experiments import list_command

    chosen = {
        "status": status,
        "name": name,
        "tag": tag,
        "federation_id": federation,
        "mechanism": mechanism,
    }
    list_command(chosen, where or [], sort=sort, most=most, as_json=as_json)


@experiments.command("show")
def experiments_show(experiment_id: ExperimentId, *, as_json: AsJson = False) -> None:
    """Show how an experiment stands, and its main figures once it has ended."""
    from fedaudit.cli.experiments.stored_experiments import show_command

    show_command(experiment_id, as_json=as_json)


@experiments.command("cancel")
def experiments_cancel(experiment_id: ExperimentId, *, as_json: AsJson = False) -> None:
    """End an experiment that is queued or runs; what it has spent stays spent."""
    from fedaudit.cli.experiments.stored_experiments import cancel_command

    cancel_command(experiment_id, as_json=as_json)


@experiments.command("retry")
def experiments_retry(
    experiment_id: ExperimentId,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the new one to its end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Queue the spec of a failed or cancelled experiment again, as a new experiment."""
    from fedaudit.cli.experiments.stored_experiments import retry_command

    raise typer.Exit(retry_command(experiment_id, wait=wait, as_json=as_json))
