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
        "--data-dir",
        help="Where the embedded service keeps everything.",
        show_default="FEDAUDIT_DATA_DIR, else ~/.local/share/fedaudit",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="Write to this file.")]
ExperimentId = Annotated[str, typer.Argument(metavar="ID", help="The experiment's id.")]
Where = Annotated[
    list[str] | None,
    typer.Option(help="As 'accuracy>=0.8', 'attribute=sex'; repeat it. See docs/queries.md."),
]
Sort = Annotated[
    str | None, typer.Option(help="A figure, time or name; downwards with a minus in front.")
]
Most = Annotated[int, typer.Option("--most", min=1, help="How many to print.")]
