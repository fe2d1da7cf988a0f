"""The commands on keys, and on what is signed: sign-offs of reports, and the audit log."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option, Typer

from fedaudit.cli.installation import SCOPES, Installation, signing_key
from fedaudit.cli.options import AsJson, DataDir, Decision, ExperimentId
from fedaudit.cli.output import ExitCode, say, usage_error, write_bytes, write_json, write_line
from fedaudit.cli.remote import connected

app = Typer()


@app.command("sign-off")
def sign_off(
    experiment_id: ExperimentId,
    *,
    decision: Annotated[Decision, Option()],
    note: Annotated[
        str, Option(help="Why; needed where gates did not pass or nothing is in force.")
    ] = "",
    role: Annotated[
        str | None, Option(help="In what capacity; the key's person's unless given.")
    ] = None,
    report_hash: Annotated[
        str | None, Option(help="Of the report that you read; refused for another one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sign a report off; it cannot be changed or taken back. Needs the scope reports:sign."""
    with connected() as client:
        made = client.sign_off(
            experiment_id, decision, note=note, role=role, report_hash=report_hash
        )
    if as_json:
        write_json(made)
        return
    role = f", {made['role']}" if made["role"] else ""
    concerns = f"; concerns: {', '.join(made['concerns'])}" if made["concerns"] else ""
    write_line(f"sign-off {made['number']}: {made['decision']} by {made['person']}{role}{concerns}")
    say("the service signs it within seconds; the bundle then has it")


_audit_log = Typer(no_args_is_help=True)
_keys = Typer(no_args_is_help=True)
_signing_keys = Typer(no_args_is_help=True)
app.add_typer(_audit_log, name="audit-log")
app.add_typer(_keys, name="keys")
app.add_typer(_signing_keys, name="signing-keys")


@_audit_log.command("verify")
def audit_log_verify(
    *,
    public_key: Annotated[
        Path | None, Option("--public-key", help="The service's, received another way.")
    ] = None,
    kept: Annotated[
        Path | None, Option(help="A signed head of earlier, which the log must still contain.")
    ] = None,
    keep: Annotated[Path | None, Option(help="Write the newest signed head to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch the whole log and compute its chain here.

    0: it holds, under a key that you gave; 1: it was altered; 3: it holds, and no key that you
    trust signed how far it reaches.
    """
    from fedaudit.cli.verify import checked

    try:
        earlier = None if kept is None else json.loads(kept.read_bytes())
    except (ValueError, RecursionError) as error:
        raise usage_error(f"--kept: {kept} cannot be read: {error}") from None
    with connected() as client:
        # The head first: entries that come meanwhile follow it.
        stated = client.ask("GET", "audit-log/verification")
        entries = list(client.items("audit-log"))[::-1]
    found = checked(stated, entries, public_key=public_key, earlier=earlier)
    if as_json:
        write_json(found)
    else:
        write_line(f"{found['entries']} entries, {found['signed_entries']} signed")
        for fault in found["faults"]:
            write_line(f"FAIL  {fault}")
    if found["faults"]:
        raise Exit(ExitCode.FAILED)
    if keep is not None and stated["signed_head"] is not None:
        write_bytes(f"{json.dumps(stated['signed_head'])}\n".encode(), keep)
    if not found["trusted"]:
        say("the chain holds; give --public-key to know that the service signed it")
        raise Exit(ExitCode.NO_EVIDENCE)


@_keys.command("create")
def keys_create(
    *,
    scopes: Annotated[
        list[str],
        Option("--scopes", "--scope", help="As experiments:read; by commas, or repeated."),
    ],
    project: Annotated[str, Option(help="The project that the key opens.")] = "default",
    name: Annotated[str, Option(help="For the list of keys.")] = "command line",
    person: Annotated[
        str | None, Option(help="Whom it is for: what they do is recorded in this name.")
    ] = None,
    person_email: Annotated[str | None, Option(help="Their mail address.")] = None,
    person_role: Annotated[str | None, Option(help="As: data protection officer.")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown once and stored as a hash."""
    wanted = [scope.strip() for scope in ",".join(scopes).split(",") if scope.strip()]
    if not wanted or not set(wanted) <= set(SCOPES):
        raise usage_error(f"--scopes: name one or more of {', '.join(SCOPES)}")
    if not project.strip():
        raise usage_error("--project: is empty; name the project that the key opens")
    if person is None and (person_email is not None or person_role is not None):
        raise usage_error("an address or a role needs a person; give --person as well")
    who = {"name": person, "email": person_email, "role": person_role}
    created = Installation.choose(data_dir).create_key(
        project=project, scopes=wanted, name=name, person=None if person is None else who
    )
    if as_json:
        write_json(created, pretty=False)
    else:
        write_line(created["key"])
        say(f"keep it: it opens project {project} and is not shown again")


@_keys.command("signing")
def keys_signing(
    *, out: Annotated[Path, Option("--out", help="The private key; FILE.pub is public.")]
) -> None:
    """Make the key that ledgers and reports are signed with; one that is there is never touched."""
    write_line(signing_key("create", out))
    say(f"keep {out} secret, give it to workers and sweepers alone, and hand out the public key")


@_signing_keys.command("rotate")
def signing_keys_rotate(
    *,
    file: Annotated[
        Path | None, Option(help="The private key; else that of FEDAUDIT_SIGNING_KEY_FILE.")
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


@_signing_keys.command("compromised")
def signing_keys_compromised(
    key_id: Annotated[str, Argument(metavar="KEY_ID", help="As `api GET signing-keys` shows it.")],
    *,
    since: Annotated[
        str | None, Option(help="From when on, as 2026-01-31T12:00:00Z; else from now on.")
    ] = None,
    note: Annotated[str | None, Option(help="What happened, for readers.")] = None,
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
