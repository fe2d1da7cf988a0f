"""`fedaudit run`: one experiment in this process, without a service."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uuid_utils

from fedaudit.cli.failures import CommandError, usage_error
from fedaudit.cli.local_hypotheses import local_hypotheses, local_plane
from fedaudit.cli.local_ledger import LocalLedger
from fedaudit.cli.local_series import local_series
from fedaudit.federations.federation import Federation
from fedaudit.federations.group_rows import training_group_rows
from fedaudit.federations.load import load_federation
from fedaudit.federations.split import training_clients
from fedaudit.ledger.accounts import account_of
from fedaudit.networks.shape import layer_sizes
from fedaudit.privacy.spending_plan import SpendingPlan
from fedaudit.reports.assemble import assemble
from fedaudit.reports.disagreement import FiguresDisagreeError
from fedaudit.reports.material import FederationFacts, FinalFigures, ReportMaterial
from fedaudit.reports.provenance import provenance
from fedaudit.reports.series import Series
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.cell import Cell
from fedaudit.training.record_table import RecordTable
from fedaudit.training.records import FinalResult, Outcome, RoundRecord
from fedaudit.training.spending import spending_of

if TYPE_CHECKING:
    from fedaudit.training.trainer import Trainer

_ROUNDS_AT_ONCE = 10


@dataclass(frozen=True)
class LocalRun:
    """A finished run."""

    report: dict[str, Any]
    ledger: LocalLedger
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

    `progress` is told the rounds done. Raises InvalidInputError where the spec does not fit its
    data, and CommandError where this machine cannot train.
    """
    started = datetime.now(UTC)
    federation = load_federation(spec, sources_dir=sources_dir)
    plan = spending_of(spec, federation)
    cell = Cell(spec=spec, federation=federation)
    stack = _stack(cell, device)
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
        account=account_of(
            spec,
            layers=layer_sizes(cell.shape),
            client_names=federation.client_names,
            plan=plan,
        ),
    )
    result = stack.result(0)
    material = _material(
        spec,
        federation,
        ledger,
        n=stack.n,
        plan=plan,
        result=result,
        made_by=provenance(device=device, backend=backend(device), started_at=started),
    )
    material = replace(
        material,
        hypotheses=local_hypotheses(ledger, result),
        plane=local_plane(cell, records, result),
    )
    series = local_series(
        records,
        account=ledger.account,
        training_clients=material.federation.training_clients,
        spec=spec,
        groups=material.federation.attributes,
    )
    report = _cross_checked(assemble(material), result)
    return LocalRun(report, ledger, federation.client_names, result.records, series)


def _cross_checked(report: dict[str, Any], result: FinalResult) -> dict[str, Any]:
    from fedaudit.reports.cross_check import cross_checked  # imports pandas, which is there

    try:
        return cross_checked(report, result.predicted, counts=result.fairness)
    except FiguresDisagreeError as error:
        raise CommandError(f"the run failed: {error}") from None


def _stack(cell: Cell, device: str) -> "Trainer":
    try:
        import torch

        from fedaudit.training.choose import open_stack
    except ImportError:
        raise CommandError(
            "training needs torch, which is not installed: pip install 'fedaudit[worker]'"
        ) from None
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise usage_error(f"device {device}: no CUDA device is available here; take --device cpu")
    return open_stack([cell], device=device)


def _material(
    spec: ExperimentSpec,
    federation: Federation,
    ledger: LocalLedger,
    *,
    n: int,
    plan: SpendingPlan | None,
    result: FinalResult,
    made_by: dict[str, Any],
) -> ReportMaterial:
    facts = FederationFacts(
        fingerprint=federation.fingerprint,
        clients=federation.clients,
        training_clients=training_clients(federation.clients, spec.federation),
        rows=federation.rows,
        notes=federation.notes,
        attributes={attribute.name: attribute.values for attribute in federation.attributes},
        training_rows=training_group_rows(federation, spec),
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
        refused=ledger.refused(),
        result=FinalFigures(**figures),
        ledger_hash=ledger.hash,
        chain_head=ledger.chain_head,
        entries=len(ledger.entries),
        provenance=made_by,
        clusters=ledger.last_clusters() if plan is None else None,
        plan=plan,
        compositions=ledger.compositions,
        layers=ledger.account.inputs.component_sizes,
    )
