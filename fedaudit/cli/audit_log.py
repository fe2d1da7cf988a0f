"""The commands below `audit-log`."""

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from fedaudit.cli.connection import connected
from fedaudit.cli.display.output import say, write_each, write_json, write_line
from fedaudit.cli.failures import ExitCode, usage_error
from fedaudit.cli.options import AsJson, Most

app = typer.Typer(
    help="Who did what in the project; see docs/people.md. Needs a key with the scope admin.",
    no_args_is_help=True,
)


@app.command("list")
def audit_log_list(
    *,
    actor: Annotated[str | None, typer.Option(help="A key's id or name, or a person.")] = None,
    action: Annotated[str | None, typer.Option(help="As budget.set.")] = None,
    subject: Annotated[str | None, typer.Option(help="An id, or a policy's name.")] = None,
    most: Most = 50,
    as_json: AsJson = False,
) -> None:
    """List the newest entries."""
    asked = {"actor": actor, "action": action, "subject": subject}
    filters = {name: value for name, value in asked.items() if value is not None}
    with connected() as client:
        write_each(islice(client.audit_log(**filters), most), _line, as_json=as_json)


@app.command("verify")
def audit_log_verify(
    *,
    public_key: Annotated[
        Path | None, typer.Option("--public-key", help="The service's, received another way.")
    ] = None,
    kept: Annotated[
        Path | None,
        typer.Option(help="A signed head of earlier, which the log must still contain."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Write the newest signed head to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch the whole log and compute its chain here.

    0: it holds, under a key that you gave; 1: it was altered; 3: it holds, and no key that you
    trust signed how far it reaches.
    """
    from fedaudit.cli.audit_log_check import checked

    earlier = None if kept is None else _head_in(kept)
    with connected() as client:
        # The head first: entries that come meanwhile stand behind it.
        told = client.verify_audit_log()
        entries = list(client.audit_log())[::-1]
    found = checked(told, entries, public_key=public_key, earlier=earlier)
    if as_json:
        write_json(found)
    else:
        write_line(f"{found['entries']} entries, {found['signed_entries']} signed")
        for fault in found["faults"]:
            write_line(f"FAIL  {fault}")
    if found["faults"]:
        raise typer.Exit(ExitCode.FAILED)
    if keep is not None and told["signed_head"] is not None:
        keep.write_text(json.dumps(told["signed_head"]) + "\n", "utf-8")
        say(f"kept the signed head in {keep}")
    if not found["trusted"]:
        say("the chain holds; give --public-key to know that the service signed it")
        raise typer.Exit(ExitCode.NO_EVIDENCE)


def _head_in(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise usage_error(f"--kept: {path} cannot be read: {error}") from None


def _line(entry: Mapping[str, Any]) -> str:
    who = entry["person"] or entry["key_name"] or entry["origin"]
    details = ", ".join(f"{name}={value}" for name, value in entry["details"].items())
    return f"{entry['number']}  {entry['at']}  {who}  {entry['action']}  {entry['subject']}  " + (
        details
    )
