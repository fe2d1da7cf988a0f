"""The commands below `webhooks`."""

from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any

import typer

from fedaudit.cli.connection import confirm, connected
from fedaudit.cli.display.output import say, write_each, write_json, write_line
from fedaudit.cli.failures import usage_error
from fedaudit.cli.options import AsJson, DataDir, Most, OverlapHours, Yes

app = typer.Typer(
    help="Addresses that the service at FEDAUDIT_URL tells of events; see docs/webhooks.md. "
    "Needs a key with the scope admin.",
    no_args_is_help=True,
)

WebhookId = Annotated[str, typer.Argument(metavar="ID", help="The webhook's id.")]
Events = Annotated[
    list[str],
    typer.Option("--event", help="As experiment.finished; repeat it for more."),
]


@app.command("add")
def webhooks_add(
    url: Annotated[str, typer.Argument(metavar="URL", help="https:// or http://")],
    *,
    event: Events,
    description: Annotated[str, typer.Option(help="For the list.")] = "",
    as_json: AsJson = False,
) -> None:
    """Register an address, and print the secret that its deliveries are signed with, this once."""
    with connected() as client:
        made = client.create_webhook(url, event, description=description)
    _show_secret(made, as_json=as_json)


@app.command("list")
def webhooks_list(*, as_json: AsJson = False) -> None:
    """List the project's webhooks."""
    with connected() as client:
        write_each(client.webhooks(), _lines, as_json=as_json)


@app.command("change")
def webhooks_change(
    webhook_id: WebhookId,
    *,
    url: Annotated[str | None, typer.Option(help="Another address.")] = None,
    event: Annotated[
        list[str] | None, typer.Option("--event", help="In place of those until now; repeat it.")
    ] = None,
    description: Annotated[str | None, typer.Option(help="For the list.")] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether it is told of events.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change a webhook; its secret stays."""
    asked = {"url": url, "events": event, "description": description, "enabled": enabled}
    changes = {name: value for name, value in asked.items() if value is not None}
    if not changes:
        raise usage_error("webhooks change: name what is to be different")
    with connected() as client:
        changed = client.change_webhook(webhook_id, **changes)
    if as_json:
        write_json(changed)
    else:
        write_line(_lines(changed))


@app.command("remove")
def webhooks_remove(
    webhook_id: WebhookId,
    *,
    yes: Yes = False,
) -> None:
    """Delete a webhook, with whatever waits for it."""
    with connected() as client:
        if not yes:
            url = client.webhook(webhook_id)["url"]
            confirm(f"delete the webhook of {url} for good?", command="webhooks remove")
        client.delete_webhook(webhook_id)
    say(f"deleted {webhook_id}")


@app.command("rotate-secret")
def webhooks_rotate_secret(
    webhook_id: WebhookId,
    *,
    overlap_hours: OverlapHours = 24,
    as_json: AsJson = False,
) -> None:
    """Replace the secret, and print the new one, this once."""
    with connected() as client:
        rotated = client.rotate_webhook_secret(webhook_id, overlap_seconds=3600 * overlap_hours)
    _show_secret(rotated, as_json=as_json)


@app.command("encrypt-anew")
def webhooks_encrypt_anew(*, data_dir: DataDir = None) -> None:
    """Encrypt every stored secret with the first key of FEDAUDIT_SECRETS_KEY_FILE.

    It works on the database itself. The secrets stay what they are.
    """
    from fedaudit.cli.service.installation import Installation

    count = Installation.choose(data_dir).encrypt_secrets_anew()
    say(f"secrets of {count} webhooks are encrypted with the first key; remove the other lines")


@app.command("test")
def webhooks_test(webhook_id: WebhookId, *, as_json: AsJson = False) -> None:
    """Have the event webhook.test sent; `deliveries` tells how that went."""
    with connected() as client:
        sent = client.test_webhook(webhook_id)
    write_each([sent], _delivery_line, as_json=as_json)


@app.command("deliveries")
def webhooks_deliveries(webhook_id: WebhookId, *, most: Most = 20, as_json: AsJson = False) -> None:
    """List what was sent and what waits, newest first."""
    with connected() as client:
        found = islice(client.webhook_deliveries(webhook_id), most)
        write_each(found, _delivery_line, as_json=as_json)


@app.command("redeliver")
def webhooks_redeliver(
    webhook_id: WebhookId,
    delivery_id: Annotated[str, typer.Argument(metavar="DELIVERY", help="The delivery's id.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Have a delivery sent again, under the same webhook-id."""
    with connected() as client:
        sent = client.redeliver_webhook(webhook_id, delivery_id)
    write_each([sent], _delivery_line, as_json=as_json)


def _lines(webhook: Mapping[str, Any]) -> str:
    state = "enabled" if webhook["enabled"] else f"disabled: {webhook['disabled_reason']}"
    who = webhook["created_by"]["person"] or webhook["created_by"]["key_name"]
    about = f"{state}; registered by {who}; {webhook['description']}".rstrip("; ")
    return f"{webhook['id']}  {webhook['url']}  {','.join(webhook['events'])}\n  {about}"


def _show_secret(webhook: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        write_json(webhook)
        return
    write_line(_lines(webhook))
    write_line(f"  secret: {webhook['secret']}")
    say("keep the secret now: it is not shown again")


def _delivery_line(one: Mapping[str, Any]) -> str:
    answer = one["status_code"] or "-"
    return (
        f"{one['id']}  {one['created_at']}  {one['event']}  {one['state']}  "
        f"attempt {one['attempts']}  {answer}  {one['error'] or ''}".rstrip()
    )
