"""The command below `publish`: reports in MLflow."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from fedaudit.cli.options import AsJson
from fedaudit.cli.output import CommandError, ExitCode, say, usage_error, write_json, write_line
from fedaudit.cli.remote import connected
from fedaudit.publishing.mlflow_runs import Registration, publish_to_mlflow
from fedaudit.publishing.publication import Publication, PublishingError, from_file, from_service

_MLFLOW_SETTINGS = {
    # A mistyped address is reported within seconds rather than minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    # Otherwise on standard output, in front of our JSON.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # Of the library itself: who uses what of it.
    "MLFLOW_DISABLE_TELEMETRY": "true",
}

app = Typer(no_args_is_help=True)

Source = Annotated[
    str,
    Argument(
        metavar="ID|REPORT.json", help="An experiment or ledger at FEDAUDIT_URL, or a report file."
    ),
]
WithLedger = Annotated[
    bool, Option("--with-ledger", help="The ledger too, which is confidential; needs ledger:read.")
]


@app.command("mlflow")
def publish_mlflow(
    source: Source,
    *,
    tracking_uri: Annotated[
        str, Option(envvar="MLFLOW_TRACKING_URI", help="Of the MLflow server, or a store.")
    ],
    experiment: Annotated[
        str, Option(envvar="MLFLOW_EXPERIMENT_NAME", help="MLflow's experiment.")
    ] = "fedaudit",
    with_ledger: WithLedger = False,
    registered_model: Annotated[
        str | None, Option(help="A version of this registered model too.")
    ] = None,
    alias: Annotated[
        str | None, Option(help="Of the version, only if all gates passed; else exit code 1.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a run: figures by round, spec, report and readings. Repeating it repeats nothing."""
    if alias is not None and registered_model is None:
        raise usage_error("--alias: name the model too, by --registered-model")
    registration = None if registered_model is None else Registration(registered_model, alias)
    for name, value in _MLFLOW_SETTINGS.items():
        os.environ.setdefault(name, value)
    import_module("mlflow")  # before anything is fetched
    try:
        with _publication(source, with_ledger=with_ledger) as found:
            run = publish_to_mlflow(
                found, tracking_uri=tracking_uri, experiment=experiment, registration=registration
            )
            reason, passed = found.model_reason, found.passed
    except PublishingError as error:
        raise CommandError(str(error), ExitCode.FAILED) from None
    if as_json:
        given = alias if passed and run.version else None
        write_json({**asdict(run), "model_reason": reason, "alias": given})
    else:
        write_line(run.url or run.run_id)
        state = "a new run" if run.created else "the run was there already"
        say(f"{state}: {run.metrics_written} values and {run.files_written} files were written")
        if reason is not None:
            say(f"no model was published: {reason}")
    if alias is not None and not (passed and run.version):
        why = (
            "gates did not pass, or an attack raised an alarm"
            if run.version
            else "no model was published"
        )
        raise CommandError(f"the alias {alias} was not set: {why}", ExitCode.FAILED)


@contextmanager
def _publication(source: str, *, with_ledger: bool) -> Iterator[Publication]:
    if not (source.endswith(".json") or "/" in source or Path(source).is_file()):
        with connected() as client, from_service(client, source, with_ledger=with_ledger) as found:
            yield found
    elif with_ledger:
        raise usage_error("--with-ledger: a report file has no ledger; give the experiment's id")
    else:
        with from_file(Path(source)) as found:
            yield found
