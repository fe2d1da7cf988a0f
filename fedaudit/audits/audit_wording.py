"""What an audit of predictions says in words: its verdict, and what it does not show."""

from collections.abc import Iterator, Mapping
from typing import Any

from fedaudit.audits.audited_rows import AuditedRows
from fedaudit.reports.gates.gate_results import OUTCOME_WORDS
from fedaudit.reports.sections.part import VerdictParts
from fedaudit.reports.verdict.worst_off import fairness_part
from fedaudit.spec.metrics import FAIRNESS_FIGURES

UNKNOWN = "the training is not known here: an audit of predictions sees truth and prediction alone"
NO_GUARANTEE = (
    "Nothing is guaranteed. How the model was trained is not known here, so nothing in this report "
    "bounds what the model, or its predictions, reveal of anybody."
)
EQUAL_TRUTH = "predictions equal the truth in every row"
_FAIRNESS_ALONE = (
    "This concerns fairness alone: the privacy of the training is no part of this audit, and "
    "whether the model may be released cannot be decided from it."
)
_SPENT = (
    "Not known: an audit of predictions does not see the training, so no privacy cost is stated."
)
_AT = {"le": "at most", "ge": "at least"}


def audit_verdict(report: Mapping[str, Any]) -> VerdictParts:
    """The four parts, from an otherwise complete report whose `spec` is that of a run."""
    return VerdictParts(
        release=" ".join(_release(report)),
        cost=_SPENT,
        fairness=fairness_part(report),
        next=next(_next(report)),
    )


def _release(report: Mapping[str, Any]) -> Iterator[str]:
    utility, gates = report["utility"], report["gates"]
    if report["predictions"]["equal_truth"]:
        yield (
            f"Not to be relied on as it is: {EQUAL_TRUTH}. No model is always right, so the column "
            "is most likely a copy of the truth, or was made knowing it."
        )
    elif utility["degenerate"] is True:
        yield f"No: the predictions decide nothing: {utility['reasons']['degenerate']}."
    elif utility["degenerate"] is None:
        yield (
            "Not shown: that the predictions decide anything is not shown, "
            f"{utility['reasons']['degenerate']}."
        )
    if report["gate_outcome"] is None:
        yield "No gate was set, so nobody has said how even the predictions must be."
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
    if report["utility"]["degenerate"] is True:
        yield (
            "Audit predictions that decide something: another model, or a threshold at which both "
            "outcomes are predicted; equal rates of one answer for everybody are no fairness."
        )
    if report["utility"]["degenerate"] is None:
        yield "Audit more rows, until the predictions are shown to be better than a constant."
    for gate in report["gates"]:
        if gate["outcome"] == "fail" and gate["figure"] in FAIRNESS_FIGURES:
            yield (
                f"{gate['figure']} has to be {_AT[gate['op']]} {gate['bound']:g}: see above which "
                "group is worst off, and look for what the model knows of it, or does not."
            )
        if gate["outcome"] != "pass":
            yield f"For the gate on {gate['figure']}: {gate['reason']}."
    if any(group["suppressed"] for one in report["fairness"] for group in one["groups"]):
        yield (
            "Some groups are suppressed because they are small: audit more rows, or join groups, "
            "before concluding that everybody is treated alike."
        )
    if report["gate_outcome"] is None:
        yield "Set gates for how even the predictions must be, so that the next audit is judged."
    yield "Read what this report does not show."


def audit_limits(rows: AuditedRows, report: Mapping[str, Any], *, signed: bool) -> list[str]:
    """What the report does not show, in a sentence each."""
    audit = rows.audit
    return [
        NO_GUARANTEE,
        "Whoever made the table chose its rows: that they are a fair sample of the people "
        "concerned, that the predictions are those of the model in use, and that the model had not "
        "seen the rows, is taken on trust.",
        *([f"Beware: {EQUAL_TRUTH}."] if rows.all_right else []),
        *_left_out(report),
        *_threshold(report),
        *_groups(rows),
        "The figures say how truth and prediction compare, group by group. They do not say why, "
        "nor whether the truth itself, or the rule for a favourable outcome, is fair.",
        "The largest gap among many groups is biased upward, and so is its interval: it cannot "
        "show that there is no gap. A null shows how wide it comes out by chance alone.",
        _drawn(rows),
        _counts(audit.fairness.rounded_to),
        "The numbers of rows and clients and a hash of the file are disclosed without noise: "
        "anyone who guesses the whole file can confirm the guess.",
        (
            "The signature shows that whoever held the key stated this, and that nothing was "
            "changed since. It does not show that what was stated is true, nor when."
        )
        if signed
        else "The report is not signed: anyone may have changed it.",
    ]


def _left_out(report: Mapping[str, Any]) -> list[str]:
    left = report["predictions"]["rows_left_out"]
    if not left:
        return []
    kept = report["data"]["rows"]
    return [
        f"{left} of {left + kept} rows were left out, for want of truth, prediction or client: "
        "where they are not like the others, neither are these figures."
    ]


def _threshold(report: Mapping[str, Any]) -> list[str]:
    threshold = report["predictions"]["threshold"]
    if threshold is None:
        return []
    said = (
        f"Scores count as predictions from {threshold['value']:g} up. A threshold can be chosen so "
        "that a gap vanishes: `predictions.threshold` has the gaps at others"
    )
    earlier = threshold["earlier_audits"]
    if earlier is None:
        return [f"{said}. How many others were tried before is not known."]
    return [f"{said}, and this project audited these scores at {earlier} other thresholds before."]


def _groups(rows: AuditedRows) -> list[str]:
    audit = rows.audit
    clients = (
        "; without a client key it is not known whether a group's rows are one person's"
        if rows.client_count is None
        else f", or rows of fewer than {audit.minimum_group_clients} clients"
    )
    found = [
        f"Groups with fewer than {audit.minimum_group_size} rows{clients}, are suppressed, and so "
        "are groups from which so few would follow by sums and differences of what this report "
        "shows; a gap may be larger among suppressed groups."
        if rows.client_count is not None
        else f"Groups with fewer than {audit.minimum_group_size} rows are suppressed, and so are "
        "groups from which so few would follow by sums and differences of what this report shows; "
        f"a gap may be larger among suppressed groups{clients}."
    ]
    if any(", in no group: " in note for note in rows.federation.notes):
        found.append(
            "Rows without a value of an attribute are in no group, and count for the accuracy of "
            "everybody alone."
        )
    return found


def _drawn(rows: AuditedRows) -> str:
    if rows.client_count is None:
        return (
            "Intervals count rows one by one, as if no two belonged to the same person or "
            "institution: where several do, they are too narrow. Name a client key then."
        )
    return "Intervals count clients, whose rows belong together, and take the model as it is."


def _counts(base: int | None) -> str:
    if base is None:
        return (
            "Rates of larger groups are exact: the counts behind them can be worked out, and what "
            "remains of the total bounds the counts of the suppressed groups."
        )
    return (
        f"Rates and gaps follow from counts that were rounded at random to multiples of {base}; "
        "accuracy over all rows is exact. This is rounding and no noise with an epsilon."
    )
