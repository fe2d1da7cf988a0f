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


@federations.command("scaffold")
def federations_scaffold(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV or Parquet file.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="Where to write it, rather than to standard output.")
    ] = None,
    client_key: Annotated[
        str | None, typer.Option(help="The column that names clients, where you know it.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The column to predict, where you know it.")
    ] = None,
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="Whether the first line names columns.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Propose a registration for a table, as YAML with the reason of every guess.

    It reads the file alone and needs no service. Correct it, then give it to
    `fedaudit federations add FILE --registration`.
    """
    from fedaudit.cli.scaffold import scaffold_command

    scaffold_command(
        file, out=out, client_key=client_key, target=target, header=header, as_json=as_json
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


@federations.command("erase")
def federations_erase(
    federation_id: FederationId,
    *,
    reference: Annotated[
        str | None, typer.Option(help="What you call the request; it stands in the receipt.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the signed receipt, as JSON.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove what tells of a federation's people, for good, and show what remains and why."""
    from fedaudit.cli.federations import erase_command

    erase_command(federation_id, reference=reference, out=out, yes=yes, as_json=as_json)
