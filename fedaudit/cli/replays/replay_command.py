"""Replaying a spec in this process, and what is shown of it."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.cli.display.output import standard_output, write_json
from fedaudit.cli.failures import CommandError, ExitCode
from fedaudit.cli.run import named_contents
from fedaudit.cli.service.installation import SOURCES_DIR
from fedaudit.cli.specs import read_spec
from fedaudit.runs.worker_extra import MissingLibraryError, import_worker_extra

if TYPE_CHECKING:
    from fedaudit.attacks.replay.replay_finding import ReplayReport

_UNPROTECTED = "none"
"""The mechanism that promises nothing."""


def replay_command(
    source: str,
    *,
    as_json: bool,
    rounds: int,
    sources_dir: Path | None,
    artifacts: Sequence[Path],
) -> ExitCode:
    """Replay a spec here and show what was found. Raises InvalidInputError and CommandError."""
    spec = read_spec(source)
    if sources_dir is None and os.environ.get(SOURCES_DIR):
        sources_dir = Path(os.environ[SOURCES_DIR])
    try:
        import_worker_extra()
    except MissingLibraryError as error:
        raise CommandError(str(error)) from None
    from fedaudit.attacks.replay.replay import replay  # imports torch, which is there

    found = replay(
        spec,
        sources_dir=sources_dir,
        rounds=rounds,
        open_artifact=named_contents(artifacts).get,
    )
    if as_json:
        write_json(found.as_dict())
    else:
        _show(found)
    if found.findings:
        return ExitCode.FOUND
    return ExitCode.DONE if _is_evidence(found) else ExitCode.NO_EVIDENCE


def _is_evidence(found: "ReplayReport") -> bool:
    """Whether finding nothing means something: where there was something to break."""
    return found.rounds > 0 and found.mechanism != _UNPROTECTED


def _show(found: "ReplayReport") -> None:
    from rich.markup import escape
    from rich.table import Table

    console = standard_output()
    looked = sum(found.checks.values())
    console.print(
        f"{found.mechanism}: {found.rounds} rounds beside a neighbour in which {found.neighbours}"
    )
    if found.findings:
        console.print(f"[bold]Broken at: {found.broken}[/bold]")
        table = Table("stage", "check", "round", "times", "allowed", "measured", box=None)
        for one in found.findings:
            round_ = "all" if one.round is None else str(one.round)
            told = (one.stage, one.check, round_, str(one.times), one.allowed, one.measured)
            table.add_row(*map(escape, told))
        console.print(table)
    elif not _is_evidence(found):
        console.print(
            "No round releases anything."
            if found.rounds == 0
            else "There is no guarantee that a round could break."
        )
    else:
        console.print(f"Nothing found: {looked} values looked at by {len(found.checks)} checks.")
    console.print(
        f"{found.tests} of the tests are of distributions; a correct run fails any of them with a "
        f"chance of {found.false_alarm:g} at most, over seeds."
    )
    for name in found.unprotected:
        console.print(f"Without noise: {escape(name)}")
