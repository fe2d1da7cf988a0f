"""The commands below `keys` and their options."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.display.output import say, write_json, write_line
from fedaudit.cli.failures import usage_error
from fedaudit.cli.options import AsJson, DataDir

keys = typer.Typer(
    help="API keys: `create` works on the database itself, `list`, `rotate` and `revoke` "
    "over HTTP. `signing` makes a key to sign with.",
    no_args_is_help=True,
)


@keys.command("create")
def keys_create(
    *,
    scopes: Annotated[
        list[str],
        typer.Option("--scopes", "--scope", help="As experiments:read; by commas, or repeated."),
    ],
    project: Annotated[str, typer.Option(help="The project that the key opens.")] = "default",
    name: Annotated[str, typer.Option(help="For the list of keys.")] = "command line",
    person: Annotated[
        str | None, typer.Option(help="Whom it is for: what they do is recorded in this name.")
    ] = None,
    person_email: Annotated[str | None, typer.Option(help="Their mail address.")] = None,
    person_role: Annotated[str | None, typer.Option(help="As: data protection officer.")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown once and stored as a hash."""
    from fedaudit.cli.service.installation import SCOPES, Installation

    wanted = [scope.strip() for scope in ",".join(scopes).split(",") if scope.strip()]
    if not wanted or not set(wanted) <= set(SCOPES):
        raise usage_error(f"--scopes: name one or more of {', '.join(SCOPES)}")
    who = {"person": person, "person-email": person_email, "person-role": person_role}
    created = Installation.choose(data_dir).create_key(
        project=project, scopes=wanted, name=name, person=who
    )
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


@keys.command("rotate")
def keys_rotate(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")],
    *,
    overlap_hours: Annotated[
        int, typer.Option(min=0, max=168, help="For how long the old secret opens the key too.")
    ] = 24,
    as_json: AsJson = False,
) -> None:
    """Replace the secret of a key of that project, and print the new one, this once."""
    from fedaudit.cli.remote import rotate_key_command

    rotate_key_command(key_id, overlap_hours=overlap_hours, as_json=as_json)


@keys.command("revoke")
def keys_revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Without asking.")] = False,
) -> None:
    """End a key of that project."""
    from fedaudit.cli.remote import revoke_key_command

    revoke_key_command(key_id, yes=yes)
