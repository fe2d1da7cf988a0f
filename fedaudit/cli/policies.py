"""The commands on policies that a running service keeps."""

from fedaudit.cli.display.output import say, write_json, write_line
from fedaudit.cli.failures import usage_error
from fedaudit.cli.remote import connected
from fedaudit.cli.specs import read_value
from fedaudit.spec.policies import parse_policies


def put_command(source: str) -> None:
    """Store a file's policies under their names. Raises InvalidInputError and CommandError."""
    policies = parse_policies(read_value(source)).named
    if not policies:
        raise usage_error(f"policies put: the gates in {source} have no `name`")
    with connected() as client:
        for policy in policies:
            client.put_policy(policy.name, policy.model_dump(mode="json"))
            say(f"stored {policy.name}")


def list_command(*, as_json: bool) -> None:
    """Print the project's policies."""
    with connected() as client:
        found = list(client.policies())
    if as_json:
        write_json(found)
        return
    for policy in found:
        gates = f"{len(policy['gates'])} gate{'s' if len(policy['gates']) != 1 else ''}"
        write_line(f"{policy['name']}  {gates}  {' '.join(policy['description'].split())}".rstrip())


def show_command(name: str) -> None:
    """Print a policy as JSON, which `put` takes again."""
    with connected() as client:
        policy = client.policy(name)
    write_json({field: policy[field] for field in ("name", "description", "gates")})


def remove_command(name: str) -> None:
    """Delete a policy."""
    with connected() as client:
        client.delete_policy(name)
    say(f"deleted {name}")
