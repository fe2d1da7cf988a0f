"""`fedaudit run`: one experiment, with all of its seeds, in this process and without a service."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import uuid_utils
from typer import Exit, Option, Typer

from fedaudit.attacks.feasibility import check_attacks
from fedaudit.cli import options, output
from fedaudit.cli.summary import show
from fedaudit.federations.load import check_agreement, load_federation
from fedaudit.federations.reading.source_files import DataRoom, Files
from fedaudit.federations.split import training_clients
from fedaudit.privacy.mechanisms.spec_doubts import spec_doubts
from fedaudit.reports.charts.report_charts import Series
from fedaudit.reports.page.html import render
from fedaudit.reports.readings.readings import reading
from fedaudit.reports.sections.fairness import FiguresDisagreeError
from fedaudit.reports.sections.material import ModelFile, ReportMaterial
from fedaudit.reports.sections.other_runs import SweepSection
from fedaudit.runs import experiment_plan
from fedaudit.runs.blocks import MemorySink
from fedaudit.runs.report_material import checked_report, report_material
from fedaudit.runs.run import MissingLibraryError, Run, import_worker_extra, new_run
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.stored import CellPlace, ReservedCost
from fedaudit.sweeps import report_section
from fedaudit.sweeps.sweep_costs import sweep_facts
from fedaudit.training.base.cell import Cell, stacks
from fedaudit.training.base.rounds import FinalResult, has_diverged

if TYPE_CHECKING:
    from fedaudit.attacks.attack import AttackOutcome
    from fedaudit.attacks.canaries.canary_attack import CanaryAudit

_MEMORY = "FEDAUDIT_MAX_DATA_MEMORY_BYTES"


@dataclass(frozen=True)
class _Played:
    """A run that has come to its end."""

    run: Run
    ledger: MemorySink
    """What every subject spent, and the figures of every round."""
    result: FinalResult
    device: str
    audit: "CanaryAudit | None"


@dataclass(frozen=True)
class LocalRun(_Played):
    """A finished run, with what was made of it."""

    report: dict[str, Any]
    model: ModelFile | str
    """Its trained hypotheses, or why they may not leave."""
    attacks: tuple["AttackOutcome", ...]
    """What each attack of the spec found, with its confidential files."""

    @property
    def series(self) -> Series:
        """The figures of each round."""
        every = self.run.spec.training.stopping.validate_every
        return self.ledger.series(validate_every=every)


def run_locally(
    spec: ExperimentSpec,
    *,
    sources_dir: Path | None,
    device: str,
    progress: Callable[[int], None],
    open_artifact: experiment_plan.OpenArtifact = experiment_plan.no_artifacts,
) -> LocalRun:
    """Train, keep the ledger, carry out the attacks and assemble the report.

    `progress` is given the rounds done. Raises InvalidInputError where the spec does not fit its
    data, and CommandError where this machine cannot train.
    """
    started = datetime.now(UTC)
    files = Files(sources_dir, room=_room())
    loaded = {spec.seed: load_federation(spec, files=files)}
    check_agreement(spec, loaded[spec.seed], new=True)
    spec = experiment_plan.with_solved_noise(spec, loaded[spec.seed])
    runs = []
    for one in report_section.repeated(spec) or [spec]:
        if spec.federation.traits.draws_data and one.seed not in loaded:
            loaded[one.seed] = load_federation(one, files=files)
        federation = loaded.get(one.seed, loaded[spec.seed])
        # Another seed may deal other clients, with which the noise has to meet the target too.
        cell = experiment_plan.with_start(
            Cell(experiment_plan.with_solved_noise(one, federation), federation), open_artifact
        )
        check_attacks(cell)
        runs.append(new_run(cell, experiment_id=str(uuid_utils.uuid7()), started_at=started))
        experiment_plan.refuse_without_room(runs[-1].spec, runs[-1].ledger.ledger_context)
    output.show_warnings(
        spec_doubts(
            runs[0].spec,
            training_clients=training_clients(runs[0].federation.clients, spec.federation),
            rows=runs[0].federation.rows,
        )
    )
    # Others first: the report of the run that was asked for speaks of them.
    found: list[report_section.SeedFigures] = []
    others = runs[1:]
    for positions in stacks([one.cell for one in others]):
        group = [others[position] for position in positions]
        found += [
            _seed_figures(other.run, _report(other)[0])
            for other in _play(group, device=device, progress=progress)
            if not has_diverged(other.result.stopped_by)
        ]
    [played] = _play(runs[:1], device=device, progress=progress)
    attacks = _carry_out(played)
    report, material = _report(played, sweep=_sweep_section(runs), attacks=attacks)
    if len(runs) > 1:
        own = _seed_figures(played.run, report)
        section = report_section.repeats_section([own, *found], asked=spec.repeats)
        report = report_section.with_repeats(report, section, gates=spec.gates)
    return LocalRun(**vars(played), report=report, model=material.model, attacks=attacks)


def _carry_out(played: _Played) -> "tuple[AttackOutcome, ...]":
    if not played.run.spec.attacks:
        return ()
    from fedaudit.attacks.attack import AttackedRun  # imports torch, which is there
    from fedaudit.attacks.carried_out import AttackWatch, carry_out

    attacked = AttackedRun(played.run, played.result, played.device)
    return tuple(carry_out(attacked, watch=AttackWatch(), audit=played.audit))


def _report(
    played: _Played, *, sweep: SweepSection | None = None, attacks: "Sequence[AttackOutcome]" = ()
) -> tuple[dict[str, Any], ReportMaterial]:
    from fedaudit.training.engine import backend

    device = played.device
    material = report_material(
        played.run,
        played.result,
        played.ledger.rows_of_round,
        device=device,
        backend=backend(device),
    )
    material = replace(material, sweep=sweep, attacks=[one.section for one in attacks])
    try:
        return checked_report(material, played.result), material
    except FiguresDisagreeError as error:
        raise output.CommandError(f"the run failed: {error}") from None


def _seed_figures(run: Run, document: dict[str, Any]) -> report_section.SeedFigures:
    return report_section.SeedFigures(
        run.spec.seed, run.experiment_id, report_section.shown_figures(document)
    )


def _sweep_section(runs: Sequence[Run]) -> SweepSection | None:
    """What all seeds cost together; None for one."""
    if len(runs) < 2:
        return None
    spec = runs[0].spec
    facts = sweep_facts([(run.spec, run.ledger.ledger_context) for run in runs])
    reserved = [
        ReservedCost(
            experiment_id=run.experiment_id, federation_id=run.federation.fingerprint, **vars(cost)
        )
        for run in runs
        for cost in experiment_plan.planned_costs(run.spec, run.ledger.ledger_context)
    ]
    place = CellPlace(
        sweep_id=runs[0].experiment_id,
        name=spec.name,
        cells=len(runs),
        position=0,
        values={"seed": spec.seed},
        facts=facts,
    )
    return report_section.sweep_section(place, reserved, tries=[run.experiment_id for run in runs])


def _room() -> DataRoom:
    """The memory that a service with these settings would allow, and no folder of maps."""
    asked = os.environ.get(_MEMORY, "")
    if not asked:
        return DataRoom()
    if not asked.isdecimal() or not int(asked):
        raise output.usage_error(f"{_MEMORY} is {asked!r}; give bytes as a whole number above 0")
    return DataRoom(memory_bytes=int(asked))


def _play(runs: Sequence[Run], *, device: str, progress: Callable[[int], None]) -> list[_Played]:
    """Play runs side by side to their ends."""
    try:
        import_worker_extra()
    except MissingLibraryError as error:
        raise output.CommandError(str(error)) from None
    # Torch takes seconds to import, which a spec that does not fit its data need not wait for.
    from fedaudit.attacks.played_runs import FollowedRuns, played_blocks
    from fedaudit.training.stack import Stack

    options.check_device(device)
    trainer = Stack([run.cell for run in runs], device=device)
    beside = FollowedRuns(runs, trainer, device=device)
    sinks = [MemorySink(run.ledger.ledger_context) for run in runs]
    for position, block in played_blocks(runs, trainer, follow=beside.follow):
        sinks[position].write(block)
        progress(max(run.rounds_done for run in runs))
    return [
        _Played(run, sink, trainer.result(position), device, beside.audits.get(run.experiment_id))
        for position, (run, sink) in enumerate(zip(runs, sinks, strict=True))
    ]


app = Typer()


@app.command()
def run(
    spec: options.Spec,
    *,
    as_json: options.AsJson = False,
    out: Annotated[
        Path | None, Option("--out", help="Folder for report.json, report.html and ledger.ndjson.")
    ] = None,
    sources_dir: options.SourcesDir = None,
    device: Annotated[str, Option(help="cpu, or cuda:0.")] = "cpu",
    artifact: options.Artifacts = None,
) -> None:
    """Train and audit in this process, without a service, and print the report."""
    asked = options.read_spec(spec)
    folder = None if out is None else output.writable_folder(out)
    beside = Path() if spec == options.STANDARD_INPUT else Path(spec).parent
    below = sources_dir or options.sources_dir_of_environment() or beside
    for name in asked.federation.traits.files:
        if not (below / name).exists():
            where = f"there is no file '{name}' below {below.absolute()}"
            raise output.usage_error(
                f"{where}; correct its path, or name its folder by --sources-dir"
            )
    with output.progress_bars(asked.name, {"rounds": asked.training.rounds_played}) as progress:
        done = run_locally(
            asked,
            sources_dir=below,
            device=device,
            progress=progress,
            open_artifact=options.named_contents(artifact or []).get,
        )
    try:
        output.write_answer(done.report, show, as_json=as_json)
    finally:  # What cannot be printed is written all the same.
        if folder is not None:
            _save(done, folder)
    raise Exit(_outcome(done))


def _outcome(done: LocalRun) -> output.ExitCode:
    if done.report["experiment"]["status"] == "failed":
        output.say(f"fedaudit: the run failed ({done.report['utility']['stopped_by']})")
        return output.ExitCode.FAILED
    if alarms := sum(one["alarm"] is not None for one in done.report["attacks"]):
        output.say(f"fedaudit: {alarms} of {len(done.report['attacks'])} attacks raised an alarm")
        return output.ExitCode.FAILED
    return output.gate_exit(done.report["gate_outcome"])


def _save(done: LocalRun, folder: Path) -> None:
    files: dict[str, Iterable[bytes]] = {
        "report.json": [output.json_line(done.report)],
        "report.html": [render(done.report, done.series).encode()],
        "ledger.ndjson": (output.json_line(line, pretty=False) for line in done.ledger.lines()),
    }
    if (salt := done.run.ledger.salt) is not None:
        files["ledger-salt.json"] = [output.json_line({"salt": salt.hex()})]
    if (records := done.result.records) is not None:
        files["record-table.csv"] = records.csv(done.run.federation.client_names)
    if isinstance(done.model, str):
        output.say(f"no model is written: {done.model}")
    else:
        files["model.safetensors"] = [done.model.data]
        files["model-card.md"] = [str(reading(done.report, "model-card")).encode()]
        files["model-layout.json"] = [output.json_line(done.model.layout)]
    names = [output.write_below(folder, name, pieces) for name, pieces in files.items()]
    names += output.write_attack_files(done.attacks, folder)
    output.say(f"{', '.join(names[:-1])} and {names[-1]} are in {folder}")
