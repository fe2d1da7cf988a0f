"""The commands below `policies`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from fedaudit.cli.connection import connected
from fedaudit.cli.display.output import say, write_each, write_json
from fedaudit.cli.failures import usage_error
from fedaudit.cli.options import AsJson
from fedaudit.cli.specs import read_value

app = typer.Typer(
    help="Gates under names, at the service of FEDAUDIT_URL; see `gate --policy-name`.",
    no_args_is_help=True,
)
PolicyName = Annotated[str, typer.Argument(metavar="NAME", help="The policy's name.")]


@app.command("put")
def policies_put(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A YAML or JSON file of policies; - is stdin.")
    ],
) -> None:
    """Store policies under their names, or replace them."""
    from fedaudit.spec.policies import parse_policies

    policies = parse_policies(read_value(file)).named
    if not policies:
        raise usage_error(f"policies put: the gates in {file} have no `name`")
    with connected() as client:
        for policy in policies:
            client.put_policy(policy.name, policy.model_dump(mode="json"))
            say(f"stored {policy.name}")


@app.command("list")
def policies_list(*, as_json: AsJson = False) -> None:
    """List the project's policies."""
    with connected() as client:
        write_each(client.policies(), _line, as_json=as_json)


@app.command("show")
def policies_show(name: PolicyName) -> None:
    """Print a policy as JSON, as `put` takes it."""
    with connected() as client:
        policy = client.policy(name)
    write_json({field: policy[field] for field in ("name", "description", "gates")})


@app.command("remove")
def policies_remove(name: PolicyName) -> None:
    """Delete a policy."""
    with connected() as client:
        client.delete_policy(name)
    say(f"deleted {name}")


def _line(policy: Mapping[str, Any]) -> str:
    gates = f"{len(policy['gates'])} gate{'s' if len(policy['gates']) != 1 else ''}"
    return f"{policy['name']}  {gates}  {' '.join(policy['description'].split())}".rstrip()
