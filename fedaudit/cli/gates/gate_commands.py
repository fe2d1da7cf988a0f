"""The command `gate` and its options."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.failures import usage_error
from fedaudit.cli.forms import GateForm
from fedaudit.cli.options import Out

gates = typer.Typer()


@gates.command("gate")
def gate(
    experiment_id: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
    *,
    policy: Annotated[
        str | None,
        typer.Option(help="A YAML or JSON file of policies (and `experiment_id`); - is stdin."),
    ] = None,
    policy_name: Annotated[
        str | None, typer.Option(help="A policy that the service keeps; see `policies`.")
    ] = None,
    form: Annotated[
        GateForm,
        typer.Option("--format", help="junit for test reports, markdown for a comment."),
    ] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    out: Out = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="Write JUnit to this file as well.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write Markdown to this file as well.")
    ] = None,
) -> None:
    """Exit 0 where the experiment passes its gates, 1 where it fails, 3 where nobody can say."""
    from fedaudit.cli.gates.gate import gate_command

    if as_json and form not in ("text", "json"):
        raise usage_error("--json: is the same as --format json; give one of the two")
    raise typer.Exit(
        gate_command(
            experiment_id,
            policy=policy,
            policy_name=policy_name,
            form="json" if as_json else form,
            out=out,
            junit_file=junit,
            markdown_file=markdown,
        )
    )
