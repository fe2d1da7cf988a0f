"""The commands below `keys` and their options."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.display.output import say, write_json, write_line
from fedaudit.cli.failures import usage_error
from fedaudit.cli.options import AsJson, DataDir

keys = typer.Typer(
    help="API keys: `create` works on the database itself, `list` and `revoke` over HTTP. "
    "`signing` makes a key to sign with.",
    no_args_is_help=True,
)


@keys.command("create")
def keys_create(
    *,
    project: Annotated[str, typer.Option(help="The project that the key opens.")],
    scopes: Annotated[str, typer.Option(help="Separated by commas, as experiments:read.")],
    name: Annotated[str, typer.Option(help="For the list of keys.")] = "command line",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown once and stored as a hash."""
    from fedaudit.cli.service.installation import SCOPES, Installation

    wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
    if not wanted or not set(wanted) <= set(SCOPES):
        raise usage_error(f"--scopes: name one or more of {', '.join(SCOPES)}")
    created = Installation.choose(data_dir).create_key(project=project, scopes=wanted, name=name)
    if as_json:
        write_json(created, pretty=False)
    else:
        write_line(created["key"])
        say(f"keep it: it opens project {project} and is not shown again")


@keys.command("signing")
def keys_signing(
    *, out: Annotated[Path, typer.Option("--out", help="The private key; FILE.pub is public.")]
) -> None:
    """Make the key that ledgers and reports are signed with; one that is there is never touched."""
    from fedaudit.cli.service.installation import make_signing_key

    write_line(make_signing_key(out))
    say(f"keep {out} secret, give it to workers and sweepers alone, and hand out the public key")


@keys.command("list")
def keys_list(*, as_json: AsJson = False) -> None:
    """List the keys of the project that FEDAUDIT_API_KEY opens, at FEDAUDIT_URL."""
    from fedaudit.cli.remote import list_keys_command

    list_keys_command(as_json=as_json)


@keys.command("revoke")
def keys_revoke(key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")]) -> None:
    """End a key of that project."""
    from fedaudit.cli.remote import revoke_key_command

    revoke_key_command(key_id)
