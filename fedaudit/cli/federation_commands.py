"""The commands below `federations` and their options."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.options import AsJson

federations = typer.Typer(
    help="The data that experiments name by id, at the service of FEDAUDIT_URL.",
    no_args_is_help=True,
)

FederationId = Annotated[str, typer.Argument(metavar="ID", help="The federation's id.")]


@federations.command("add")
def federations_add(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The data, perhaps gzipped.")],
    *,
    registration: Annotated[
        str | None,
        typer.Option(help="A YAML or JSON file with `federation` and `fairness`; - is stdin."),
    ] = None,
    spec: Annotated[
        str | None, typer.Option(help="An experiment's spec, to take those two from; - is stdin.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Rather than the one in the registration.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until it is ready or rejected.")] = False,
    as_json: AsJson = False,
) -> None:
    """Upload a data file and have it profiled."""
    from fedaudit.cli.federations import add_command

    raise typer.Exit(
        add_command(
            file, registration=registration, spec=spec, name=name, wait=wait, as_json=as_json
        )
    )


@federations.command("list")
def federations_list(*, as_json: AsJson = False) -> None:
    """List the project's federations, newest first."""
    from fedaudit.cli.federations import list_command

    list_command(as_json=as_json)


@federations.command("show")
def federations_show(federation_id: FederationId, *, as_json: AsJson = False) -> None:
    """Show a federation and its profile."""
    from fedaudit.cli.federations import show_command

    show_command(federation_id, as_json=as_json)


@federations.command("disclosure")
def federations_disclosure(
    federation_id: FederationId,
    *,
    policy: Annotated[
        str | None,
        typer.Option("--set", help="A YAML or JSON file of the whole policy; - is stdin."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the policy back.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show, or set, what may be asked of a federation's groups."""
    from fedaudit.cli.federations import disclosure_command

    disclosure_command(federation_id, policy=policy, clear=clear, as_json=as_json)


@federations.command("remove")
def federations_remove(
    federation_id: FederationId,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Without asking.")] = False,
) -> None:
    """Delete a federation's file and profile; what was spent on the data stays."""
    from fedaudit.cli.federations import remove_command

    remove_command(federation_id, yes=yes)
