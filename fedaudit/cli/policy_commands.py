"""The commands below `policies` and their options."""

from typing import Annotated

import typer

from fedaudit.cli.options import AsJson

policies = typer.Typer(
    help="Gates under names, at the service of FEDAUDIT_URL; see `gate --policy-name`.",
    no_args_is_help=True,
)

PolicyName = Annotated[str, typer.Argument(metavar="NAME", help="The policy's name.")]


@policies.command("put")
def policies_put(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A YAML or JSON file of policies; - is stdin.")
    ],
) -> None:
    """Store policies under their names, or replace them."""
    from fedaudit.cli.policies import put_command

    put_command(file)


@policies.command("list")
def policies_list(*, as_json: AsJson = False) -> None:
    """List the project's policies."""
    from fedaudit.cli.policies import list_command

    list_command(as_json=as_json)


@policies.command("show")
def policies_show(name: PolicyName) -> None:
    """Print a policy as JSON, as `put` takes it."""
    from fedaudit.cli.policies import show_command

    show_command(name)


@policies.command("remove")
def policies_remove(name: PolicyName) -> None:
    """Delete a policy."""
    from fedaudit.cli.policies import remove_command

    remove_command(name)
