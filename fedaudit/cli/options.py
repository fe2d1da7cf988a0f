"""Options that several commands share, and the values that options may have."""

from pathlib import Path
from typing import Annotated, Literal

import typer

ReportForm = Literal["json", "html", "pdf", "text"]
GateForm = Literal["text", "json", "junit", "markdown"]
TableName = Literal["ledger", "rounds", "fairness", "records"]
TableForm = Literal["csv", "ndjson", "parquet"]
SweepTableForm = Literal["text", "json", "csv", "markdown"]
NoiseMode = Literal["release", "simulation"]
AdjacencyName = Literal["add-or-remove-one", "replace-one"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Where the embedded service keeps everything.",
        show_default="FEDAUDIT_DATA_DIR, else ~/.local/share/fedaudit",
    ),
]
SourcesDir = Annotated[
    Path | None, typer.Option("--sources-dir", help="Specs name their files below this folder.")
]
Spec = Annotated[str, typer.Argument(metavar="SPEC", help="A YAML or JSON file; - is stdin.")]
Artifacts = Annotated[
    list[Path] | None,
    typer.Option(
        "--artifact", help="A file that the spec's `start: {artifact: ...}` names by its hash."
    ),
]
IdempotencyKey = Annotated[
    str | None, typer.Option(help="Submitting again with the same key starts nothing new.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Without asking.")]
OverlapHours = Annotated[
    int, typer.Option(min=0, max=168, help="For how long the old secret is good too.")
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
