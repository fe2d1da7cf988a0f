"""`fedaudit run`: one experiment in this process, without a service."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uuid_utils

from fedaudit.cli.failures import CommandError, usage_error
from fedaudit.cli.local_ledger import LocalLedger
from fedaudit.federations.federation import Federation
from fedaudit.federations.load import load_federation
from fedaudit.federations.split import validation_clients
from fedaudit.privacy.guarantees import mechanism_inputs
from fedaudit.reports.assemble import assemble
from fedaudit.reports.material import FederationFacts, FinalFigures, ReportMaterial
from fedaudit.reports.provenance import provenance
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.cell import Cell
from fedaudit.training.records import FinalResult, Outcome, RoundRecord

if TYPE_CHECKING:
    from fedaudit.training.stack import Stack

_ROUNDS_AT_ONCE = 10


@dataclass(frozen=True)
class LocalRun:
    """A finished run."""

    report: dict[str, Any]
    ledger: LocalLedger


def run_locally(
    spec: ExperimentSpec,
    *,
    sources_dir: Path | None,
    device: str,
    progress: Callable[[int], None],
) -> LocalRun:
    """Train, keep the ledger and assemble the report.

    `progress` is told the rounds done. Raises InvalidInputError where the spec does not fit its
    data, and CommandError where this machine cannot train.
    """
    started = datetime.now(UTC)
    federation = load_federation(spec, sources_dir=sources_dir)
    stack = _stack(Cell(spec=spec, federation=federation), device)
    from fedaudit.training.backend import backend  # imports torch, which is there

    records: list[RoundRecord] = []
    while stack.active:
        if spec.privacy.noise == "release":
            # Nothing leaves this process before its end, so no plan needs to be on record.
            stack.plan(_ROUNDS_AT_ONCE)
        records += stack.advance(_ROUNDS_AT_ONCE)[0]
        progress(len(records))
    ledger = LocalLedger.from_records(
        records,
        experiment_id=str(uuid_utils.uuid7()),
        client_names=federation.client_names,
        inputs=mechanism_inputs(spec, n=stack.n),
    )
    material = _material(
        spec,
        federation,
        ledger,
        n=stack.n,
        result=stack.result(0),
        made_by=provenance(device=device, backend=backend(device), started_at=started),
    )
    return LocalRun(assemble(material), ledger)


def _stack(cell: Cell, device: str) -> "Stack":
    try:
        import torch

        from fedaudit.training.stack import Stack
    except ImportError:
        raise CommandError(
            "training needs torch, which is not installed: pip install 'fedaudit[worker]'"
        ) from None
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise usage_error(f"device {device}: no CUDA device is available here; take --device cpu")
    return Stack([cell], device=device)


def _material(
    spec: ExperimentSpec,
    federation: Federation,
    ledger: LocalLedger,
    *,
    n: int,
    result: FinalResult,
    made_by: dict[str, Any],
) -> ReportMaterial:
    held_out = validation_clients(
        federation.clients, validation_fraction=spec.federation.validation_fraction
    )
    facts = FederationFacts(
        fingerprint=federation.fingerprint,
        clients=federation.clients,
        training_clients=federation.clients - held_out,
        rows=federation.rows,
        notes=federation.notes,
        attributes={attribute.name: attribute.values for attribute in federation.attributes},
    )
    figures = {field.name: getattr(result, field.name) for field in fields(FinalFigures)}
    return ReportMaterial(
        experiment_id=ledger.experiment_id,
        name=spec.name,
        status="failed" if result.stopped_by == "diverged" else "succeeded",
        spec=spec,
        n=n,
        federation=facts,
        releases=ledger.releases(),
        refusals=ledger.count(Outcome.REFUSED),
        withheld=ledger.count(Outcome.WITHHELD),
        result=FinalFigures(**figures),
        ledger_hash=ledger.hash,
        chain_head=ledger.chain_head,
        provenance=made_by,
        clusters=ledger.last_clusters(),
    )
