"""The command `run`."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.display.output import (
    json_text,
    rounds_bar,
    say,
    writable_folder,
    write_attack_files,
    write_json,
)
from fedaudit.cli.display.summary import show
from fedaudit.cli.failures import ExitCode, gate_exit
from fedaudit.cli.local_run import LocalRun, run_locally
from fedaudit.cli.options import Artifacts, AsJson, SourcesDir, Spec
from fedaudit.cli.specs import named_contents, read_spec, sources_dir_of_environment
from fedaudit.reports.page.html import render
from fedaudit.reports.readings.readings import reading

app = typer.Typer()
_RECORD_TABLE, _MODEL, _CARD = "record-table.csv", "model.safetensors", "model-card.md"
_LAYOUT, _SALT = "model-layout.json", "ledger-salt.json"


@app.command()
def run(
    spec: Spec,
    *,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for report.json, report.html and ledger.ndjson."),
    ] = None,
    sources_dir: SourcesDir = None,
    device: Annotated[str, typer.Option(help="cpu, or cuda:0.")] = "cpu",
    artifact: Artifacts = None,
) -> None:
    """Train and audit in this process, without a service, and print the report."""
    asked = read_spec(spec)
    folder = None if out is None else writable_folder(out)
    with rounds_bar(asked.name, total=asked.training.rounds_played) as progress:
        done = run_locally(
            asked,
            sources_dir=sources_dir or sources_dir_of_environment(),
            device=device,
            progress=progress,
            open_artifact=named_contents(artifact or []).get,
        )
    if folder is not None:
        _save(done, folder)
    if as_json:
        write_json(done.report)
    else:
        show(done.report)
    raise typer.Exit(_outcome(done))


def _outcome(done: LocalRun) -> ExitCode:
    if done.report["experiment"]["status"] == "failed":
        say(f"fedaudit: the run failed ({done.report['utility']['stopped_by']})")
        return ExitCode.FAILED
    if alarms := sum(one["alarm"] is not None for one in done.report["attacks"]):
        say(f"fedaudit: {alarms} of {len(done.report['attacks'])} attacks raised an alarm")
        return ExitCode.FAILED
    return gate_exit(done.report["gate_outcome"])


def _save(done: LocalRun, folder: Path) -> None:
    (folder / "report.json").write_text(f"{json_text(done.report)}\n", encoding="utf-8")
    page = render(done.report, done.series)
    (folder / "report.html").write_text(page, encoding="utf-8")
    with (folder / "ledger.ndjson").open("w", encoding="utf-8") as ledger:
        ledger.writelines(f"{json_text(line, pretty=False)}\n" for line in done.ledger.lines())
    names = ["report.json", "report.html", "ledger.ndjson"]
    if done.salt is not None:
        (folder / _SALT).write_text(f"{json_text({'salt': done.salt.hex()})}\n", encoding="utf-8")
        names.append(_SALT)
    names += write_attack_files(done.attacks, folder)
    if done.records is not None:
        with (folder / _RECORD_TABLE).open("wb") as table:
            table.writelines(done.records.csv(done.client_names))
        names.append(_RECORD_TABLE)
    if isinstance(done.model, str):
        say(f"no model is written: {done.model}")
    else:
        (folder / _MODEL).write_bytes(done.model.data)
        (folder / _CARD).write_text(str(reading(done.report, "model-card")), encoding="utf-8")
        (folder / _LAYOUT).write_text(f"{json_text(done.model.layout)}\n", encoding="utf-8")
        names += [_MODEL, _CARD, _LAYOUT]
    say(f"{', '.join(names[:-1])} and {names[-1]} are in {folder}")
