"""The commands `attack` and `replay`: what is tried against a spec."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedaudit.attacks.replay.replay_finding import DEFAULT_ROUNDS
from fedaudit.cli.options import (
    Artifacts,
    AsJson,
    SourcesDir,
    Spec,
    named_contents,
    read_spec,
    sources_dir_of_environment,
)
from fedaudit.cli.output import (
    CommandError,
    ExitCode,
    json_text,
    progress_bars,
    say,
    standard_output,
    usage_error,
    writable_folder,
    write_attack_files,
    write_json,
)
from fedaudit.cli.summary import show_attacks
from fedaudit.runs.run import MissingLibraryError, import_worker_extra

if TYPE_CHECKING:
    from fedaudit.attacks.replay.replay_finding import ReplayReport

app = typer.Typer()
_ATTACKS = "attacks.json"
"""The sections of all attacks, beside their files."""


@app.command()
def attack(
    spec: Spec,
    *,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for attacks.json and the files of each attack."),
    ] = None,
    sources_dir: SourcesDir = None,
    device: Annotated[str, typer.Option(help="Train on cpu, or cuda:0.")] = "cpu",
) -> None:
    """Train a spec here and carry out its attacks: what each tried, found and does not show.

    Ends with 1 where an attack raised an alarm, with 3 where one could not be carried out.
    """
    raise typer.Exit(
        _attack(spec, as_json=as_json, out=out, sources_dir=sources_dir, device=device)
    )


def _attack(
    source: str, *, as_json: bool, out: Path | None, sources_dir: Path | None, device: str
) -> ExitCode:
    from fedaudit.cli.run import run_locally  # the whole library, for runs here alone

    spec = read_spec(source)
    if not spec.attacks:
        raise usage_error("the spec asks for no attack; name some under `attacks`")
    folder = None if out is None else writable_folder(out)
    with progress_bars(spec.name, {"rounds": spec.training.rounds}) as progress:
        done = run_locally(
            spec,
            sources_dir=sources_dir or sources_dir_of_environment(),
            device=device,
            progress=progress,
        )
    found = done.report["attacks"]
    alarms = sum(one["alarm"] is not None for one in found)
    document = {"experiment": done.report["experiment"], "alarms": alarms, "attacks": found}
    if as_json:
        write_json(document)
    else:
        show_attacks(found)
    if folder is not None:
        (folder / _ATTACKS).write_text(f"{json_text(document)}\n", encoding="utf-8")
        names = [_ATTACKS, *write_attack_files(done.attacks, folder)]
        say(f"{', '.join(names)} in {folder}; they are confidential")
    if alarms:
        say(f"fedaudit: {alarms} of {len(found)} attacks raised an alarm")
        return ExitCode.FAILED
    is_done = all(one["status"] == "done" for one in found)
    return ExitCode.DONE if is_done else ExitCode.NO_EVIDENCE


_UNPROTECTED = "none"
"""The mechanism that promises nothing."""


@app.command()
def replay(
    spec: Spec,
    *,
    as_json: AsJson = False,
    rounds: Annotated[
        int, typer.Option(min=1, max=10_000, help="Rounds to play, of those of the spec.")
    ] = DEFAULT_ROUNDS,
    sources_dir: SourcesDir = None,
    artifact: Artifacts = None,
) -> None:
    """Train beside a neighbour with the same coins and noise, and say where a guarantee breaks.

    Exit 0 where nothing is found, 5 where something is. Findings name confidential figures.
    """
    asked = read_spec(spec)
    try:
        import_worker_extra()
    except MissingLibraryError as error:
        raise CommandError(str(error)) from None
    from fedaudit.attacks.replay.replay import replay  # imports torch, which is there

    found = replay(
        asked,
        sources_dir=sources_dir or sources_dir_of_environment(),
        rounds=rounds,
        open_artifact=named_contents(artifact or []).get,
    )
    if as_json:
        write_json(found.as_dict())
    else:
        _show(found)
    if found.findings:
        raise typer.Exit(ExitCode.FOUND)
    raise typer.Exit(ExitCode.DONE if _is_evidence(found) else ExitCode.NO_EVIDENCE)


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
