"""The command `gate`: an experiment held against gates, with an exit code for pipelines."""

from pathlib import Path
from typing import assert_never

from fedaudit.cli.display.output import json_text, write_bytes
from fedaudit.cli.display.summary import show_gates
from fedaudit.cli.failures import ExitCode, gate_exit, usage_error
from fedaudit.cli.forms import GateForm
from fedaudit.cli.remote import connected
from fedaudit.cli.specs import explain, read_value
from fedaudit.reports.gates.gate_junit import junit
from fedaudit.reports.gates.gate_markdown import markdown
from fedaudit.reports.gates.gate_results import Evaluation, GateResults
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.policies import PolicyFile, parse_policies
from fedaudit_client.client import Client


def gate_command(
    experiment_id: str | None,
    *,
    policy: str | None,
    policy_name: str | None,
    form: GateForm,
    out: Path | None,
    junit_file: Path | None = None,
    markdown_file: Path | None = None,
) -> ExitCode:
    """Evaluate a file's policies, a stored policy's gates, or the experiment's own.

    `junit_file` and `markdown_file` get the same results as what is shown.
    """
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
    if junit_file is not None:
        write_bytes(junit(results).encode(), junit_file, option="--junit")
    if markdown_file is not None:
        write_bytes(markdown(results).encode(), markdown_file, option="--markdown")
    document = _document(results, form)
    if document is not None:
        write_bytes(document.encode(), out)
    if document is None or out is not None:
        show_gates(results)
    return gate_exit(results.outcome)


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
            return junit(results)
        case "markdown":
            return markdown(results)
        case _:
            assert_never(form)
