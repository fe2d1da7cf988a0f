"""The command `gate`: an experiment held against gates, with an exit code for pipelines."""

from pathlib import Path
from typing import Annotated, assert_never

import typer

from fedaudit.cli.connection import connected
from fedaudit.cli.display.output import json_text, write_bytes
from fedaudit.cli.display.summary import show_gates
from fedaudit.cli.failures import gate_exit, usage_error
from fedaudit.cli.options import GateForm, Out
from fedaudit.cli.specs import explain, read_value
from fedaudit.reports.gates.gate_junit import junit as junit_of
from fedaudit.reports.gates.gate_markdown import markdown as markdown_of
from fedaudit.reports.gates.gate_results import Evaluation, GateResults
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.gates import PolicyFile, parse_policies
from fedaudit_client.client import Client

app = typer.Typer()


@app.command()
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
        GateForm, typer.Option("--format", help="junit for test reports, markdown for a comment.")
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
    """Exit 0 where the experiment passes its gates, 1 where it fails, 3 where it is not decided."""
    if as_json and form not in ("text", "json"):
        raise usage_error("--json: is the same as --format json; give one of the two")
    form = "json" if as_json else form
    if policy is not None and policy_name is not None:
        raise usage_error("gate: give either --policy or --policy-name")
    if form == "text" and out is not None:
        raise usage_error("--out: goes with --format json, junit and markdown")
    file = None if policy is None else _read(policy)
    experiment_id = experiment_id or (file.experiment_id if file else None)
    if experiment_id is None:
        raise usage_error("gate: name an experiment, or a --policy with an experiment_id")
    with connected() as client:
        results = _evaluated(client, experiment_id, file, policy_name)
    if results.outcome is None:
        raise usage_error("gate: the experiment's spec has no gate; give some with --policy")
    if junit is not None:
        write_bytes(junit_of(results).encode(), junit, option="--junit")
    if markdown is not None:
        write_bytes(markdown_of(results).encode(), markdown, option="--markdown")
    document = _document(results, form)
    if document is not None:
        write_bytes(document.encode(), out)
    if document is None or out is not None:
        show_gates(results)
    raise typer.Exit(gate_exit(results.outcome))


def _read(source: str) -> PolicyFile:
    value = read_value(source)
    try:
        return parse_policies(value)
    except InvalidInputError as error:
        raise usage_error(f"--policy: {source}: {explain(error.errors)}") from None


def _evaluated(
    client: Client, experiment_id: str, file: PolicyFile | None, policy_name: str | None
) -> GateResults:
    if file is None:
        answer = client.evaluate_gates(experiment_id, policy=policy_name)
        return GateResults(experiment_id, (Evaluation(policy_name, tuple(answer["gates"])),))
    evaluations = []
    for named in file.to_evaluate:
        gates = [gate.model_dump(mode="json") for gate in named.gates]
        answer = client.evaluate_gates(experiment_id, gates)
        evaluations.append(Evaluation(named.name, tuple(answer["gates"])))
    return GateResults(experiment_id, tuple(evaluations))


def _document(results: GateResults, form: GateForm) -> str | None:
    """What to write; None where the results are only shown."""
    match form:
        case "text":
            return None
        case "json":
            return f"{json_text(results.as_dict())}\n"
        case "junit":
            return junit_of(results)
        case "markdown":
            return markdown_of(results)
        case _:
            assert_never(form)
