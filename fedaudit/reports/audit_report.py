"""The report of an audit of predictions, version 1: its shape, its verdict, how it is assembled and
verified. It does not contain the rows."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.statements import Keyring
from fedaudit.reports.checks import Check, answer_check
from fedaudit.reports.gates.gate_results import OUTCOME_WORDS
from fedaudit.reports.report import GateSection, gate_checks, gated, worded
from fedaudit.reports.sections.fairness import FairnessSection
from fedaudit.reports.sections.held_out_privacy import FairnessPrivacy
from fedaudit.reports.sections.other_runs import ModelSection
from fedaudit.reports.sections.part import (
    Answer,
    AnswerReason,
    GateOutcome,
    Part,
    Values,
    VerdictParts,
    assembled,
    reason,
    section_checks,
)
from fedaudit.reports.sections.predictions import (
    AUDIT,
    EQUAL_TRUTH,
    AuditData,
    AuditEvidence,
    AuditIdentity,
    AuditIntegrity,
    AuditMaterial,
    AuditUtility,
    NoGuarantee,
    Predictions,
    UnknownPrivacy,
    as_report_of_run,
)
from fedaudit.reports.sections.provenance import Provenance, signature_check
from fedaudit.reports.sections.ranking import another_threshold, misplaced_threshold
from fedaudit.reports.verdict.verdict import verdict
from fedaudit.reports.verdict.worst_off import counted_by, fairness_part, unjudged_gap
from fedaudit.spec.audits import AuditSpec, measuring_spec, parse_audit
from fedaudit.spec.base import stands_for
from fedaudit.spec.errors import InvalidInputError

NOT_VERIFIED = (
    "The rows are not here: that rates and accuracies of groups, intervals, averages over "
    "clients, gaps at other thresholds, and accuracy over all rows follow from the table is what "
    "the signer states.",
    "That the table is the one with the fingerprint in the report, that its rows are a fair "
    "sample, and that its predictions are those of the model in use, is what the signer states, "
    "or the table's maker.",
    "Numbers of rows by group are confidential, so no rate is divided anew: only the gaps between "
    "the rates of groups are computed again.",
)


class AuditReport(Part):
    """The report of one audit of predictions."""

    report_version: Literal[1] = 1
    subject: Literal["predictions"] = "predictions"
    """What was audited; reports of runs have no such field."""
    experiment: AuditIdentity
    answer: Answer | None = None
    """Whether the model may be released, which predictions alone never show; null in reports of
    earlier versions."""
    verdict: str
    verdict_parts: VerdictParts
    guarantee: NoGuarantee
    privacy: UnknownPrivacy
    utility: AuditUtility
    predictions: Predictions
    fairness: list[FairnessSection]
    fairness_privacy: FairnessPrivacy | None = None
    fairness_privacy_reason: str
    attacks: list[str] = Field(default_factory=list, max_length=0)
    model: ModelSection | None = None
    model_reason: str
    gates: list[GateSection]
    gate_outcome: GateOutcome | None
    gate_outcome_reason: str | None = None
    data: AuditData
    spec: Annotated[dict[str, Any], stands_for(AuditSpec)]
    """What was asked for, with every default explicit: `spec_hash` is taken over it."""
    provenance: Provenance
    limits: list[str]
    integrity: AuditIntegrity


def assemble_audit(material: AuditMaterial) -> dict[str, Any]:
    """The report as JSON values, not yet signed."""
    return assembled(
        AuditReport,
        AUDIT,
        material,
        judged=(
            # Words, gates and verdict read columns and labels where the spec of a run has them.
            lambda material, _: {"spec": material.spec.model_dump(mode="json")},
            worded,
            lambda material, so_far: gated(material.audit.gates, so_far),
            _judged,
            lambda material, _: {"spec": material.audit.model_dump(mode="json")},
        ),
        progressed=material.progressed,
    )


def _judged(_material: AuditMaterial, so_far: Values) -> Values:
    parts = VerdictParts(
        release=" ".join(_release(so_far)),
        cost=(
            "Not known: an audit of predictions does not see the training, so no privacy cost is "
            "stated."
        ),
        fairness=fairness_part(so_far),
        next=next(_next(so_far)),
    )
    return verdict(_answer(so_far), parts)


_FAIRNESS_ALONE = (
    "This concerns fairness alone: the privacy of the training is no part of this audit, and "
    "whether the model may be released cannot be decided from it."
)


def _answer(report: Mapping[str, Any]) -> Answer:
    """Predictions may speak against a release, and never for one."""
    failed_gates = [
        reason("gates-failed", f"a gate failed: {one['figure']}: {one['reason']}")
        for one in report["gates"]
        if one["outcome"] == "fail"
    ]
    if against := [*_of_predictions(report), *failed_gates[:1]]:
        return Answer(outcome="do-not-release", reasons=against)
    return Answer(
        outcome="not-decided",
        reasons=[*unjudged_gap(report), reason("training-not-audited", _FAIRNESS_ALONE)],
        **counted_by(report),
    )


def _of_predictions(report: Mapping[str, Any]) -> list[AnswerReason]:
    utility = report["utility"]
    if report["predictions"]["equal_truth"]:
        return [reason("predictions-equal-truth", EQUAL_TRUTH)]
    if misplaced := misplaced_threshold(utility, who="the score"):
        return [reason("threshold-misplaced", misplaced)]
    if utility["degenerate"] is True:
        words = f"the predictions decide nothing: {utility['reasons']['degenerate']}"
        return [reason("model-decides-nothing", words)]
    return []


def _release(report: Mapping[str, Any]) -> Iterator[str]:
    utility, gates = report["utility"], report["gates"]
    if report["predictions"]["equal_truth"]:
        yield (
            f"Not to be relied on as it is: {EQUAL_TRUTH}. No model is always right, so the column "
            "is most likely a copy of the truth, or was made knowing it."
        )
    elif against := _of_predictions(report):
        yield f"No: {against[0].text}."
    elif utility["degenerate"] is None:
        yield (
            "Not shown: that the predictions decide anything is not shown, "
            f"{utility['reasons']['degenerate']}."
        )
    elif utility.get("too_good"):
        yield "Suspiciously good: make sure that no prediction or score was made knowing the truth."
    if report["gate_outcome"] is None:
        yield "No gate was set, so it is not said how even the predictions must be."
    elif report["gate_outcome"] == "pass":
        yield f"The gates that were set passed ({len(gates)})."
    else:
        worst = next(one for one in gates if one["outcome"] == report["gate_outcome"])
        yield (
            f"The gates: {OUTCOME_WORDS[worst['outcome']]}. {worst['figure']}: {worst['reason']}."
        )
    yield _FAIRNESS_ALONE
    accuracy, baseline = utility["accuracy"], utility["baseline_accuracy"]
    yield f"The predictions are right in {accuracy:.4g} of the rows" + (
        f"; always predicting the most frequent outcome is in {baseline:.4g}."
        if baseline is not None
        else "."
    )


def _next(report: Mapping[str, Any]) -> Iterator[str]:
    predictions = report["predictions"]
    if predictions["equal_truth"]:
        yield (
            f"Look where the column {predictions['column']!r} comes from, and audit predictions "
            "that were made without knowing the truth."
        )
    if misplaced_threshold(report["utility"], who="the score") is not None:
        yield f"{another_threshold(field='threshold')}, and audit again."
    accuracy, balanced = (report["utility"][name] for name in ("accuracy", "balanced_accuracy"))
    if balanced is not None and balanced <= 0.5 and accuracy < 0.5:
        yield (
            "Most rows are predicted wrongly: make sure that the column is not of the other "
            "outcome, as a score of what is not favourable, and that it is written as the truth is."
        )
    if report["utility"]["degenerate"] is True:
        yield (
            "Audit predictions that decide something: another model, or a threshold at which both "
            "outcomes are predicted; equal rates of one answer for everybody are no fairness."
        )
    if report["utility"]["degenerate"] is None:
        yield "Audit more rows, until the predictions are shown to be better than a constant."
    for gate in report["gates"]:
        if gate["outcome"] != "pass":
            yield f"For the gate on {gate['figure']}: {gate['reason']}."
    if any(group["suppressed"] for one in report["fairness"] for group in one["groups"]):
        yield (
            "Some groups are suppressed because they are small: audit more rows, or join groups, "
            "before concluding that everybody is treated alike."
        )
    if report["gate_outcome"] is None:
        yield (
            "Set gates for how even the predictions must be, in `gates` of the audit, so that the "
            "next one is judged; whether the model may be released is for the report of its "
            "training."
        )
    yield "Read what this report does not show."


def audit_checks(evidence: Evidence, keyring: Keyring) -> Iterator[Check]:
    """The checks, in the order in which they are reported; the rows of the evidence are read."""
    found = [*evidence.names, *evidence.checkpoints, *evidence.sign_offs]
    rows = sum(1 for _ in evidence.rows)
    yield Check.of(
        "ledger.absent",
        not found and not rows,
        good="there is no ledger: an audit of predictions spends nothing",
        bad="an audit has no ledger, and entries, subjects, checkpoints or sign-offs came with it",
    )
    report = evidence.report
    if report is None:
        yield Check.failed("report.present", "an audit's report is missing")
        return
    # A worker signs every audit, so one without a signature has lost it.
    yield signature_check(report, keyring, with_checkpoints=True)
    try:
        audit = parse_audit(evidence.spec)
    except InvalidInputError:
        audit = None
    yield from section_checks(AUDIT, AuditEvidence(evidence=evidence, report=report, audit=audit))
    if audit is not None:
        judged = as_report_of_run(report, audit)
        yield from gate_checks(measuring_spec(audit).gates, judged)
        if (answer := report.get("answer")) is not None:
            # An audit of earlier versions did not say that it counts doubts, whether or not it did.
            said = {**judged, "answer": {**answer, "counts_doubts": True}}
            unsaid = (
                answer.get("counts_doubts") is None
                and answer_check(said, _answer).outcome == "pass"
            )
            yield answer_check(said if unsaid else judged, _answer)
