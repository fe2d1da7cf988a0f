"""The commands on reports: one in several forms, and what it claims."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, assert_never

import typer

from fedaudit.cli.options import ExperimentId, Out, ReportForm
from fedaudit.cli.output import json_text, say, usage_error, write_bytes
from fedaudit.cli.remote import connected
from fedaudit.publishing.later_found import later_found

if TYPE_CHECKING:
    from fedaudit.reports.readings.readings import ReadingName

app = typer.Typer()


def _known_reading(name: str | None) -> str | None:
    if name is None:
        return None
    # Only where one is asked for: the readings take a second to import.
    from fedaudit.reports.readings.readings import READINGS

    if name not in READINGS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, READINGS))}.")
    return name


@app.command()
def report(
    experiment_id: ExperimentId,
    *,
    form: Annotated[
        ReportForm, typer.Option("--format", help="text is for reading here.")
    ] = "json",
    reading: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=_known_reading,
            help="In the form that its reader has to fill; see docs/readings.md.",
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
    if form == "text" and out is not None:
        raise usage_error("--out: goes with --format json and html; text is for reading here")
    with connected() as client:
        later = later_found(client, experiment_id)
        match form:
            case "text":
                _show(later.judge(client.report(experiment_id)))
            case "html":
                write_bytes(client.report_page(experiment_id, appendix=appendix).encode(), out)
            case "json":
                write_bytes(f"{json_text(client.report(experiment_id))}\n".encode(), out)
            case _:
                assert_never(form)
    if later.alarms:
        say(
            f"fedaudit: {later.alarms} attacks after the report was signed raised an alarm: "
            "do not rely on its guarantee"
        )


def _show(report: Mapping[str, Any]) -> None:
    from fedaudit.cli.summary import show

    show(report)


def _write_reading(experiment_id: str, reading: "ReadingName", *, out: Path | None) -> None:
    with connected() as client:
        found = client.reading(experiment_id, reading)
    text = found if isinstance(found, str) else f"{json_text(found)}\n"
    write_bytes(text.encode(), out)
