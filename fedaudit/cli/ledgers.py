"""The commands below `ledgers`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedaudit.cli.connection import connected
from fedaudit.cli.display.output import say, write_bytes, write_each, write_json, write_line
from fedaudit.cli.failures import usage_error
from fedaudit.cli.options import AsJson
from fedaudit.cli.specs import read_value

app = typer.Typer(
    help="Ledgers of trainings that run elsewhere, at the service of FEDAUDIT_URL.",
    no_args_is_help=True,
)

LedgerId = Annotated[str, typer.Argument(metavar="ID", help="The ledger's id.")]


@app.command("create")
def ledgers_create(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A YAML or JSON file of terms; - is stdin.")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Open a ledger, and print its id."""
    with connected() as client:
        made = client.create_ledger(_object(file, "terms"))
    if as_json:
        write_json(made)
    else:
        write_line(made["id"])


@app.command("post")
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
    rounds = _object(file, "rounds").get("rounds")
    if not isinstance(rounds, list):
        raise usage_error(f"{file}: must have a list `rounds`")
    with connected() as client:
        posted = client.declare_rounds(ledger_id, rounds)
    if as_json:
        write_json(posted)
        return
    for one in posted["rounds"]:
        over = f", {one['over_budget']} over their budget" if one["over_budget"] else ""
        write_line(f"round {one['round']}: {one['charged']} charged{over}, {one['chain_head']}")


@app.command("show")
def ledgers_show(ledger_id: LedgerId, *, as_json: AsJson = False) -> None:
    """Show what a ledger's rounds come to, as declared."""
    with connected() as client:
        found = client.ledger(ledger_id)
    if as_json:
        write_json(found)
        return
    write_line(f"{found['name']}, as declared by the trainer")
    write_line(f"rounds: {found['rounds']}, {found['missing_rounds']} numbers never declared")
    for one in found["epsilon"]:
        value = one["reason"] if one["value"] is None else f"{one['value']:.6g}"
        where = f"against {one['observer']}, {one['adjacency']}"
        write_line(f"epsilon at delta = {one['delta']:g} {where}: {value}")
    if found["leakage_max"] is not None:
        write_line(f"leakage: {found['leakage_max']:.6g}")
    write_line(f"over their budget: {found['over_budget']}")
    write_line(f"chain head: {found['chain_head']} ({found['entries']} entries)")


@app.command("report")
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
    with connected() as client:
        document = client.ledger_report(ledger_id)
        if out is not None:
            page = client.ledger_report_page(ledger_id) if out.suffix == ".html" else None
            write_bytes((page or json.dumps(document, indent=2)).encode(), out)
        if bundle is not None:
            try:
                with bundle.open("wb") as file:
                    client.download_ledger_bundle(ledger_id, file)
            except OSError as error:
                raise usage_error(f"--bundle: cannot write {bundle}: {error.strerror}") from None
            say(f"written to {bundle}")
    if as_json:
        write_json(document)
    elif out is None:
        write_line(document["verdict"])


@app.command("list")
def ledgers_list(*, as_json: AsJson = False) -> None:
    """List the project's ledgers, newest first."""
    with connected() as client:
        write_each(client.ledgers(), _line, as_json=as_json)


def _line(one: Mapping[str, Any]) -> str:
    cost = one["leakage_max"] if one["epsilon_max"] is None else one["epsilon_max"]
    shown = "no bound" if cost is None else f"{cost:.4g}"
    return f"{one['id']}  {one['rounds']:>6} rounds  {shown:>10}  {one['name']}"


def _object(source: str, what: str) -> dict[str, Any]:
    value = read_value(source)
    if not isinstance(value, dict):
        raise usage_error(f"{source}: {what} must be an object with named fields")
    return value
