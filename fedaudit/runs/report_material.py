"""What the report of a run that came to its end is made from."""

from collections.abc import Mapping
from dataclasses import fields, replace

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.joint_disclosure import decide_parts_together
from fedaudit.federations.split import training_group_rows
from fedaudit.ledger.chain import ledger_hash
from fedaudit.reports.sections.material import FederationFacts, FinalFigures, ReportMaterial
from fedaudit.reports.sections.provenance import provenance
from fedaudit.reports.sections.published_fairness import LAST_ROUNDS
from fedaudit.runs.held_out_groups import held_out_groups
from fedaudit.runs.hypotheses import hypotheses_facts, parameter_plot_of_run
from fedaudit.runs.publishing import publish_counts
from fedaudit.runs.run import Run
from fedaudit.runs.sink import RunSink
from fedaudit.runs.trained_model import trained_model
from fedaudit.spec.disclosure.disclosure_policy import DisclosurePolicy
from fedaudit.training.base.round_records import FinalResult
from fedaudit.training.base.stopping import has_diverged, reported_end


def report_material(
    run: Run,
    result: FinalResult,
    sink: RunSink,
    *,
    device: str,
    backend: Mapping[str, str],
    key_id: str | None = None,
    disclosure_policy: DisclosurePolicy | None = None,
    budgets_apart: bool = False,
) -> ReportMaterial:
    """The facts of a finished run, for `assemble`.

    `backend`: what `training.backend` says of the device. `key_id`: the key that the report is to
    be signed with, if it is. `disclosure_policy`: the one under which a service admitted it.
    `budgets_apart`: whether the service counts each project's spending apart. Raises ValueError for
    a run that was cancelled or has not ended.
    """
    ledger = run.ledger
    figures = {field.name: getattr(result, field.name) for field in fields(FinalFigures)}
    figures["stopped_by"] = reported_end(result.stopped_by)
    material = ReportMaterial(
        experiment_id=run.experiment_id,
        name=run.name,
        status="failed" if has_diverged(result.stopped_by) else "succeeded",
        spec=run.spec,
        inputs=ledger.inputs,
        federation=_federation_facts(run),
        releases=ledger.spending.releases,
        refusals=ledger.spending.refusals,
        withheld=ledger.spending.withheld,
        refused=ledger.spending.refused,
        result=FinalFigures(**figures),
        ledger_hash=ledger_hash(sink.hashed_rows()),
        chain_head=ledger.head.hex(),
        entries=ledger.entries,
        disclosures=run.disclosures,
        hypothesis_disclosures=_hypothesis_disclosures(run, result),
        key_id=key_id,
        disclosure_policy=disclosure_policy,
        budgets_apart=budgets_apart,
        last_fairness={name: sink.last_fairness(name, rounds=LAST_ROUNDS) for name in run.groups},
        published=publish_counts(run, result),
        report_charges=ledger.report_charges,
        provenance=provenance(device=device, backend=backend, started_at=run.started_at),
        clusters=ledger.clusters,
        plan=ledger.ledger_context.plan,
        compositions=ledger.compositions,
        hypotheses=hypotheses_facts(run, result, sink),
        plane=parameter_plot_of_run(run, result, sink),
    )
    return replace(material, model=trained_model(run, result, material))


def _federation_facts(run: Run) -> FederationFacts:
    federation = run.federation
    return FederationFacts(
        fingerprint=federation.fingerprint,
        clients=federation.clients,
        training_clients=run.training_clients,
        rows=federation.rows,
        notes=federation.notes,
        positive_class=federation.classes[1] if len(federation.classes) == 2 else None,
        attributes=run.groups,
        training_rows=training_group_rows(federation, run.spec),
    )


def _hypothesis_disclosures(run: Run, result: FinalResult) -> Mapping[str, Disclosure]:
    """Which cells of hypotheses and groups are disclosed; none where there is one hypothesis."""
    if result.predicting is None:
        return {}
    return decide_parts_together(
        run.disclosures,
        held_out_groups(run.cell),
        result.predicting,
        parts=run.spec.training.hypotheses,
        of="rows that this hypothesis predicted",
    )
