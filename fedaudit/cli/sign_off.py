"""The command `sign-off`: state what a report is worth, in the name of the key's person."""

from typing import Annotated

import typer

from fedaudit.cli.connection import connected
from fedaudit.cli.display.output import say, write_each, write_json, write_line
from fedaudit.cli.failures import usage_error
from fedaudit.cli.options import AsJson
from fedaudit_client.result_types import SignOff

_DECISIONS = ("approved", "rejected", "needs-changes")

app = typer.Typer()


@app.command("sign-off")
def sign_off(
    experiment_id: Annotated[str, typer.Argument(metavar="ID", help="The experiment's id.")],
    *,
    decision: Annotated[
        str | None,
        typer.Option(help="approved, rejected or needs-changes; without it, list what there is."),
    ] = None,
    note: Annotated[
        str, typer.Option(help="Why; needed where gates did not pass or nothing is in force.")
    ] = "",
    role: Annotated[
        str | None, typer.Option(help="In what capacity; the key's person's unless given.")
    ] = None,
    report_hash: Annotated[
        str | None, typer.Option(help="Of the report that you read; refused for another one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sign a report off; it cannot be changed or taken back. Needs the scope reports:sign."""
    if decision is None:
        if note or role is not None or report_hash is not None:
            raise usage_error("--decision: is needed with --note, --role and --report-hash")
        with connected() as client:
            write_each(client.sign_offs(experiment_id), _lines, as_json=as_json)
        return
    if decision not in _DECISIONS:
        raise usage_error(f"--decision: {decision!r} is none of {', '.join(_DECISIONS)}")
    with connected() as client:
        made = client.sign_off(
            experiment_id, decision, note=note, role=role, report_hash=report_hash
        )
    if as_json:
        write_json(made)
    else:
        write_line(_lines(made))
        say("the service signs it within seconds; the bundle then has it")


def _lines(one: SignOff) -> str:
    role = f", {one['role']}" if one["role"] else ""
    lines = [f"{one['number']}. {one['decision']} by {one['person']}{role}, {one['signed_off_at']}"]
    if one["concerns"]:
        lines.append(f"   although: {', '.join(one['concerns']).replace('-', ' ')}")
    if one["by_submitter"]:
        lines.append("   by the key or name that submitted the experiment")
    if one["note"]:
        lines.append(f"   {one['note']}")
    return "\n".join([*lines, f"   report {one['report_hash']}"])
