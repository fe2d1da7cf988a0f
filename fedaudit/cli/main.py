"""The commands and their options. Each imports what it needs when it is called, not before."""

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from fedaudit.cli.display.output import say, write_json, write_line
from fedaudit.cli.failures import CommandError, ExitCode, usage_error
from fedaudit.cli.federation_commands import federations
from fedaudit.cli.forms import GateForm, ReportForm, TableForm, TableName
from fedaudit.cli.key_commands import keys
from fedaudit.cli.options import AsJson, DataDir, known_reading
from fedaudit.cli.policy_commands import policies

app = typer.Typer(
    name="fedaudit",
    help="Privacy and fairness audits of federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(keys, name="keys")
app.add_typer(federations, name="federations")
app.add_typer(policies, name="policies")

Spec = Annotated[str, typer.Argument(metavar="SPEC", help="A YAML or JSON file; - is stdin.")]
ExperimentId = Annotated[str, typer.Argument(metavar="ID", help="The experiment's id.")]
SourcesDir = Annotated[
    Path | None,
    typer.Option("--sources-dir", help="Specs name their files below this folder."),
]
Out = Annotated[Path | None, typer.Option("--out", help="Write to this file.")]


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


@app.command()
def up(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    data_dir: DataDir = None,
    sources_dir: SourcesDir = None,
    as_json: AsJson = False,
) -> None:
    """Start the whole service: API, worker and sweeper. Ctrl-C stops it."""
    from fedaudit.cli.service.installation import Installation
    from fedaudit.cli.service.up import announce, running_service

    installation = Installation.choose(data_dir, sources_dir=sources_dir)
    with running_service(installation, host=host, port=port) as service:
        announce(service, as_json=as_json)
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
) -> None:
    """Train and audit in this process, without a service, and print the report."""
    from fedaudit.cli.run import run_command

    raise typer.Exit(
        run_command(spec, as_json=as_json, out=out, sources_dir=sources_dir, device=device)
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
    where: Annotated[
        list[str] | None,
        typer.Option(help="As 'accuracy>=0.8', 'attribute=sex'; repeat it. See docs/queries.md."),
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="A figure, time or name; downwards with a minus in front.")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Reports to print.")] = 50,
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
) -> None:
    """Exit 0 where the experiment passes its gates, 1 where it fails, 3 where nobody can say."""
    from fedaudit.cli.gate import gate_command

    if as_json and form not in ("text", "json"):
        raise usage_error("--json: is the same as --format json; give one of the two")
    raise typer.Exit(
        gate_command(
            experiment_id,
            policy=policy,
            policy_name=policy_name,
            form="json" if as_json else form,
            out=out,
        )
    )


@app.command()
def verify(
    source: Annotated[str, typer.Argument(metavar="BUNDLE|ID", help="A file, or an experiment.")],
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
    from fedaudit import __version__

    if as_json:
        write_json({"version": __version__}, pretty=False)
    else:
        write_line(f"fedaudit {__version__}")


if __name__ == "__main__":
    main()
