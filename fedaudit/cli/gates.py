"""The command `gate`: whether an experiment passes its gates, for pipelines."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from typer import Argument, Exit, Option, Typer

from fedaudit.cli.options import AsJson, read_policies
from fedaudit.cli.output import gate_exit, standard_output, usage_error, write_bytes, write_json
from fedaudit.reports.gates.gate_results import OUTCOME_WORDS, GateResults, condition, overall
from fedaudit.reports.gates.gate_results import junit as junit_of
from fedaudit.reports.gates.gate_results import markdown as markdown_of
from fedaudit.reports.sections.part import GateOutcome
from fedaudit.spec.gates import PolicyFile

if TYPE_CHECKING:
    from fedaudit_client.client import Client

app = Typer()

_COLOURS: dict[GateOutcome, str] = {
    "pass": "green",
    "fail": "red",
    "insufficient_evidence": "yellow",
}
COLOURED: Mapping[GateOutcome, str] = {
    outcome: f"[{colour}]{OUTCOME_WORDS[outcome]}[/{colour}]"
    for outcome, colour in _COLOURS.items()
}
"""An outcome in words, as markup."""


@app.command()
def gate(
    experiment_id: Annotated[str | None, Argument(metavar="[ID]")] = None,
    *,
    policy: Annotated[
        str | None,
        Option(help="A YAML or JSON file of policies (and `experiment_id`); - is stdin."),
    ] = None,
    as_json: AsJson = False,
    junit: Annotated[
        Path | None, Option("--junit", help="Write JUnit to this file as well.")
    ] = None,
    markdown: Annotated[
        Path | None, Option("--markdown", help="Write Markdown to this file as well.")
    ] = None,
) -> None:
    """Exit 0 where the experiment passes its gates, 1 where it fails, 3 where it is not decided."""
    from fedaudit.cli.remote import connected  # a run shows its gates without a service
    from fedaudit_client.errors import NotFoundError

    file = None if policy is None else read_policies(policy)
    experiment_id = experiment_id or (file.experiment_id if file else None)
    if experiment_id is None:
        raise usage_error("gate: name an experiment, or a --policy with an experiment_id")
    with connected() as client:
        try:
            results = _evaluated(client, experiment_id, file)
        except NotFoundError as error:
            raise usage_error(
                f"{error}; an audit has the outcomes in `gates` of its report"
            ) from None
    outcome = overall(results.gates)
    if outcome is None:
        raise usage_error("gate: the experiment's spec has no gate; give some with --policy")
    if junit is not None:
        write_bytes(junit_of(results).encode(), junit)
    if markdown is not None:
        write_bytes(markdown_of(results).encode(), markdown)
    if as_json:
        write_json(results.as_dict())
    else:
        console = standard_output()
        for name, gates in results.evaluations:
            if name is not None:
                console.print(f"[bold]{escape(name)}[/bold]")
            for gate in gates:
                console.print(f"{escape(condition(gate))}: {outcome_text(gate)}")
    raise Exit(gate_exit(outcome))


def _evaluated(client: "Client", experiment_id: str, file: PolicyFile | None) -> GateResults:
    evaluations = []
    for name, own in [(None, None)] if file is None else file.to_evaluate:
        gates = None if own is None else [gate.model_dump(mode="json") for gate in own]
        evaluations.append((name, client.evaluate_gates(experiment_id, gates)["gates"]))
    return GateResults(experiment_id, evaluations)


def outcome_text(gate: Mapping[str, Any]) -> str:
    """How it ended and why, as markup."""
    return f"{COLOURED[gate['outcome']]}: {escape(gate['reason'])}"
