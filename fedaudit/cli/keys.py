"""The commands below `keys` and `signing-keys`, of the service itself and over HTTP."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedaudit.cli.installation import SCOPES, Installation, signing_key
from fedaudit.cli.options import AsJson, DataDir
from fedaudit.cli.output import say, usage_error, write_json, write_line
from fedaudit.cli.remote import OVERLAP, argument, group
from fedaudit_client.client import Client

Json = Mapping[str, Any]

app = typer.Typer()


def _key(key: Json) -> str:
    state = "revoked" if key.get("revoked_at") else "valid"
    person = (key.get("person") or {}).get("name", "no person named")
    return f"{key['id']}  {state:7}  {','.join(key['scopes'])}  {key['name']}  {person}"


def _revoke_question(client: Client, key_id: str) -> str:
    names = [key["name"] for key in client.keys() if key["id"] == key_id]  # noqa: SIM118
    return f"revoke the key {(names or [key_id])[0]!r} for good?"


def _rotated(key: Json) -> str:
    until = key["previous_until"]
    ended = "ended" if until is None else f"opens the key until {until}"
    return f"keep it: it is not shown again\nthe old secret {ended}"


_KEY = argument("ID", "The key's id.")

_keys = group(app, "keys")


@_keys.app.command("create")
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


@_keys.app.command("signing")
def keys_signing(
    *, out: Annotated[Path, typer.Option("--out", help="The private key; FILE.pub is public.")]
) -> None:
    """Make the key that ledgers and reports are signed with; one that is there is never touched."""
    write_line(signing_key("create", out))
    say(f"keep {out} secret, give it to workers and sweepers alone, and hand out the public key")


_keys.add(
    "list",
    "List the keys of the project that FEDAUDIT_API_KEY opens, at FEDAUDIT_URL.",
    "keys",
    line=_key,
)
_keys.add(
    "rotate",
    "Replace the secret of a key of that project, and print the new one, this once.",
    lambda client, key_id, overlap_hours: client.rotate_key(
        key_id, overlap_seconds=3600 * overlap_hours
    ),
    line=lambda key: str(key["key"]),
    said=_rotated,
    key_id=_KEY,
    overlap_hours=OVERLAP,
)
_keys.add(
    "revoke",
    "End a key of that project.",
    "revoke_key",
    said="revoked {key_id}",
    question=_revoke_question,
    key_id=_KEY,
)


def _signing_key(key: Json) -> str:
    state = f"retired {key['retired_at']}" if key["retired_at"] else "in use"
    if key["compromised_at"]:
        state += f", compromised since {key['compromised_at']}"
    return f"{key['key_id']}  {state}"


_signing_keys = group(app, "signing-keys")
_signing_keys.add(
    "list",
    "List the public keys of the service at FEDAUDIT_URL, oldest first.",
    "signing_keys",
    line=_signing_key,
)


@_signing_keys.app.command("rotate")
def signing_keys_rotate(
    *,
    file: Annotated[
        Path | None, typer.Option(help="The private key; else that of FEDAUDIT_SIGNING_KEY_FILE.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Exchange the key for a new one. Running workers and sweepers take it up by themselves."""
    path = file or Installation.choose(data_dir).private_key
    write_line(signing_key("rotate", path))
    say(
        f"{path} is a new key. The old one is in the file above: delete it once every worker and "
        f"sweeper has the new one. {path}.pub has both public keys: hand it out"
    )


@_signing_keys.app.command("compromised")
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
    marked = Installation.choose(data_dir).mark_compromised(key_id, since=since, note=note)
    if as_json:
        write_json(marked)
    else:
        write_line(f"{marked['key_id']}  compromised since {marked['compromised_at']}")
    if marked["in_use"]:
        say("it is still in use: exchange it now with `fedaudit signing-keys rotate`")
    say("remove it from every file of keys that you trust (--public-key)")
