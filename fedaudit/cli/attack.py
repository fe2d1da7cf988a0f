"""The commands `attack` and `replay`: what is tried against a spec, or a run of the service."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, Typer

from fedaudit.attacks.replay.replay_finding import DEFAULT_ROUNDS
from fedaudit.cli import options, output
from fedaudit.cli.remote import connected, is_id
from fedaudit.cli.summary import show_attacks
from fedaudit.privacy.mechanisms.registry import bounds_nothing, mechanism_of
from fedaudit.runs.run import MissingLibraryError, import_worker_extra
from fedaudit_client.client import Client

if TYPE_CHECKING:
    from fedaudit.attacks.replay.replay_finding import ReplayReport

app = Typer()


@app.command()
def attack(
    attacked: Annotated[
        str,
        Argument(
            metavar="SPEC|ID",
            help="A YAML or JSON file (- is stdin), or with --attacks the id of a run that has "
            "succeeded.",
        ),
    ],
    *,
    attacks_from: Annotated[
        str | None,
        Option(
            "--attacks",
            metavar="FILE",
            help="Attack the run of this id in the service: a list of attacks, or a spec with "
            "some; - is stdin.",
        ),
    ] = None,
    wait: Annotated[bool, Option("--wait", help="With --attacks, until they have ended.")] = False,
    as_json: options.AsJson = False,
    out: Annotated[
        Path | None,
        Option(
            "--out", help="Folder for attacks.json and the files of each attack; waits for them."
        ),
    ] = None,
    sources_dir: options.SourcesDir = None,
    device: Annotated[
        str | None, Option(help="Train on cpu, or cuda:0.", show_default="cpu")
    ] = None,
) -> None:
    """Attack a spec that is trained here, or a run of the service: what each tried and found.

    Ends with 1 where an attack raised an alarm, with 3 where one could not be carried out.
    """
    if attacks_from is None:
        if is_id(attacked) and not Path(attacked).exists():
            raise output.usage_error(
                f"{attacked} is an id: name the attacks on that run by --attacks"
            )
        code = _attack(
            attacked, as_json=as_json, out=out, sources_dir=sources_dir, device=device or "cpu"
        )
        raise Exit(code)
    if not is_id(attacked):
        raise output.usage_error(
            f"{attacked} is no id of a run: --attacks is for runs of the service; a spec has its "
            "own under `attacks`"
        )
    if sources_dir is not None or device is not None:
        raise output.usage_error("--sources-dir and --device are for a spec that is trained here")
    wait = wait or out is not None
    raise Exit(_attack_later(attacked, attacks_from, wait=wait, as_json=as_json, out=out))


def _attack(
    source: str, *, as_json: bool, out: Path | None, sources_dir: Path | None, device: str
) -> output.ExitCode:
    from fedaudit.cli.run import run_locally  # the whole library, for runs here alone

    spec = options.read_spec(source)
    if not spec.attacks:
        raise output.usage_error("the spec asks for no attack; name some under `attacks`")
    folder = None if out is None else output.writable_folder(out)
    with output.progress_bars(spec.name, {"rounds": spec.training.rounds}) as progress:
        done = run_locally(
            spec,
            sources_dir=sources_dir or options.sources_dir_of_environment(),
            device=device,
            progress=progress,
        )
    found = done.report["attacks"]
    alarms = sum(one["alarm"] is not None for one in found)
    document = {"experiment": done.report["experiment"], "alarms": alarms, "attacks": found}
    output.write_answer(document, lambda _: show_attacks(found), as_json=as_json)
    if folder is not None:
        _write(document, folder, output.write_attack_files(done.attacks, folder))
    return _exit_code(found, alarms=alarms)


def _attack_later(
    experiment_id: str, attacks: str, *, wait: bool, as_json: bool, out: Path | None
) -> output.ExitCode:
    """Ask for the attacks in a file, and with `wait` say what they found. Raises CommandError."""
    asked = _attacks_in(options.read_value(attacks))
    folder = None if out is None else output.writable_folder(out)
    with connected() as client:
        found = client.attack(experiment_id, asked)
        path = f"experiments/{experiment_id}/attacks/later/{found['id']}"
        said = f"queued {found['id']}, request {found['number']} on this run"
        if wait:
            output.say(said)
            try:
                with output.working(f"attacking {experiment_id}"):
                    found = client.wait_attack(experiment_id, found["id"])
            except KeyboardInterrupt:
                output.say(f"\nit goes on; for what it found: fedaudit api GET {path}")
                output.say(f"to end it: fedaudit api POST {path}/cancel")
                raise
        if folder is not None:
            _write(found, folder, _fetched(client, found, path, folder))
    if as_json:
        output.write_json(found)
    elif wait:
        show_attacks([one["section"] for one in found["items"]])
    else:
        output.say(f"{said}; for what it found: fedaudit api GET {path}")
    if not wait:
        return output.ExitCode.DONE
    if found["status"] != "succeeded":
        why = found["status_detail"] or found["status_reason"] or "no reason is known"
        output.say(f"fedaudit: the attacks are {found['status']}: {why}")
    sections = [one["section"] for one in found["items"]]
    ended = found["status"] == "succeeded"
    return _exit_code(sections, alarms=found["alarms"], ended=ended)


def _attacks_in(value: Any) -> list[Mapping[str, Any]]:
    """Those of a list, or of a spec. What each has to be is checked by the service."""
    found = value.get("attacks") if isinstance(value, Mapping) else value
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise output.usage_error("--attacks: name a list of attacks, or a spec with `attacks`")
    if not found:
        raise output.usage_error("--attacks: the list is empty; name at least one attack")
    return found


def _fetched(client: Client, found: Mapping[str, Any], path: str, folder: Path) -> Iterator[str]:
    """The names of files that are fetched from the service and written."""
    for attack in found["items"]:
        position = attack["position"]
        for file in attack["files"]:
            data = b"".join(client.call("GET", f"{path}/{position}/{file['name']}"))
            # A plain name alone: nothing that a service sends is written outside the folder.
            yield output.write_below(
                folder, f"attacks/{position}/{Path(file['name']).name}", [data]
            )


def _write(document: Mapping[str, Any], folder: Path, files: Iterable[str]) -> None:
    """What was found, beside the files of the attacks."""
    names = [output.write_below(folder, "attacks.json", [output.json_line(document)]), *files]
    output.say(f"{', '.join(names)} in {folder}; they are confidential")


def _exit_code(
    sections: Sequence[Mapping[str, Any]], *, alarms: int, ended: bool = True
) -> output.ExitCode:
    """`ended`: whether every attack was tried."""
    if alarms:
        output.say(f"fedaudit: {alarms} of {len(sections)} attacks raised an alarm")
        return output.ExitCode.FAILED
    is_done = ended and all(one["status"] == "done" for one in sections)
    return output.ExitCode.DONE if is_done else output.ExitCode.NO_EVIDENCE


@app.command()
def replay(
    spec: options.Spec,
    *,
    as_json: options.AsJson = False,
    rounds: Annotated[
        int, Option(min=1, max=10_000, help="Rounds to play, of those of the spec.")
    ] = DEFAULT_ROUNDS,
    sources_dir: options.SourcesDir = None,
    artifact: options.Artifacts = None,
) -> None:
    """Train beside a neighbour with the same coins and noise, and say where a guarantee breaks.

    Exit 0 where nothing is found, 5 where something is. Findings name confidential figures.
    """
    asked = options.read_spec(spec)
    try:
        import_worker_extra()
    except MissingLibraryError as error:
        raise output.CommandError(str(error)) from None
    from fedaudit.attacks.replay.replay import replay  # imports torch, which is there

    found = replay(
        asked,
        sources_dir=sources_dir or options.sources_dir_of_environment(),
        rounds=rounds,
        open_artifact=options.named_contents(artifact or []).get,
    )
    # Some mechanisms have a setting without noise, or bound nothing by theirs.
    kind = mechanism_of(asked).guarantee_kind
    guaranteed = kind != "none" and not bounds_nothing(asked.privacy.mechanism)
    output.write_answer(
        found.as_dict(), lambda _: _show(found, guaranteed=guaranteed), as_json=as_json
    )
    if found.findings:
        raise Exit(output.ExitCode.FOUND)
    # Finding nothing means something where there was something to break.
    evidence = guaranteed and found.rounds > 0
    raise Exit(output.ExitCode.DONE if evidence else output.ExitCode.NO_EVIDENCE)


def _show(found: "ReplayReport", *, guaranteed: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    console = output.standard_output()
    looked = sum(found.checks.values())
    console.print(
        f"{found.mechanism}: {found.rounds} rounds beside a neighbour in which {found.neighbours}"
    )
    if found.findings:
        console.print(f"[bold]Broken at: {found.broken}[/bold]")
        table = Table("stage", "check", "round", "times", "allowed", "measured", box=None)
        for one in found.findings:
            round_ = "all" if one.round is None else str(one.round)
            cells = (one.stage, one.check, round_, str(one.times), one.allowed, one.measured)
            table.add_row(*map(escape, cells))
        console.print(table)
    elif not (guaranteed and found.rounds):
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
