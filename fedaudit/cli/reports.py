"""The commands on reports: one in several forms, and what it claims."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from fedaudit.cli.options import ExperimentId, Out, ReportForm
from fedaudit.cli.output import json_text, say, usage_error, write_bytes
from fedaudit.cli.remote import connected

if TYPE_CHECKING:
    from fedaudit.reports.readings.readings import ReadingName

app = typer.Typer()


@app.command()
def report(
    experiment_id: ExperimentId,
    *,
    form: Annotated[ReportForm, typer.Option("--format")] = "json",
    reading: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="In the form that its reader has to fill; see docs/readings.md."
        ),
    ] = None,
    appendix: Annotated[
        bool,
        typer.Option("--appendix", help="With --format html: the figures of every round as well."),
    ] = False,
    out: Out = None,
) -> None:
    """Fetch the audit report of a finished experiment."""
    if reading is not None:
        if form != "json":
            raise usage_error("--reading: a reading has its own form; leave --format out")
        _write_reading(experiment_id, reading, out=out)
        return
    if appendix and form != "html":
        raise usage_error("--appendix: goes with --format html")
    with connected() as client:
        later = client.later_attacks(experiment_id)["items"]
        match form:
            case "html":
                write_bytes(client.report_page(experiment_id, appendix=appendix).encode(), out)
            case "json":
                write_bytes(f"{json_text(client.report(experiment_id))}\n".encode(), out)
            case _:
                assert_never(form)
    found = [attack["section"].get("alarm") for one in later for attack in one["items"]]
    if alarms := sum(alarm is not None for alarm in found):
        say(
            f"fedaudit: {alarms} attacks after the report was signed raised an alarm: "
            "do not rely on its guarantee"
        )


def _write_reading(experiment_id: str, reading: "ReadingName", *, out: Path | None) -> None:
    with connected() as client:
        found = client.reading(experiment_id, reading)
    text = found if isinstance(found, str) else f"{json_text(found)}\n"
    write_bytes(text.encode(), out)
