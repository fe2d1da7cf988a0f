"""The commands and their options. Each imports what it needs when it is called, not before."""

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from fedaudit.cli.artifact_commands import artifacts
from fedaudit.cli.attacks.attack_commands import attacks
from fedaudit.cli.audit_log.audit_log_commands import audit_log
from fedaudit.cli.audits.audit_commands import audits
from fedaudit.cli.display.output import say, write_json, write_line
from fedaudit.cli.experiments.experiment_commands import experiments
from fedaudit.cli.failures import CommandError, ExitCode, usage_error
from fedaudit.cli.federation_commands import federations
from fedaudit.cli.forms import AdjacencyName, NoiseMode, ReportForm, TableForm, TableName
from fedaudit.cli.gates.gate_commands import gates
from fedaudit.cli.key_commands import keys
from fedaudit.cli.ledgers.ledger_commands import ledgers
from fedaudit.cli.options import (
    AsJson,
    DataDir,
    ExperimentId,
    Most,
    Out,
    Sort,
    Where,
    known_reading,
)
from fedaudit.cli.policy_commands import policies
from fedaudit.cli.publish.publish_commands import publish
from fedaudit.cli.replays.replay_commands import replays
from fedaudit.cli.service.signing_key_commands import signing_keys
from fedaudit.cli.sweeps.sweep_commands import sweep_app, sweeps
from fedaudit.cli.webhooks.webhook_commands import webhooks

app = typer.Typer(
    name="fedaudit",
    help="Privacy and fairness audits of federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for group in (experiments, sweep_app, attacks, gates, audits, replays, webhooks):
    app.add_typer(group)
app.add_typer(audit_log, name="audit-log")
app.add_typer(keys, name="keys")
app.add_typer(signing_keys, name="signing-keys")
app.add_typer(federations, name="federations")
app.add_typer(policies, name="policies")
app.add_typer(artifacts, name="artifacts")
app.add_typer(sweeps, name="sweeps")
app.add_typer(ledgers, name="ledgers")
app.add_typer(publish, name="publish")

Spec = Annotated[str, typer.Argument(metavar="SPEC", help="A YAML or JSON file; - is stdin.")]
SourcesDir = Annotated[
    Path | None,
    typer.Option("--sources-dir", help="Specs name their files below this folder."),
]
DEFAULT_PORT = 8765


def main() -> NoReturn:
    """Run the command line; faults of the caller end it with a message and an exit code."""
    from fedaudit.spec.errors import InvalidInputError

    try:
        app()
    except CommandError as error:
        say(f"fedaudit: {error}")
        sys.exit(error.code)
    except InvalidInputError as error:
        from fedaudit.cli.specs import explain

        say(f"fedaudit: {explain(error.errors)}")
        sys.exit(ExitCode.USAGE)
    sys.exit(ExitCode.DONE)


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Privacy and fairness audits of federated learning."""


@app.command()
def up(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port to listen on; 0 takes a free one.",
            show_default=f"{DEFAULT_PORT}; with --json, which tells it, a free one",
        ),
    ] = None,
    data_dir: DataDir = None,
    sources_dir: SourcesDir = None,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the pages in the browser.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start the whole service: API, worker and sweeper. Ctrl-C stops it."""
    from fedaudit.cli.service.installation import Installation
    from fedaudit.cli.service.up import announce, open_pages, running_service

    installation = Installation.choose(data_dir, sources_dir=sources_dir)
    if port is None:
        # A bookmark needs the same address every time; a program reads the one that it is told.
        port = 0 if as_json else DEFAULT_PORT
    with running_service(installation, host=host, port=port) as service:
        announce(service, as_json=as_json)
        if open_browser:
            open_pages(service.url)
        service.tend()
        say("stopping")


@app.command()
def run(
    spec: Spec,
    *,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for report.json, report.html and ledger.ndjson."),
    ] = None,
    sources_dir: SourcesDir = None,
    device: Annotated[str, typer.Option(help="cpu, or cuda:0.")] = "cpu",
    artifact: Annotated[
        list[Path] | None,
        typer.Option(help="A file that the spec's `start: {artifact: ...}` names by its hash."),
    ] = None,
) -> None:
    """Train and audit in this process, without a service, and print the report."""
    from fedaudit.cli.run import run_command

    raise typer.Exit(
        run_command(
            spec,
            as_json=as_json,
            out=out,
            sources_dir=sources_dir,
            device=device,
            artifacts=artifact or [],
        )
    )


@app.command()
def submit(
    spec: Spec,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end.")] = False,
    as_json: AsJson = False,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Submitting again with the same key starts nothing new.")
    ] = None,
) -> None:
    """Hand an experiment to the service at FEDAUDIT_URL."""
    from fedaudit.cli.remote import submit_command

    raise typer.Exit(
        submit_command(spec, wait=wait, as_json=as_json, idempotency_key=idempotency_key)
    )


@app.command()
def watch(experiment_id: ExperimentId, *, as_json: AsJson = False) -> None:
    """Follow an experiment until it ends."""
    from fedaudit.cli.remote import watch_command

    raise typer.Exit(watch_command(experiment_id, as_json=as_json))


@app.command()
def report(
    experiment_id: ExperimentId,
    *,
    form: Annotated[
        ReportForm,
        typer.Option("--format", help="text is for reading here; pdf needs the extra `pdf`."),
    ] = "json",
    reading: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=known_reading,
            help="In the form that its reader has to fill; see docs/readings.md.",
        ),
    ] = None,
    out: Out = None,
) -> None:
    """Fetch the audit report of a finished experiment."""
    from fedaudit.cli.remote import reading_command, report_command

    if reading is None:
        report_command(experiment_id, form=form, out=out)
    elif form == "json":
        reading_command(experiment_id, reading=reading, out=out)
    else:
        raise usage_error("--reading: a reading has a form of its own; leave --format out")


@app.command()
def reports(
    *,
    where: Where = None,
    sort: Sort = None,
    most: Most = 50,
    as_json: AsJson = False,
) -> None:
    """List reports by any of their figures."""
    from fedaudit.cli.queries import reports_command

    reports_command(where or [], sort=sort, most=most, as_json=as_json)


@app.command()
def compare(
    experiment_ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Two to fifty experiments.")
    ],
    *,
    fairness: Annotated[
        str | None, typer.Option(help="The fairness figure of the Pareto fronts.")
    ] = None,
    utility: Annotated[
        str | None, typer.Option(help="Their utility figure: validation_loss or accuracy.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put reports side by side: figures, specs and Pareto fronts."""
    from fedaudit.cli.queries import compare_command

    compare_command(experiment_ids, fairness=fairness, utility=utility, as_json=as_json)


@app.command()
def budget(
    federation_id: Annotated[
        str, typer.Argument(metavar="FEDERATION", help="The federation's id.")
    ],
    *,
    total: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="FIGURE=TOTAL",
            help="leakage, log_ratio or epsilon, and what may be spent of it in all; "
            "`none` takes the total back.",
        ),
    ] = None,
    noise: Annotated[
        NoiseMode,
        typer.Option("--noise", "--book", help="Of which runs: those with this noise."),
    ] = "release",
    delta: Annotated[float | None, typer.Option(help="Of an epsilon.")] = None,
    adjacency: Annotated[AdjacencyName | None, typer.Option(help="Of an epsilon.")] = None,
    observer: Annotated[str | None, typer.Option(help="Of an epsilon, as server.")] = None,
    radius: Annotated[
        str | None, typer.Option(help="Of leakage: adaptive (the default), or a distance.")
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Of leakage: what updates are clipped to.")] = (
        None
    ),
    unit_key: Annotated[
        str | None, typer.Option(help="Whose clients, as client_key=zip; else the first that come.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what may be spent on a federation's data, and what was; or set one total."""
    from fedaudit.cli.budget_command import budget_command

    terms = {
        "delta": delta,
        "adjacency": adjacency,
        "observer": observer,
        "radius": radius,
        "clip": clip,
        "unit_key": unit_key,
    }
    budget_command(federation_id, total=total, noise=noise, terms=terms, as_json=as_json)


@app.command()
def export(
    experiment_id: ExperimentId,
    *,
    what: Annotated[TableName, typer.Option()],
    form: Annotated[TableForm, typer.Option("--format")] = "ndjson",
    out: Out = None,
) -> None:
    """Write an experiment's ledger, rounds, fairness or records to a file or to standard output.

    Records, of record-personalised runs, are there as csv only.
    """
    from fedaudit.cli.export import export_command

    export_command(experiment_id, what=what, form=form, out=out)


@app.command()
def model(
    experiment_id: ExperimentId,
    *,
    out: Out = None,
    layout: Annotated[
        Path | None, typer.Option(help="Confidential: features, scales and classes, in order.")
    ] = None,
) -> None:
    """Write an experiment's trained hypotheses as safetensors.

    They may leave where a proven guarantee covers them and its noise was secret; see
    docs/models.md.
    """
    from fedaudit.cli.model_commands import model_command

    model_command(experiment_id, out=out, layout=layout)


@app.command()
def verify(
    source: Annotated[
        str, typer.Argument(metavar="BUNDLE|ID", help="A file, an experiment, audit or ledger.")
    ],
    *,
    public_key: Annotated[
        Path | None,
        typer.Option(help="PEM of the public keys that you trust, had from elsewhere."),
    ] = None,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Keep the bundle of an ID here.")
    ] = None,
) -> None:
    """Exit 0 where all agrees under a trusted key, 1 where it was altered, 3 without such a key."""
    from fedaudit.cli.verify import verify_command

    raise typer.Exit(verify_command(source, public_key=public_key, as_json=as_json, out=out))


@app.command()
def worker(
    *,
    device: Annotated[str, typer.Option(help="cpu, cuda:0, or cuda:0,1 for one process each.")],
    data_dir: DataDir = None,
    sources_dir: SourcesDir = None,
) -> None:
    """Train what the service's queue hands out, until stopped."""
    from fedaudit.cli.worker import worker_command

    worker_command(device, data_dir=data_dir, sources_dir=sources_dir)


@app.command()
def migrate(*, data_dir: DataDir = None) -> None:
    """Bring the service's database up to this version's schema."""
    from fedaudit.cli.service.installation import Installation

    installation = Installation.choose(data_dir)
    said = installation.migrate().strip()
    write_line(said or "the database is up to date")


@app.command()
def version(*, as_json: AsJson = False) -> None:
    """Print the version."""
    from fedaudit.version import __version__

    if as_json:
        write_json({"version": __version__}, pretty=False)
    else:
        write_line(f"fedaudit {__version__}")


if __name__ == "__main__":
    main()
