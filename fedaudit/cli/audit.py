"""The command `audit`: the predictions in a file, without a service."""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import uuid_utils
from typer import Argument, Exit, Option, Typer

from fedaudit.audits.audit_material import audit_report
from fedaudit.audits.audit_table import read_audit
from fedaudit.cli import output
from fedaudit.cli.options import AsJson, read_policies, read_value
from fedaudit.cli.summary import show_audit
from fedaudit.federations.reading.source_files import Files
from fedaudit.reports.page.html import render
from fedaudit.reports.sections.fairness import FiguresDisagreeError
from fedaudit.spec.audits import parse_audit
from fedaudit.spec.table import TABLE_FORMATS

app = Typer()
_KEY_BYTES = 32


@app.command()
def audit(
    file: Annotated[
        Path,
        Argument(metavar="FILE", help=f"A {TABLE_FORMATS} table.", exists=True, dir_okay=False),
    ],
    *,
    truth: Annotated[str, Option(metavar="COLUMN", help="What came about.")],
    sensitive: Annotated[list[str], Option(metavar="COLUMN", help="Groups to compare; repeat it.")],
    favourable: Annotated[
        list[str], Option(metavar="VALUE", help="Of the truth: what is good for people; repeat it.")
    ],
    prediction: Annotated[str | None, Option(metavar="COLUMN", help="What was predicted.")] = None,
    score: Annotated[
        str | None, Option(metavar="COLUMN", help="Or a score of the favourable outcome.")
    ] = None,
    threshold: Annotated[float | None, Option(help="From which score up it is predicted.")] = None,
    client_key: Annotated[str | None, Option(metavar="COLUMN", help="Whose a row is.")] = None,
    more: Annotated[
        str | None,
        Option("--spec", metavar="FILE", help="What else docs/audits.md lists; - is stdin."),
    ] = None,
    policy: Annotated[
        str | None, Option(metavar="FILE", help="Gates, as `gate --policy` takes them.")
    ] = None,
    out: Annotated[
        Path | None, Option("--out", help="Folder for report.json and report.html.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare predictions with the truth, group by group, in this process; nothing is trained.

    Exits 0 where the gates of --policy pass or there are none, 1 where one fails, 3 where the
    evidence does not suffice.
    """
    given = {
        "truth": truth,
        "prediction": prediction,
        "score": score,
        "threshold": threshold,
        "sensitive": sensitive,
        "favourable": favourable,
        "client_key": client_key,
    }
    asked = {} if more is None else read_value(more)
    if not isinstance(asked, Mapping):
        raise output.usage_error(f"--spec: {more} has no fields of an audit")
    asked = {"name": file.name, **asked}
    asked |= {name: value for name, value in given.items() if value is not None}
    raise Exit(_audit(file, asked, policy=policy, out=out, as_json=as_json))


def _audit(
    file: Path, asked: Mapping[str, Any], *, policy: str | None, out: Path | None, as_json: bool
) -> output.ExitCode:
    """Audit a table and show the report. Raises InvalidInputError and CommandError."""
    asked = {**asked, "path": file.name}
    if policy is not None:
        gates = [gate for _, own in read_policies(policy).to_evaluate for gate in own]
        asked["gates"] = [gate.model_dump(mode="json") for gate in gates]
    spec = parse_audit(asked)
    folder = None if out is None else output.writable_folder(out)
    started = datetime.now(UTC)
    try:
        with output.working(f"auditing {file.name}"):
            rows = read_audit(spec, files=Files(file.parent))
            report = audit_report(
                rows,
                audit_id=str(uuid_utils.uuid7()),
                started_at=started,
                rounding_key=secrets.token_bytes(_KEY_BYTES),
            )
    except FiguresDisagreeError as error:
        raise output.CommandError(f"the audit failed: {error}") from None
    try:
        output.write_answer(report, show_audit, as_json=as_json)
    finally:  # What cannot be printed is written all the same.
        if folder is not None:
            output.write_bytes(output.json_line(report), folder / "report.json")
            output.write_bytes(render(report).encode(), folder / "report.html")
    return output.gate_exit(report["gate_outcome"])
