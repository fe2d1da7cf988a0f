"""Assemble the report of an audit, every fairness figure computed a second time from the rows."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never

from fedaudit.audits.audit_document import (
    AuditData,
    AuditIdentity,
    AuditIntegrity,
    AuditReport,
    AuditUtility,
    NoGuarantee,
    Predictions,
    UnknownPrivacy,
)
from fedaudit.audits.audit_material import audit_material, predicted_rows
from fedaudit.audits.audit_wording import NO_GUARANTEE, UNKNOWN, audit_limits, audit_verdict
from fedaudit.audits.audited_rows import AuditedRows
from fedaudit.audits.thresholds import threshold_section
from fedaudit.fairness.published_counts import ExactCounts, NoisedCounts, RoundedCounts
from fedaudit.reports.gates.gate_evaluation import evaluate, overall
from fedaudit.reports.sections.fairness import FairnessSection, MetricSection
from fedaudit.reports.sections.material import ScoredMaterial
from fedaudit.reports.sections.outcome_words import with_words
from fedaudit.reports.sections.part import IntervalSection
from fedaudit.reports.sections.provenance import Provenance, provenance
from fedaudit.reports.sections.published_fairness import exact_sections, fairness_sections
from fedaudit.reports.sections.utility import utility_section
from fedaudit.reports.verdict.verdict import verdict

_NO_LOSS = "predictions are outcomes and no probabilities, so they have no loss"
_OF_GROUPS = {"loss": _NO_LOSS, "rows": "how many rows a group has is confidential"}
_NO_ROUNDS = "no rounds of training are known here"
_ONE_MODEL = "predictions do not say of several models which one made them"
_NO_CLIENTS = "without a client key there are no clients to average over"
_UNSIGNED = "the report is not signed"
_NO_LEDGER = "an audit of predictions spends nothing, and has no ledger"
_LOSSES = ("loss_difference", "loss_ratio")
_PROVENANCE = ("code_version", "libraries", "device", "backend", "started_at", "finished_at")
_GUARANTEE = ("label", "mechanism", "unit", "adjacency", "delta")
_SPENT = (
    "leakage_median",
    "leakage_max",
    "leakage_by_cluster",
    "leakage_quantiles",
    "leakage_per_release",
    "log_ratio_max",
    "participations_max",
    "refusals",
    "withheld",
    "epsilon_max",
)
_MEASURED = (
    "accuracy",
    "baseline",
    "baseline_accuracy",
    "accuracy_over_baseline",
    "accuracy_over_baseline_interval",
    "prediction_share",
    "outcome_share",
    "degenerate",
)


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    """Which audit a report is of, and who will sign it."""

    audit_id: str
    started_at: datetime
    key_id: str | None = None
    withheld: Collection[str] = ()
    """Attributes of which nothing may be said, because of earlier reports."""
    rounding_key: bytes = b""
    """Secret; used where counts are rounded."""
    earlier_audits: int | None = None
    """How many audits there were of the same scores at other thresholds; None where nobody counts
    them."""


def audit_report(rows: AuditedRows, asked: AuditRequest) -> dict[str, Any]:
    """The report as JSON-able values, not yet signed.

    Raises FiguresDisagreeError where the figures do not follow from the rows a second time.
    """
    material = audit_material(rows, withheld=asked.withheld, rounding_key=asked.rounding_key)
    audit = rows.audit
    sections: dict[str, Any] = {
        "experiment": AuditIdentity(
            id=asked.audit_id, name=audit.name, spec_hash=audit.hash, status="succeeded"
        ).model_dump(),
        "guarantee": NoGuarantee(
            statement=NO_GUARANTEE, reasons=dict.fromkeys(_GUARANTEE, UNKNOWN)
        ).model_dump(),
        "privacy": UnknownPrivacy(reasons=dict.fromkeys(_SPENT, UNKNOWN)).model_dump(),
        "utility": _utility(material).model_dump(),
        "predictions": _predictions(rows, material, asked).model_dump(),
        "fairness": _fairness(rows, material),
        "fairness_privacy_reason": "an audit adds no noise to counts",
        "model_reason": UNKNOWN,
        "data": _data(rows).model_dump(),
        "spec": material.spec.model_dump(mode="json"),
        "provenance": _provenance(rows, asked).model_dump(),
        "integrity": _integrity(asked).model_dump(),
    }
    sections["fairness"] = with_words(sections)
    sections["gates"] = evaluate(audit.gates, sections)
    sections["gate_outcome"] = overall(sections["gates"])
    parts = audit_verdict(sections)
    sections |= {"verdict": verdict(parts), "verdict_parts": parts.model_dump()}
    sections["limits"] = audit_limits(rows, sections, signed=asked.key_id is not None)
    sections["spec"] = audit.model_dump(mode="json")
    document: dict[str, Any] = AuditReport.model_validate(sections).model_dump(mode="json")
    return document


# -- fairness -------------------------------------------------------------------------------------


def _fairness(rows: AuditedRows, material: ScoredMaterial) -> list[dict[str, Any]]:
    """The sections, after the exact figures were computed a second time."""
    # Only now: it imports pandas and scikit-learn, which nothing else in this room needs.
    from fedaudit.reports.sections.cross_check import cross_checked

    exact = {"fairness": [one.model_dump(mode="json") for one in exact_sections(material)]}
    checked = cross_checked(exact, predicted_rows(rows), counts=material.result.fairness)
    match material.published:
        case ExactCounts():
            found = [FairnessSection.model_validate(one) for one in checked["fairness"]]
        case RoundedCounts():
            found = fairness_sections(material)
        case NoisedCounts():
            raise TypeError("an audit adds no noise to counts")
        case _:
            assert_never(material.published)
    return [_of_predictions(one, rows).model_dump(mode="json") for one in found]


def _of_predictions(section: FairnessSection, rows: AuditedRows) -> FairnessSection:
    """Without what predictions alone do not have, each with its reason."""
    by_rows = rows.client_count is None
    update: dict[str, Any] = {
        "groups": [
            one.model_copy(update={"loss": None, "reasons": {**one.reasons, **_OF_GROUPS}})
            for one in section.groups
        ],
        "metrics": {
            name: _metric(name, one, by_rows=by_rows) for name, one in section.metrics.items()
        },
        "by_hypothesis_reason": _ONE_MODEL,
    }
    if by_rows:
        update |= {"client_averaged": None, "client_averaged_reason": _NO_CLIENTS}
        update["groups"] = [
            one.model_copy(
                update={
                    "accuracy_over_baseline_interval": _drawn_by_rows(
                        one.accuracy_over_baseline_interval
                    )
                }
            )
            for one in update["groups"]
        ]
    return section.model_copy(update=update)


def _metric(name: str, metric: MetricSection, *, by_rows: bool) -> MetricSection:
    if name in _LOSSES:
        return MetricSection(
            value=None,
            reason=_NO_LOSS,
            interval=None,
            interval_reason=_NO_LOSS,
            null_reason=_NO_LOSS,
            last_rounds_reason=_NO_ROUNDS,
        )
    update: dict[str, Any] = {"last_rounds": None, "last_rounds_reason": _NO_ROUNDS}
    if by_rows:
        update["interval"] = _drawn_by_rows(metric.interval)
        if metric.null is not None:
            update["null"] = metric.null.model_copy(update={"unit": "record"})
    return metric.model_copy(update=update)


def _drawn_by_rows(interval: IntervalSection | None) -> IntervalSection | None:
    """Bundles of rows that were dealt out at random vary as rows do."""
    if interval is None:
        return None
    return interval.model_copy(update={"method": f"{interval.method}-by-rows"})


# -- the other sections ---------------------------------------------------------------------------


def _utility(material: ScoredMaterial) -> AuditUtility:
    found = utility_section(material)
    values = {name: getattr(found, name) for name in _MEASURED}
    if material.spec.fairness.minimum_group_clients == 1:
        name = "accuracy_over_baseline_interval"
        values[name] = _drawn_by_rows(values[name])
    reasons = {name: why for name, why in found.reasons.items() if name in _MEASURED}
    unknown = dict.fromkeys(("validation_loss", "selection_loss", "loss_under_baseline"), _NO_LOSS)
    unknown |= dict.fromkeys(("rounds", "best_round", "stopped_by"), _NO_ROUNDS)
    return AuditUtility(**values, reasons={**reasons, **unknown})


def _predictions(rows: AuditedRows, material: ScoredMaterial, asked: AuditRequest) -> Predictions:
    audit = rows.audit
    return Predictions(
        truth=audit.truth,
        column=audit.predicted_by,
        role=audit.prediction_role,
        threshold=threshold_section(
            rows, material.disclosures, material.published, earlier_audits=asked.earlier_audits
        ),
        equal_truth=rows.all_right,
        rows_left_out=rows.left_out,
        drawn="rows" if rows.client_count is None else "clients",
    )


def _data(rows: AuditedRows) -> AuditData:
    reasons = dict.fromkeys(("training_clients", "validation_clients", "parameters"), UNKNOWN)
    if rows.client_count is None:
        reasons["clients"] = "the audit names no client key"
    return AuditData(
        clients=rows.client_count,
        rows=rows.federation.rows,
        notes=list(rows.federation.notes),
        reasons=reasons,
    )


def _provenance(rows: AuditedRows, asked: AuditRequest) -> Provenance:
    found = provenance(device="cpu", backend={}, started_at=asked.started_at)
    return Provenance(
        spec_hash=rows.audit.hash,
        data_fingerprint=rows.federation.fingerprint,
        seed=rows.audit.seed,
        reasons={},
        **{name: found[name] for name in _PROVENANCE},
    )


def _integrity(asked: AuditRequest) -> AuditIntegrity:
    missing = dict.fromkeys(("ledger_hash", "chain_head", "entries"), _NO_LEDGER)
    unsigned = ("signature",) if asked.key_id is not None else ("signature", "key_id")
    return AuditIntegrity(
        signature=None,
        key_id=asked.key_id,
        reasons={**missing, **dict.fromkeys(unsigned, _UNSIGNED)},
    )
