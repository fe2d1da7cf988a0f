"""The command `submit`."""

from typing import Annotated

import typer

from fedaudit.cli.connection import checked_key, connected
from fedaudit.cli.experiments import go_on
from fedaudit.cli.options import AsJson, IdempotencyKey, Spec
from fedaudit.cli.specs import read_submission

app = typer.Typer()


@app.command()
def submit(
    spec: Spec,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end.")] = False,
    as_json: AsJson = False,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Hand an experiment to the service at FEDAUDIT_URL."""
    checked_key(idempotency_key)
    asked = read_submission(spec)
    with connected() as client:
        submitted = client.submit(asked, idempotency_key=idempotency_key)
        raise typer.Exit(go_on(client, submitted, wait=wait, as_json=as_json))
