"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer


def known_reading(name: str | None) -> str | None:
    """The name, if a reading has it. Raises typer.BadParameter."""
    if name is None:
        return None
    # Only where one is asked for: the readings bring the report along, which takes a second.
    from fedaudit.reports.readings.reading_choice import READINGS

    if name not in READINGS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, READINGS))}.")
    return name


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Where the embedded service keeps everything.", show_default=False
    ),
]
