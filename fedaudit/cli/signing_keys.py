"""The commands below `signing-keys`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedaudit.cli.display.output import say, write_each, write_json, write_line
from fedaudit.cli.options import AsJson, DataDir

app = typer.Typer(
    help="The keys that ledgers and reports are signed with: `rotate` works on the key's file, "
    "`compromised` on the database, `list` over HTTP.",
    no_args_is_help=True,
)


@app.command("rotate")
def signing_keys_rotate(
    *,
    file: Annotated[
        Path | None,
        typer.Option(help="The private key; else that of FEDAUDIT_SIGNING_KEY_FILE."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Exchange the key for a new one. Running workers and sweepers take it up by themselves."""
    from fedaudit.cli.service.installation import Installation, rotate_signing_key

    path = file or Installation.choose(data_dir).private_key
    write_line(rotate_signing_key(path))
    say(
        f"{path} is a new key. The old one is in the file above: delete it once every worker and "
        f"sweeper has the new one. {path}.pub has both public keys: hand it out"
    )


@app.command("list")
def signing_keys_list(*, as_json: AsJson = False) -> None:
    """List the public keys of the service at FEDAUDIT_URL, oldest first."""
    from fedaudit.cli.connection import connected

    with connected() as client:
        write_each(client.signing_keys(), _line, as_json=as_json)


def _line(key: Mapping[str, Any]) -> str:
    state = f"retired {key['retired_at']}" if key["retired_at"] else "in use"
    if key["compromised_at"]:
        state += f", compromised since {key['compromised_at']}"
    return f"{key['key_id']}  {state}"


@app.command("compromised")
def signing_keys_compromised(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="As `list` shows it.")],
    *,
    since: Annotated[
        str | None, typer.Option(help="From when on, as 2026-01-31T12:00:00Z; else from now on.")
    ] = None,
    note: Annotated[str | None, typer.Option(help="What happened, for readers.")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Say that others may have a key: verification then says so. It cannot be taken back."""
    from fedaudit.cli.service.installation import Installation

    marked = Installation.choose(data_dir).mark_compromised(key_id, since=since, note=note)
    if as_json:
        write_json(marked)
    else:
        write_line(f"{marked['key_id']}  compromised since {marked['compromised_at']}")
    if marked["in_use"]:
        say("it is still in use: exchange it now with `fedaudit signing-keys rotate`")
    say("remove it from every file of keys that you trust (--public-key)")
