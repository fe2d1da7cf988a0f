"""The command `audit` and its options."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.options import AsJson

audits = typer.Typer()


@audits.command()
def audit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV or Parquet table.")],
    *,
    truth: Annotated[str, typer.Option(metavar="COLUMN", help="What came about.")],
    sensitive: Annotated[
        list[str], typer.Option(metavar="COLUMN", help="Groups to compare; repeat it.")
    ],
    favourable: Annotated[
        list[str],
        typer.Option(metavar="VALUE", help="Of the truth: what is good for people; repeat it."),
    ],
    prediction: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="What was predicted.")
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Or a score of the favourable outcome."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="From which score up it is predicted.")
    ] = None,
    intersection: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,COLUMN", help="Groups of several attributes; repeat it."),
    ] = None,
    edges: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=NUMBER,...", help="Where a number is cut; repeat it."),
    ] = None,
    client_key: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Whose a row is.")
    ] = None,
    minimum_group_size: Annotated[
        int, typer.Option(help="Groups of fewer rows are suppressed.")
    ] = 30,
    drop_missing: Annotated[
        bool,
        typer.Option("--drop-missing", help="Leave rows without truth or prediction out."),
    ] = False,
    labels: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Words for codes: {sex: {'1': male}}, YAML or JSON."),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="FILE", help="Gates, as `gate --policy` takes them.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Of the report; the file's otherwise.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for report.json and report.html.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare predictions with the truth, group by group, in this process; nothing is trained.

    Exits 0 where the gates of --policy pass or there are none, 1 where one fails, 3 where nobody
    can say.
    """
    from fedaudit.cli.audits.audit_command import audit_command, parsed_edges

    raise typer.Exit(
        audit_command(
            file,
            {
                "name": name or file.name,
                "truth": truth,
                "prediction": prediction,
                "score": score,
                "threshold": threshold,
                "sensitive": sensitive,
                "intersections": [one.split(",") for one in intersection or []],
                "edges": parsed_edges(edges or []),
                "favourable": favourable,
                "client_key": client_key,
                "minimum_group_size": minimum_group_size,
                "missing": "drop-row" if drop_missing else "reject",
            },
            labels=labels,
            policy=policy,
            out=out,
            as_json=as_json,
        )
    )
