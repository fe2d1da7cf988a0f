"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Where the embedded service keeps everything.", show_default=False
    ),
]
