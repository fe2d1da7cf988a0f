"""The commands below `publish` and their options."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.options import AsJson

publish = typer.Typer(
    help="Send a report to the tools that a team has: MLflow, Weights & Biases, OpenLineage.",
    no_args_is_help=True,
)

Source = Annotated[
    str,
    typer.Argument(
        metavar="ID|REPORT.json", help="An experiment at FEDAUDIT_URL, or a report file."
    ),
]
WithLedger = Annotated[
    bool,
    typer.Option("--with-ledger", help="The ledger too, which is confidential; needs ledger:read."),
]


@publish.command("mlflow")
def publish_mlflow(
    source: Source,
    *,
    tracking_uri: Annotated[
        str,
        typer.Option(envvar="MLFLOW_TRACKING_URI", help="Of the MLflow server, or a store."),
    ],
    experiment: Annotated[
        str, typer.Option(envvar="MLFLOW_EXPERIMENT_NAME", help="MLflow's experiment.")
    ] = "fedaudit",
    with_ledger: WithLedger = False,
    as_json: AsJson = False,
) -> None:
    """Write a run: figures by round, spec, report and readings. Repeating it repeats nothing."""
    from fedaudit.cli.publish.publish_actions import mlflow_command

    mlflow_command(
        source,
        tracking_uri=tracking_uri,
        experiment=experiment,
        with_ledger=with_ledger,
        as_json=as_json,
    )


@publish.command("wandb")
def publish_wandb(
    source: Source,
    *,
    out: Annotated[Path, typer.Option("--out", help="The folder that gets `wandb/`.")] = Path(),
    project: Annotated[
        str, typer.Option(envvar="WANDB_PROJECT", help="The W&B project.")
    ] = "fedaudit",
    with_ledger: WithLedger = False,
    as_json: AsJson = False,
) -> None:
    """Write an offline run of Weights & Biases, which `wandb sync` sends."""
    from fedaudit.cli.publish.publish_actions import wandb_command

    wandb_command(source, out=out, project=project, with_ledger=with_ledger, as_json=as_json)


@publish.command("openlineage")
def publish_openlineage(
    source: Source,
    *,
    url: Annotated[
        str, typer.Option(envvar="OPENLINEAGE_URL", help="Of the receiver, as Marquez.")
    ],
    api_key: Annotated[
        str | None, typer.Option(envvar="OPENLINEAGE_API_KEY", help="A bearer token.")
    ] = None,
    namespace: Annotated[
        str, typer.Option(envvar="OPENLINEAGE_NAMESPACE", help="Of the job.")
    ] = "fedaudit",
    as_json: AsJson = False,
) -> None:
    """Send how the experiment began and ended, with its gates as tests."""
    from fedaudit.cli.publish.publish_actions import openlineage_command

    openlineage_command(source, url=url, api_key=api_key, namespace=namespace, as_json=as_json)
