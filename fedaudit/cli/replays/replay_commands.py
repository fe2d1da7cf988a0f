"""The command `replay` and its options."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.attacks.replay.replay_finding import DEFAULT_ROUNDS
from fedaudit.cli.options import AsJson

replays = typer.Typer()


@replays.command("replay")
def replay(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A YAML or JSON file; - is stdin.")],
    *,
    as_json: AsJson = False,
    rounds: Annotated[
        int, typer.Option(min=1, max=10_000, help="Rounds to play, of those of the spec.")
    ] = DEFAULT_ROUNDS,
    sources_dir: Annotated[
        Path | None,
        typer.Option("--sources-dir", help="Specs name their files below this folder."),
    ] = None,
    artifact: Annotated[
        list[Path] | None,
        typer.Option(help="A file that the spec's `start: {artifact: ...}` names by its hash."),
    ] = None,
) -> None:
    """Train beside a neighbour with the same coins and noise, and say where a guarantee breaks.

    Exit 0 where nothing is found, 5 where something is. Findings name confidential figures.
    """
    from fedaudit.cli.replays.replay_command import replay_command

    raise typer.Exit(
        replay_command(
            spec,
            as_json=as_json,
            rounds=rounds,
            sources_dir=sources_dir,
            artifacts=artifact or [],
        )
    )
