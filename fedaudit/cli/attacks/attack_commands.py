"""The command `attack`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.failures import ExitCode, usage_error
from fedaudit.cli.options import AsJson

attacks = typer.Typer()


@attacks.command()
def attack(
    attacked: Annotated[
        str,
        typer.Argument(
            metavar="SPEC|ID",
            help="A YAML or JSON file (- is stdin), or with --attacks the id of a run that has "
            "succeeded.",
        ),
    ],
    *,
    attacks_from: Annotated[
        str | None,
        typer.Option(
            "--attacks",
            metavar="FILE",
            help="Attack the run of this id in the service: a list of attacks, or a spec with "
            "some; - is stdin.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="With --attacks, until they have ended.")
    ] = False,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for attacks.json and the files of each attack."),
    ] = None,
    sources_dir: Annotated[
        Path | None,
        typer.Option("--sources-dir", help="Specs name their files below this folder."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Train on cpu, or cuda:0.", show_default="cpu")
    ] = None,
) -> None:
    """Train a spec here and carry out its attacks: what each tried, found and does not show.

    With --attacks a run of the service is attacked that has succeeded. Ends with 1 where an attack
    raised an alarm, with 3 where one could not be carried out.
    """
    from fedaudit.cli.attacks.later_attack import attack_later, is_id

    if attacks_from is None:
        if wait:
            raise usage_error("--wait: goes with --attacks, for a run of the service")
        if is_id(attacked) and not Path(attacked).exists():
            raise usage_error(f"{attacked} is an id: name the attacks on that run by --attacks")
        code = _attack(
            attacked, as_json=as_json, out=out, sources_dir=sources_dir, device=device or "cpu"
        )
        raise typer.Exit(code)
    if not is_id(attacked):
        raise usage_error(
            f"{attacked} is no id of a run: --attacks is for runs of the service, and the attacks "
            "on a spec stand in it"
        )
    if sources_dir is not None or device is not None:
        raise usage_error("--sources-dir and --device are for a spec that is trained here")
    if out is not None and not wait:
        raise usage_error("--out: goes with --wait, since nothing is found before the end")
    raise typer.Exit(attack_later(attacked, attacks_from, wait=wait, as_json=as_json, out=out))


def _attack(
    source: str, *, as_json: bool, out: Path | None, sources_dir: Path | None, device: str
) -> ExitCode:
    # Only now: these bring the whole library along, which other commands need not wait for.
    from fedaudit.cli.attacks.attack_output import ATTACKS, write_attack_files
    from fedaudit.cli.display.output import json_text, say, writable_folder, write_json
    from fedaudit.cli.display.progress import rounds_bar
    from fedaudit.cli.display.summary import show_attacks
    from fedaudit.cli.local_run import run_locally
    from fedaudit.cli.service.installation import SOURCES_DIR
    from fedaudit.cli.specs import read_spec

    spec = read_spec(source)
    if not spec.attacks:
        raise usage_error("the spec asks for no attack; name some under `attacks`")
    folder = None if out is None else writable_folder(out)
    if sources_dir is None and os.environ.get(SOURCES_DIR):
        sources_dir = Path(os.environ[SOURCES_DIR])
    with rounds_bar(spec.name, total=spec.training.rounds) as progress:
        done = run_locally(spec, sources_dir=sources_dir, device=device, progress=progress)
    found = done.report["attacks"]
    alarms = sum(one["alarm"] is not None for one in found)
    document = {"experiment": done.report["experiment"], "alarms": alarms, "attacks": found}
    if as_json:
        write_json(document)
    else:
        show_attacks(found)
    if folder is not None:
        (folder / ATTACKS).write_text(f"{json_text(document)}\n", encoding="utf-8")
        names = [ATTACKS, *write_attack_files(done.attacks, folder)]
        say(f"{', '.join(names)} in {folder}; they are confidential")
    if alarms:
        say(f"fedaudit: {alarms} of {len(found)} attacks raised an alarm")
        return ExitCode.FAILED
    is_done = all(one["status"] == "done" for one in found)
    return ExitCode.DONE if is_done else ExitCode.NO_EVIDENCE
