"""The groups whose commands are calls of the client: webhooks, ledgers and the like, and keys,
which work on the service itself too."""

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from fedaudit.cli.installation import SCOPES, Installation, signing_key
from fedaudit.cli.options import AsJson, DataDir, Most, read_value, readable
from fedaudit.cli.output import (
    ExitCode,
    printed,
    say,
    usage_error,
    whole_file,
    write_bytes,
    write_json,
    write_line,
)
from fedaudit.cli.remote import OVERLAP, Commands, Given, argument, connected, group, option
from fedaudit_client.client import Client

Json = Mapping[str, Any]

app = typer.Typer()


# ---- webhooks


def _webhook(webhook: Json) -> str:
    state = "enabled" if webhook["enabled"] else f"disabled: {webhook['disabled_reason']}"
    who = webhook["created_by"]["person"] or webhook["created_by"]["key_name"]
    about = f"{state}; registered by {who}; {webhook['description']}".rstrip("; ")
    secret = f"\n  secret: {webhook['secret']}" if webhook.get("secret") else ""
    return f"{webhook['id']}  {webhook['url']}  {','.join(webhook['events'])}\n  {about}{secret}"


def _delivery(one: Json) -> str:
    answer = one["status_code"] or "-"
    return (
        f"{one['id']}  {one['created_at']}  {one['event']}  {one['state']}  "
        f"attempt {one['attempts']}  {answer}  {one['error'] or ''}".rstrip()
    )


def _change_webhook(client: Client, webhook_id: str, event: Any, **asked: Any) -> Any:
    asked = {**asked, "events": event}
    changes = {name: value for name, value in asked.items() if value is not None}
    if not changes:
        raise usage_error("webhooks change: name what is to be different")
    return client.change_webhook(webhook_id, **changes)


_WEBHOOK = argument("ID", "The webhook's id.")
_KEEP_SECRET = "keep the secret now: it is not shown again"

_webhooks = group(app, "webhooks")
_webhooks.add(
    "add",
    "Register an address, and print the secret that its deliveries are signed with, this once.",
    lambda client, url, event, description: client.create_webhook(
        url, event, description=description
    ),
    line=_webhook,
    said=_KEEP_SECRET,
    url=argument("URL", "https:// or http://"),
    event=option("As experiment.finished; repeat it for more.", kind=list[str], default=...),
    description=option("For the list.", kind=str, default=""),
)
_webhooks.add("list", "List the project's webhooks.", "webhooks", line=_webhook)
_webhooks.add(
    "change",
    "Change a webhook; its secret stays.",
    _change_webhook,
    line=_webhook,
    webhook_id=_WEBHOOK,
    url="Another address.",
    event=option("In place of those until now; repeat it.", kind=list[str] | None),
    description="For the list.",
    enabled=option("Whether events are sent to it.", "--enable/--disable", kind=bool | None),
)
_webhooks.add(
    "remove",
    "Delete a webhook, with whatever waits for it.",
    "delete_webhook",
    said="deleted {webhook_id}",
    question=lambda client, webhook_id: (
        f"delete the webhook of {client.webhook(webhook_id)['url']} for good?"
    ),
    webhook_id=_WEBHOOK,
)
_webhooks.add(
    "rotate-secret",
    "Replace the secret, and print the new one, this once.",
    lambda client, webhook_id, overlap_hours: client.rotate_webhook_secret(
        webhook_id, overlap_seconds=3600 * overlap_hours
    ),
    line=_webhook,
    said=_KEEP_SECRET,
    webhook_id=_WEBHOOK,
    overlap_hours=OVERLAP,
)
_webhooks.add(
    "test",
    "Have the event webhook.test sent; `deliveries` tells how that went.",
    lambda client, webhook_id: [client.test_webhook(webhook_id)],
    line=_delivery,
    webhook_id=_WEBHOOK,
)
_webhooks.add(
    "deliveries",
    "List what was sent and what waits, newest first.",
    lambda client, webhook_id, most: islice(client.webhook_deliveries(webhook_id), most),
    line=_delivery,
    webhook_id=_WEBHOOK,
    most=Given(Most, 20),
)
_webhooks.add(
    "redeliver",
    "Have a delivery sent again, under the same webhook-id.",
    lambda client, **given: [client.redeliver_webhook(**given)],
    line=_delivery,
    webhook_id=_WEBHOOK,
    delivery_id=argument("DELIVERY", "The delivery's id."),
)


@_webhooks.app.command("encrypt-anew")
def webhooks_encrypt_anew(*, data_dir: DataDir = None) -> None:
    """Encrypt every stored secret with the first key of FEDAUDIT_SECRETS_KEY_FILE.

    It works on the database itself. The secrets stay what they are.
    """
    from fedaudit.cli.installation import Installation

    count = Installation.choose(data_dir).encrypt_secrets_anew()
    say(f"secrets of {count} webhooks are encrypted with the first key; remove the other lines")


# ---- artifacts


def _artifact(one: Json) -> str:
    by = one["created_by"] or {}
    users = ", ".join(user["id"] for user in one["used_by"])
    more = f" and {one['uses'] - len(one['used_by'])} more" if one["uses"] > 20 else ""
    return (
        f"{one['id']}  {one['created_at'][:19]}  {one['size_bytes']:>10} bytes  "
        f"{one['hypotheses']} x {one['parameters']}  {one['name'] or 'no name'}, by "
        f"{by.get('person') or by.get('key_name') or 'an unknown key'}; "
        f"{f'starts {users}{more}' if users else 'unused'}"
    )


def _upload_artifact(client: Client, file: Path) -> Any:
    with readable(file) as source:
        return client.upload_artifact(source, name=file.name[:200])


_ARTIFACT = argument("ID", "The SHA-256 of the file.")

_artifacts = group(app, "artifacts")
_artifacts.add(
    "add",
    "Upload a file of parameters; a spec names it as `start: {artifact: ID}`.",
    _upload_artifact,
    line=lambda added: str(added["id"]),
    said=lambda added: f"{added['hypotheses']} hypotheses of {added['parameters']} parameters",
    file=Given(Annotated[Path, typer.Argument(metavar="FILE", help="In safetensors.")]),
)
_artifacts.add(
    "list",
    "Print the project's files of parameters, and the experiments that start from each.",
    "artifacts",
    line=_artifact,
)
_artifacts.add("show", "Print what is in a file of parameters.", "artifact", artifact_id=_ARTIFACT)
_artifacts.add(
    "remove",
    "Delete a file of parameters; experiments that wait to start from it will fail.",
    "delete_artifact",
    said="removed {artifact_id}",
    artifact_id=_ARTIFACT,
)


# ---- ledgers of trainings elsewhere


def _object(source: str, what: str) -> dict[str, Any]:
    value = read_value(source)
    if not isinstance(value, dict):
        raise usage_error(f"{source}: {what} must be an object with named fields")
    return value


def _post_rounds(client: Client, ledger_id: str, file: str) -> Any:
    rounds = _object(file, "rounds").get("rounds")
    if not isinstance(rounds, list):
        raise usage_error(f"{file}: must have a list `rounds`")
    return client.declare_rounds(ledger_id, rounds)


def _posted(posted: Json) -> str:
    lines = []
    for one in posted["rounds"]:
        over = f", {one['over_budget']} over their budget" if one["over_budget"] else ""
        lines.append(f"round {one['round']}: {one['charged']} charged{over}, {one['chain_head']}")
    return "\n".join(lines)


def _listed_ledger(one: Json) -> str:
    cost = one["leakage_max"] if one["epsilon_max"] is None else one["epsilon_max"]
    shown = "no bound" if cost is None else f"{cost:.4g}"
    return f"{one['id']}  {one['rounds']:>6} rounds  {shown:>10}  {one['name']}"


def _ledger(found: Json) -> str:
    lines = [
        f"{found['name']}, as declared by the trainer",
        f"rounds: {found['rounds']}, {found['missing_rounds']} numbers never declared",
    ]
    for one in found["epsilon"]:
        value = one["reason"] if one["value"] is None else f"{one['value']:.6g}"
        where = f"against {one['observer']}, {one['adjacency']}"
        lines.append(f"epsilon at delta = {one['delta']:g} {where}: {value}")
    if found["leakage_max"] is not None:
        lines.append(f"leakage: {found['leakage_max']:.6g}")
    lines.append(f"over their budget: {found['over_budget']}")
    lines.append(f"chain head: {found['chain_head']} ({found['entries']} entries)")
    return "\n".join(lines)


def _ledger_report(client: Client, ledger_id: str, out: Path | None, bundle: Path | None) -> Any:
    document = client.ledger_report(ledger_id)
    match out and out.suffix:
        case None:
            pass
        case ".html":
            write_bytes(client.ledger_report_page(ledger_id).encode(), out)
        case ".pdf":
            write_bytes(printed(client.ledger_report_page(ledger_id), option="--out"), out)
        case _:
            write_bytes(json.dumps(document, indent=2).encode(), out)
    if bundle is not None:
        with whole_file(bundle, option="--bundle") as file:
            client.download_ledger_bundle(ledger_id, file)
    return document


_LEDGER = argument("ID", "The ledger's id.")

_ledgers = group(app, "ledgers")
_ledgers.add(
    "create",
    "Open a ledger, and print its id.",
    lambda client, file: client.create_ledger(_object(file, "terms")),
    line=lambda made: str(made["id"]),
    file=argument("FILE", "A YAML or JSON file of terms; - is stdin."),
)
_ledgers.add(
    "post",
    "Declare rounds that ran: all of the file, or none.",
    _post_rounds,
    line=_posted,
    ledger_id=_LEDGER,
    file=argument("FILE", "A YAML or JSON file with `rounds`; - is stdin."),
)
_ledgers.add(
    "show",
    "Show what a ledger's rounds come to, as declared.",
    "ledger",
    line=_ledger,
    ledger_id=_LEDGER,
)
_ledgers.add(
    "report",
    "Show the verdict, or write report and bundle to files.",
    _ledger_report,
    line=lambda document: str(document["verdict"]),
    ledger_id=_LEDGER,
    out=option("Write the report here: JSON, or a page for *.html and *.pdf.", kind=Path | None),
    bundle=option("Write the bundle for `fedaudit verify` here.", kind=Path | None),
)
_ledgers.add("list", "List the project's ledgers, newest first.", "ledgers", line=_listed_ledger)


# ---- sign-offs, and the audit log


def _sign_off(one: Json) -> str:
    role = f", {one['role']}" if one["role"] else ""
    lines = [f"{one['number']}. {one['decision']} by {one['person']}{role}, {one['signed_off_at']}"]
    if one["concerns"]:
        lines.append(f"   although: {', '.join(one['concerns']).replace('-', ' ')}")
    if one["by_submitter"]:
        lines.append("   by the key or name that submitted the experiment")
    if one["note"]:
        lines.append(f"   {one['note']}")
    return "\n".join([*lines, f"   report {one['report_hash']}"])


_DECISIONS = ("approved", "rejected", "needs-changes")


def _signed_off(client: Client, experiment_id: str, decision: str | None, **stated: Any) -> Any:
    """The sign-offs that there are, or the one that is made now."""
    if decision is None:
        if any(stated.values()):
            raise usage_error("--decision: is needed with --note, --role and --report-hash")
        return client.sign_offs(experiment_id)
    if decision not in _DECISIONS:
        raise usage_error(f"--decision: {decision!r} is none of {', '.join(_DECISIONS)}")
    return client.sign_off(experiment_id, decision, **stated)


def _made_now(found: Any) -> str:
    made = isinstance(found, Mapping)
    return "the service signs it within seconds; the bundle then has it" if made else ""


Commands(app).add(
    "sign-off",
    "Sign a report off; it cannot be changed or taken back. Needs the scope reports:sign.",
    _signed_off,
    line=_sign_off,
    said=_made_now,
    experiment_id=argument("ID", "The experiment's id."),
    decision="approved, rejected or needs-changes; without it, list what there is.",
    note=option(
        "Why; needed where gates did not pass or nothing is in force.", kind=str, default=""
    ),
    role="In what capacity; the key's person's unless given.",
    report_hash="Of the report that you read; refused for another one.",
)


def _entry(entry: Json) -> str:
    who = entry["person"] or entry["key_name"] or entry["origin"]
    details = ", ".join(f"{name}={value}" for name, value in entry["details"].items())
    return (
        f"{entry['number']}  {entry['at']}  {who}  {entry['action']}  {entry['subject']}  {details}"
    )


def _entries(client: Client, most: int, **asked: str | None) -> Any:
    filters = {name: value for name, value in asked.items() if value is not None}
    return islice(client.audit_log(**filters), most)


_audit_log = group(app, "audit-log")
_audit_log.add(
    "list",
    "List the newest entries.",
    _entries,
    line=_entry,
    actor="A key's id or name, or a person.",
    action="As budget.set.",
    subject="An id.",
    most=Given(Most, 50),
)


@_audit_log.app.command("verify")
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
    from fedaudit.cli.verify import checked

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
    return f"{key['key_id']}  {key['algorithm']}  {state}"


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
