"""The command `audit`: the predictions in a file, without a service."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import uuid_utils

from fedaudit.audits.audit_material import AuditRequest, audit_report
from fedaudit.audits.audit_table import read_audit
from fedaudit.cli.options import AsJson, read_policies, read_value
from fedaudit.cli.output import (
    CommandError,
    ExitCode,
    gate_exit,
    json_text,
    say,
    usage_error,
    working,
    writable_folder,
    write_json,
)
from fedaudit.cli.summary import show_audit
from fedaudit.federations.reading.source_files import Files
from fedaudit.reports.page.html import render_audit
from fedaudit.reports.sections.fairness import FiguresDisagreeError
from fedaudit.spec.audits import parse_audit
from fedaudit.spec.fairness import joined_in, left_out_in

app = typer.Typer()
_KEY_BYTES = 32
T = TypeVar("T")


@app.command()
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
        str | None, typer.Option(metavar="COLUMN", help="Or a score of the favourable outcome.")
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
    groups: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'COLUMN: GROUP = VALUE, ...'", help="Values joined into one group; repeat it."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="'COLUMN: VALUE, ...'", help="Rows that no figure counts; repeat it."),
    ] = None,
    client_key: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Whose a row is.")
    ] = None,
    minimum_group_size: Annotated[
        int, typer.Option(help="Groups of fewer rows are suppressed.")
    ] = 30,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave rows without truth or prediction out.")
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

    Exits 0 where the gates of --policy pass or there are none, 1 where one fails, 3 where the
    evidence does not suffice.
    """
    raise typer.Exit(
        _audit(
            file,
            {
                "name": name or file.name,
                "truth": truth,
                "prediction": prediction,
                "score": score,
                "threshold": threshold,
                "sensitive": sensitive,
                "intersections": [one.split(",") for one in intersection or []],
                "edges": _edges(edges or []),
                "groups": _values("--groups", joined_in, groups or []),
                "exclude": _values("--exclude", left_out_in, exclude or []),
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


def _audit(
    file: Path,
    asked: Mapping[str, Any],
    *,
    labels: str | None,
    policy: str | None,
    out: Path | None,
    as_json: bool,
) -> ExitCode:
    """Audit a table and show the report. Raises InvalidInputError and CommandError."""
    named = () if policy is None else read_policies(policy).to_evaluate
    gates = [gate for one in named for gate in one.gates]
    spec = parse_audit(
        {
            **asked,
            "path": file.name,
            "labels": {} if labels is None else read_value(labels),
            "gates": [gate.model_dump(mode="json") for gate in gates],
        }
    )
    folder = None if out is None else writable_folder(out)
    started = datetime.now(UTC)
    try:
        with working(f"auditing {file.name}"):
            rows = read_audit(spec, files=Files(file.parent))
            report = audit_report(
                rows,
                AuditRequest(
                    audit_id=str(uuid_utils.uuid7()),
                    started_at=started,
                    rounding_key=secrets.token_bytes(_KEY_BYTES),
                ),
            )
    except ImportError as error:
        raise CommandError(
            f"the figures are computed a second time by Fairlearn, which cannot be imported "
            f"({error}): pip install 'fedaudit[worker]'"
        ) from None
    except FiguresDisagreeError as error:
        raise CommandError(f"the audit failed: {error}") from None
    if folder is not None:
        (folder / "report.json").write_text(f"{json_text(report)}\n", encoding="utf-8")
        (folder / "report.html").write_text(render_audit(report), encoding="utf-8")
        say(f"report.json and report.html are in {folder}")
    if as_json:
        write_json(report)
    else:
        show_audit(report)
    return gate_exit(report["gate_outcome"])


def _values(option: str, read: Callable[[Sequence[str]], T], given: Sequence[str]) -> T:
    """What the texts of an option say. Raises CommandError."""
    try:
        return read(given)
    except ValueError as error:
        raise usage_error(f"{option}: {error}") from None


def _edges(given: Sequence[str]) -> dict[str, list[float]]:
    """The edges of `age=40,60`, by column. Raises CommandError."""
    found = {}
    for one in given:
        column, _, numbers = one.rpartition("=")
        try:
            found[column] = [float(number) for number in numbers.split(",")]
        except ValueError:
            raise usage_error(f"--edges: {one!r} is not as age=40,60") from None
    return found
