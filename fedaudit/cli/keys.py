"""The commands below `keys`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedaudit.cli.display.output import say, write_each, write_json, write_line
from fedaudit.cli.failures import usage_error
from fedaudit.cli.options import AsJson, DataDir, OverlapHours, Yes

app = typer.Typer(
    help="API keys: `create` works on the database itself, `list`, `rotate` and `revoke` "
    "over HTTP. `signing` makes a key to sign with.",
    no_args_is_help=True,
)
KeyId = Annotated[str, typer.Argument(metavar="ID", help="The key's id.")]


@app.command("create")
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


@app.command("signing")
def keys_signing(
    *, out: Annotated[Path, typer.Option("--out", help="The private key; FILE.pub is public.")]
) -> None:
    """Make the key that ledgers and reports are signed with; one that is there is never touched."""
    from fedaudit.cli.service.installation import make_signing_key

    write_line(make_signing_key(out))
    say(f"keep {out} secret, give it to workers and sweepers alone, and hand out the public key")


@app.command("list")
def keys_list(*, as_json: AsJson = False) -> None:
    """List the keys of the project that FEDAUDIT_API_KEY opens, at FEDAUDIT_URL."""
    from fedaudit.cli.connection import connected

    with connected() as client:
        write_each(client.keys(), _line, as_json=as_json)


@app.command("rotate")
def keys_rotate(
    key_id: KeyId, *, overlap_hours: OverlapHours = 24, as_json: AsJson = False
) -> None:
    """Replace the secret of a key of that project, and print the new one, this once."""
    from fedaudit.cli.connection import connected

    with connected() as client:
        rotated = client.rotate_key(key_id, overlap_seconds=3600 * overlap_hours)
    if as_json:
        write_json(rotated)
        return
    write_line(rotated["key"])
    until = rotated["previous_until"]
    say("keep it: it is not shown again")
    say("the old secret ended" if until is None else f"the old secret opens the key until {until}")


@app.command("revoke")
def keys_revoke(key_id: KeyId, *, yes: Yes = False) -> None:
    """End a key of that project."""
    from fedaudit.cli.connection import confirm, connected

    with connected() as client:
        if not yes:
            known = client.keys()
            names = [key["name"] for key in known if key["id"] == key_id]
            confirm(f"revoke the key {(names or [key_id])[0]!r} for good?", command="keys revoke")
        client.revoke_key(key_id)
    say(f"revoked {key_id}")


def _line(key: Mapping[str, Any]) -> str:
    state = "revoked" if key.get("revoked_at") else "valid"
    person = (key.get("person") or {}).get("name", "no person named")
    return f"{key['id']}  {state:7}  {','.join(key['scopes'])}  {key['name']}  {person}"
