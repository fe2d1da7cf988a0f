"""The sections of an audit of predictions: those of a run where they mean something here, and null
with a reason elsewhere. Its training is not known, and it has no ledger.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
from pydantic import Field

from fedaudit.arrays import Floats
from fedaudit.fairness.gaps import comparable, rate_gaps, spread
from fedaudit.ledger.bundle import Evidence
from fedaudit.reports.checks import MALFORMED, Check, agrees, same, shown, value_at
from fedaudit.reports.sections.fairness import FairnessSection
from fedaudit.reports.sections.material import ScoredMaterial
from fedaudit.reports.sections.outcome_words import words_checks
from fedaudit.reports.sections.part import IntervalSection, Part, Reasons, Section, Share, no_limits
from fedaudit.reports.sections.privacy import ClusterLeakage
from fedaudit.reports.sections.provenance import (
    SIGNED,
    Experiment,
    Provenance,
    comparison_limits,
    provenance,
    spec_hash_check,
)
from fedaudit.reports.sections.ranking import RankingFigures
from fedaudit.reports.sections.utility import utility_section
from fedaudit.spec.audits import AuditSpec, measuring_spec
from fedaudit.spec.metrics import METRICS, RATES

_DIGITS = 1e-9
"""Figures from counts are recomputed from quotients of them; only the signature shows a smaller
difference."""
_Figures = Mapping[str, Any]


def _wrong_gaps(section: _Figures, *, exact: bool) -> Iterator[str]:
    groups = section["groups"]
    for group in groups:
        hidden = (*RATES, "accuracy", "auc", "rate_intervals") if group["suppressed"] else ()
        yield from (
            f"{name} of {shown(group['value'])}" for name in hidden if group.get(name) is not None
        )
    visible = np.array([not group["suppressed"] for group in groups], dtype=np.bool_)
    reference = None
    if section["reference_group"] is not None:
        reference = [group["value"] for group in groups].index(section["reference_group"])
    rates = np.stack([_column(groups, name) for name in RATES])
    found = dict(zip(METRICS, rate_gaps(rates, visible, reference=reference), strict=True))
    accuracies = _column(groups, "accuracy")
    together = bool(comparable(visible, reference))
    difference = spread(accuracies, visible, reference)[0] if together else np.nan
    found["accuracy_difference"] = difference
    for name, value in found.items():
        stated = section["metrics"][name]["value"]
        # Rounded counts may define a gap that the exact ones do not, and then it stays undefined.
        undefined = stated is None and (bool(np.isnan(value)) or not exact)
        close = type(stated) in (int, float) and math.isclose(
            stated, value, rel_tol=0.0, abs_tol=_DIGITS
        )
        if not undefined and not close:
            yield f"{name} is {shown(stated)} in the report and {float(value)!r} recomputed"


def _column(groups: Sequence[_Figures], name: str) -> Floats:
    return np.array(
        [np.nan if group[name] is None else float(group[name]) for group in groups],
        dtype=np.float64,
    )


class AuditIdentity(Experiment):
    """Which audit the report is of."""

    status: Literal["succeeded"]


class NoGuarantee(Part):
    """That nothing is known of the training, so that no privacy is guaranteed."""

    kind: Literal["none"] = "none"
    label: str | None = None
    in_force: Literal[False] = False
    conditions: dict[str, str] = Field(default_factory=dict)
    mechanism: str | None = None
    unit: str | None = None
    adjacency: str | None = None
    delta: float | None = None
    observers: list[str] = Field(default_factory=list)
    statement: str
    reasons: Reasons


class UnknownPrivacy(Part):
    """What training spent: not known here."""

    leakage_median: float | None = None
    leakage_max: float | None = None
    leakage_by_cluster: list[ClusterLeakage] | None = None
    leakage_quantiles: dict[str, float] | None = None
    leakage_per_release: float | None = None
    log_ratio_max: float | None = None
    participations_max: int | None = None
    refusals: int | None = None
    withheld: int | None = None
    epsilon_max: float | None = None
    epsilon: list[str] = Field(default_factory=list, max_length=0)
    reasons: Reasons


class AuditUtility(RankingFigures):
    """How good the predictions are, beside always predicting the most frequent outcome."""

    validation_loss: float | None = None
    selection_loss: float | None = None
    accuracy: Share
    baseline: Literal["majority"]
    baseline_accuracy: Share | None
    accuracy_over_baseline: float | None
    accuracy_over_baseline_interval: IntervalSection | None
    loss_under_baseline: float | None = None
    prediction_share: Share | None
    """Share of rows that are predicted the more frequent of favourable and not."""
    outcome_share: Share | None
    """The same of what came about."""
    degenerate: bool | None
    too_good: bool | None = None
    """As of runs; null in reports of earlier versions too."""
    rounds: int | None = None
    best_round: int | None = None
    stopped_by: str | None = None
    reasons: Reasons


class ThresholdGaps(Part):
    """The gaps that the same scores have at another threshold."""

    threshold: float
    accuracy: float
    metrics: dict[str, dict[str, float | None]]
    """Each difference of rates, by attribute."""


class ThresholdSection(Part):
    """At which threshold scores became predictions, and what others would have shown."""

    value: float
    others: list[ThresholdGaps]
    others_reason: str | None
    earlier_audits: int | None
    """How many audits of this project were made of the same data, truth and score at other
    thresholds."""
    earlier_audits_reason: str | None


class Predictions(Part):
    """What was compared, and what is notable."""

    truth: str
    column: str
    role: Literal["prediction", "score"]
    threshold: ThresholdSection | None
    equal_truth: bool
    rows_left_out: int
    """Rows of the file without truth, prediction or client."""
    drawn: Literal["clients", "rows"]
    """What intervals count as drawn by itself."""


class AuditData(Part):
    """The table, in numbers."""

    source: Literal["table"] = "table"
    clients: int | None
    training_clients: int | None = None
    validation_clients: int | None = None
    rows: int
    """Those that were compared."""
    parameters: int | None = None
    notes: list[str]
    reasons: Reasons


class AuditIntegrity(Part):
    """Who signed the report; it has no ledger."""

    ledger_hash: str | None = None
    chain_head: str | None = None
    entries: int | None = None
    signature: str | None
    """Ed25519, in base64, as of the reports of runs."""
    key_id: str | None
    reasons: Reasons


@dataclass(frozen=True, kw_only=True)
class AuditMaterial(ScoredMaterial):
    """What the report of an audit is assembled from; `spec` is the audit as that of a run."""

    audit: AuditSpec
    audit_id: str
    started_at: datetime
    key_id: str | None
    """The key that will sign the report; None where none will."""
    client_count: int | None
    """None without a client key."""
    left_out: int
    rows_alike: bool
    """Whether a service does not recognise the rows in other files."""
    all_right: bool
    threshold: ThresholdSection | None
    """None where the table has predictions and no score."""
    fairness: Sequence[FairnessSection]
    """Its fairness sections, computed a second time from the rows."""


@dataclass(frozen=True, kw_only=True)
class AuditEvidence:
    """The report of an audit, with the evidence beside it."""

    evidence: Evidence
    report: Mapping[str, Any]
    audit: AuditSpec | None
    """None where the spec cannot be read."""


UNKNOWN = "the training is not known here: an audit of predictions sees truth and prediction alone"
NO_GUARANTEE = (
    "Nothing is guaranteed. How the model was trained is not known here, so nothing in this report "
    "bounds what the model, or its predictions, reveal of anybody."
)
EQUAL_TRUTH = "predictions equal the truth in every row"
NO_LOSS = "predictions are outcomes and no probabilities, so they have no loss"
NO_ROUNDS = "no rounds of training are known here"
_NOT_MEASURED = {
    **dict.fromkeys(("validation_loss", "selection_loss", "loss_under_baseline"), NO_LOSS),
    **dict.fromkeys(("rounds", "best_round", "stopped_by"), NO_ROUNDS),
}


def _utility(material: AuditMaterial) -> AuditUtility:
    found = utility_section(material)
    measured = AuditUtility.model_fields.keys() - {*_NOT_MEASURED, "reasons"}
    values = {name: getattr(found, name) for name in measured}
    reasons = {name: why for name, why in found.reasons.items() if name in measured}
    return AuditUtility(**values, reasons={**reasons, **_NOT_MEASURED})


def _predictions(material: AuditMaterial) -> Predictions:
    audit = material.audit
    return Predictions(
        truth=audit.truth,
        column=audit.predicted_by,
        role=audit.prediction_role,
        threshold=material.threshold,
        equal_truth=material.all_right,
        rows_left_out=material.left_out,
        drawn="rows" if material.client_count is None else "clients",
    )


def _prediction_limits(material: AuditMaterial) -> list[str]:
    found = [
        "Its maker chose the table's rows: that they are a fair sample of the people "
        "concerned, that the predictions are those of the model in use, and that the model had not "
        "seen the rows, is taken on trust.",
        *([f"Beware: {EQUAL_TRUTH}."] if material.all_right else []),
    ]
    if material.left_out:
        rows = material.left_out + material.federation.rows
        found.append(
            f"{material.left_out} of {rows} rows were left out, for want of truth, prediction or "
            "client: where they are not like the others, neither are these figures."
        )
    if material.threshold is None:
        return found
    earlier = material.threshold.earlier_audits
    tried = "How many others were tried before is not known."
    if earlier is not None:
        tried = f"This project audited these scores at {earlier} other thresholds before."
    return [
        *found,
        f"Scores count as predictions from {material.threshold.value:g} up. A threshold can be "
        "chosen so that a gap vanishes: `predictions.threshold` has the gaps at others. " + tried,
    ]


def _fairness_limits(material: AuditMaterial) -> list[str]:
    audit = material.audit
    few, unknown = (
        "",
        "; without a client key it is not known whether a group's rows are one person's",
    )
    if material.client_count is not None:
        few, unknown = f", or rows of fewer than {audit.minimum_group_clients} clients,", ""
    found = [
        f"Groups with fewer than {audit.minimum_group_size} rows{few} are suppressed, and so are "
        "groups from which so few would follow by sums and differences of what this report shows; "
        f"a gap may be larger among suppressed groups{unknown}."
    ]
    if any(", in no group: " in note for note in material.federation.notes):
        found.append(
            "Rows without a value of an attribute are in no group, and count for the accuracy of "
            "everybody alone."
        )
    if material.rows_alike:
        found.append(
            "Of these rows, fewer than nine in ten differ from all others, so that no service "
            "knows them in another file: an audit of nearly the same file may disclose the rows in "
            "which the two differ. A column that names each row prevents it."
        )
    drawn = "Intervals count clients, whose rows belong together, and take the model as it is."
    if material.client_count is None:
        drawn = (
            "Intervals count rows one by one, as if no two belonged to the same person or "
            "institution: where several do, they are too narrow. Name a client key then."
        )
    base = audit.fairness.rounded_to
    counts = (
        f"Rates and gaps follow from counts that were rounded at random to multiples of {base}; "
        "accuracy over all rows is exact. This is rounding and no noise with an epsilon."
    )
    if base is None:
        counts = (
            "Rates of larger groups are exact: the counts behind them can be worked out, and what "
            "remains of the total bounds the counts of the suppressed groups."
        )
    return [
        *found,
        "The figures say how truth and prediction compare, group by group. They do not say why, "
        "nor whether the truth itself, or the rule for a favourable outcome, is fair.",
        "Among many groups the largest gap is wide by chance alone; its interval holds for all "
        "pairs together.",
        *comparison_limits(audit.fairness),
        drawn,
        counts,
    ]


def _data(material: AuditMaterial) -> AuditData:
    reasons = dict.fromkeys(("training_clients", "validation_clients", "parameters"), UNKNOWN)
    if material.client_count is None:
        reasons["clients"] = "the audit names no client key"
    return AuditData(
        clients=material.client_count,
        rows=material.federation.rows,
        notes=list(material.federation.notes),
        reasons=reasons,
    )


def _provenance(material: AuditMaterial) -> Provenance:
    return Provenance(
        spec_hash=material.audit.hash,
        data_fingerprint=material.federation.fingerprint,
        seed=material.audit.seed,
        reasons={},
        **provenance(device="cpu", backend={}, started_at=material.started_at),
    )


def _integrity(material: AuditMaterial) -> AuditIntegrity:
    no_ledger = "an audit of predictions spends nothing, and has no ledger"
    missing = dict.fromkeys(("ledger_hash", "chain_head", "entries"), no_ledger)
    unsigned = ("signature",) if material.key_id is not None else ("signature", "key_id")
    return AuditIntegrity(
        signature=None,
        key_id=material.key_id,
        reasons={**missing, **dict.fromkeys(unsigned, "the report is not signed")},
    )


def _identity_checks(found: AuditEvidence) -> Iterator[Check]:
    yield agrees(found.report, "subject", "predictions")
    given = found.evidence.experiment_id
    yield agrees(found.report, "experiment.id", given, name="report.audit")
    yield agrees(found.report, "experiment.status", "succeeded")
    yield from _spec_checks(found, "experiment")


def _spec_checks(found: AuditEvidence, section: str) -> Iterator[Check]:
    """Whether a section states what the audit's spec does."""
    audit = found.audit
    if audit is None:
        return
    stated = {
        "experiment.name": audit.name,
        "provenance.seed": audit.seed,
        "predictions.truth": audit.truth,
        "predictions.column": audit.predicted_by,
        "predictions.role": audit.prediction_role,
        "predictions.threshold.value": audit.threshold,
        "predictions.drawn": "rows" if audit.client_key is None else "clients",
    }
    for path, value in stated.items():
        if path.startswith(section):
            yield agrees(found.report, path, value, name=f"report.{path}")


def _nothing_known(part: Part, name: str) -> Callable[[AuditEvidence], Iterator[Check]]:
    """The check of a section that claims nothing: no guarantee and no figure, in whatever words."""
    nothing = part.model_dump(mode="json", exclude={"statement", "reasons"})

    def checked(found: AuditEvidence) -> Iterator[Check]:
        stated, claims = value_at(found.report, name), [name]
        if isinstance(stated, Mapping):
            fields = sorted({"kind", *stated} - {"statement", "reasons"})
            claims = [one for one in fields if not same(stated.get(one), nothing.get(one))]
        yield Check.of(
            "report.kind" if name == "guarantee" else f"report.{name}",
            not claims,
            good=f"{name} claims nothing: the training is not known",
            bad=f"the training is not known, and {name} must claim nothing: {', '.join(claims)}",
        )

    return checked


def _provenance_checks(found: AuditEvidence) -> Iterator[Check]:
    yield spec_hash_check(found.evidence, found.report)
    yield from _spec_checks(found, "provenance")


def _prediction_checks(found: AuditEvidence) -> Iterator[Check]:
    yield from _spec_checks(found, "predictions")
    if found.audit is None:
        yield Check.unchecked("report.figures", "the spec cannot be read, or is of another version")
        return
    exact = found.audit.rounding is None
    try:
        wrong = [
            f"{text} by {section['attribute']}"
            for section in found.report["fairness"]
            for text in _wrong_gaps(section, exact=exact)
        ]
    except MALFORMED:
        wrong = ["the report lacks figures, or has them malformed"]
    yield Check.of(
        "report.gaps",
        not wrong,
        good="every gap is equal to what was recomputed from the groups' figures, and suppressed "
        "groups have none",
        bad=f"these are not the gaps between the groups' figures: {'; '.join(wrong[:3])}",
    )


def _words_checks(found: AuditEvidence) -> Iterator[Check]:
    if found.audit is not None:
        yield from words_checks(as_report_of_run(found.report, found.audit))


def as_report_of_run(report: Mapping[str, Any], audit: AuditSpec) -> dict[str, Any]:
    """The report with its columns, groups and labels where the spec of a run has them."""
    return {**report, "spec": measuring_spec(audit).model_dump(mode="json")}


_NO_GUARANTEE = NoGuarantee(
    statement=NO_GUARANTEE,
    reasons=dict.fromkeys(("label", "mechanism", "unit", "adjacency", "delta"), UNKNOWN),
)
_NO_FIGURES = UnknownPrivacy(
    reasons={
        name: UNKNOWN for name in UnknownPrivacy.model_fields if name not in ("epsilon", "reasons")
    }
)
_STATED = "the rows are not here: this is what the signer states"
_Audited = Section[AuditMaterial, AuditEvidence]
AUDIT: tuple[_Audited, ...] = (
    _Audited(
        "experiment",
        lambda material: AuditIdentity(
            id=material.audit_id,
            name=material.audit.name,
            spec_hash=material.audit.hash,
            status="succeeded",
        ),
        _identity_checks,
        no_limits,
    ),
    _Audited(
        "guarantee",
        lambda _: _NO_GUARANTEE,
        _nothing_known(_NO_GUARANTEE, "guarantee"),
        lambda _: [NO_GUARANTEE],
    ),
    _Audited("provenance", _provenance, _provenance_checks, no_limits),
    _Audited("predictions", _predictions, _prediction_checks, _prediction_limits),
    _Audited("utility", _utility, _STATED, no_limits),
    _Audited("fairness", lambda material: material.fairness, _words_checks, _fairness_limits),
    _Audited("privacy", lambda _: _NO_FIGURES, _nothing_known(_NO_FIGURES, "privacy"), no_limits),
    _Audited("fairness_privacy", lambda _: "an audit adds no noise to counts", _STATED, no_limits),
    _Audited("model", lambda _: UNKNOWN, UNKNOWN, no_limits),
    _Audited(
        "data",
        _data,
        _STATED,
        lambda _: [
            "The numbers of rows and clients and a hash of the file are disclosed without noise: "
            "anyone who guesses the whole file can confirm the guess."
        ],
    ),
    _Audited(
        "integrity",
        _integrity,
        "its signature covers the whole report, and is checked before the sections",
        lambda material: [
            SIGNED
            if material.key_id is not None
            else "The report is not signed: anyone may have changed it."
        ],
    ),
)
"""The sections of an audit's report, in the order in which they are verified."""
