"""`fedaudit run`: one experiment in this process, without a service."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uuid_utils

from fedaudit.cli.failures import CommandError, usage_error
from fedaudit.federations.load import load_federation
from fedaudit.reports.charts.series import Series
from fedaudit.reports.sections.disagreement import FiguresDisagreeError
from fedaudit.runs.blocks import record_block
from fedaudit.runs.checked_report import checked_report
from fedaudit.runs.memory_sink import MemorySink
from fedaudit.runs.report_material import report_material
from fedaudit.runs.run import Run, new_run
from fedaudit.runs.worker_extra import MissingLibraryError, import_worker_extra
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.base.cell import Cell, draws_in_secret
from fedaudit.training.base.record_table import RecordTable
from fedaudit.training.base.round_records import RoundRecord

if TYPE_CHECKING:
    from fedaudit.training.base.trainer import Trainer

_ROUNDS_AT_ONCE = 10
"""Rounds between two signs of progress."""
_ROUNDS_A_BLOCK = 100
"""Rounds whose figures are computed together, which is faster."""


@dataclass(frozen=True)
class LocalRun:
    """A finished run."""

    report: dict[str, Any]
    ledger: MemorySink
    """What every subject spent, and the figures of every round."""
    client_names: tuple[str, ...]
    records: RecordTable | None
    """Every record's own figures, under `record-personalised`. Confidential."""
    series: Series
    """The figures of each round."""


def run_locally(
    spec: ExperimentSpec,
    *,
    sources_dir: Path | None,
    device: str,
    progress: Callable[[int], None],
) -> LocalRun:
    """Train, keep the ledger and assemble the report.

    `progress` is given the rounds done. Raises InvalidInputError where the spec does not fit its
    data, and CommandError where this machine cannot train.
    """
    started = datetime.now(UTC)
    federation = load_federation(spec, sources_dir=sources_dir)
    cell = Cell(spec, federation)
    run = new_run(cell, experiment_id=str(uuid_utils.uuid7()), started_at=started)
    trainer = _open_trainer(cell, device)
    from fedaudit.training.base.backend import backend  # imports torch, which is there

    sink = MemorySink(run.ledger.ledger_context)
    _play(run, trainer, sink, progress=progress)
    result = trainer.result(0)
    material = report_material(run, result, sink, device=device, backend=backend(device))
    try:
        report = checked_report(material, result)
    except FiguresDisagreeError as error:
        raise CommandError(f"the run failed: {error}") from None
    return LocalRun(report, sink, federation.client_names, result.records, sink.series())


def _play(
    run: Run, trainer: "Trainer", sink: MemorySink, *, progress: Callable[[int], None]
) -> None:
    """Play the run to its end, a block of rounds after the other."""
    records: list[RoundRecord] = []
    while trainer.active:
        if draws_in_secret(run.cell):
            # Nothing leaves this process before its end, so no plan needs to be on record.
            trainer.plan(_ROUNDS_AT_ONCE)
        records += trainer.advance(_ROUNDS_AT_ONCE)[0]
        progress(run.rounds_done + len(records))
        if len(records) >= _ROUNDS_A_BLOCK or not trainer.active:
            ended = not trainer.active
            sink.write(record_block(run, records, last=ended, reported=ended))
            run.ledger.check_totals(trainer.releases(0))
            records = []


def _open_trainer(cell: Cell, device: str) -> "Trainer":
    try:
        import_worker_extra()
    except MissingLibraryError as error:
        raise CommandError(str(error)) from None
    # Torch takes seconds to import, which a spec that does not fit its data need not wait for.
    import torch

    from fedaudit.training.trainer_choice import open_stack

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise usage_error(f"device {device}: no CUDA device is available here; take --device cpu")
    return open_stack([cell], device=device)
