"""The commands below `ledgers` and their options."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.options import AsJson

ledgers = typer.Typer(
    help="Ledgers of trainings that run elsewhere, at the service of FEDAUDIT_URL.",
    no_args_is_help=True,
)

LedgerId = Annotated[str, typer.Argument(metavar="ID", help="The ledger's id.")]


@ledgers.command("create")
def ledgers_create(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A YAML or JSON file of terms; - is stdin.")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Open a ledger, and print its id."""
    from fedaudit.cli.ledgers.declared_training import create_command

    create_command(file, as_json=as_json)


@ledgers.command("post")
def ledgers_post(
    ledger_id: LedgerId,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A YAML or JSON file with `rounds`; - is stdin."),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Declare rounds that ran: all of the file, or none."""
    from fedaudit.cli.ledgers.declared_training import post_command

    post_command(ledger_id, file, as_json=as_json)


@ledgers.command("show")
def ledgers_show(ledger_id: LedgerId, *, as_json: AsJson = False) -> None:
    """Show what a ledger's rounds come to, as declared."""
    from fedaudit.cli.ledgers.declared_training import show_command

    show_command(ledger_id, as_json=as_json)


@ledgers.command("report")
def ledgers_report(
    ledger_id: LedgerId,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write the report here: JSON, or a page for *.html."),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option("--bundle", help="Write the bundle for `fedaudit verify` here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the verdict, or write report and bundle to files."""
    from fedaudit.cli.ledgers.declared_training import report_command

    report_command(ledger_id, out=out, bundle=bundle, as_json=as_json)


@ledgers.command("list")
def ledgers_list(*, as_json: AsJson = False) -> None:
    """List the project's ledgers, newest first."""
    from fedaudit.cli.ledgers.declared_training import list_command

    list_command(as_json=as_json)
