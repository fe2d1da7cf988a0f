"""Verify the report of an audit of predictions: its signature, and what follows from the figures
that it publishes. There is no ledger, and the rows are not there."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.metrics import comparable, rate_gaps, spread
from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.signatures import Keyring
from fedaudit.reports.document.checks import Check, check, shown, unchecked, value_at
from fedaudit.reports.gates.gate_evaluation import overall
from fedaudit.reports.verification.report_checks import (
    agrees,
    check_gates,
    signature_check,
    spec_hash_check,
)
from fedaudit.reports.verification.words_checks import words_checks
from fedaudit.spec.audits import AuditSpec, measuring_spec, parse_audit
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.metrics import METRICS, RATES
from fedaudit.utility.degenerate import Gained, judge_model

NOT_VERIFIED = (
    "The rows are not here: that rates and accuracies of groups, intervals, nulls, averages over "
    "clients, gaps at other thresholds, and accuracy over all rows follow from the table is what "
    "the signer states.",
    "That the table is the one with the fingerprint in the report, that its rows are a fair "
    "sample, and that its predictions are those of the model in use, is what the signer states, "
    "or whoever made the table.",
    "Numbers of rows by group are confidential, so no rate is divided anew: only how the published "
    "figures of groups fit one another is checked.",
)
_DIGITS = 1e-9
"""Figures that were made from counts are made anew from quotients of them; what differs by less is
found by the signature alone."""
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
_Section = Mapping[str, Any]


def audit_checks(evidence: Evidence, keyring: Keyring) -> Iterator[Check]:
    """The checks, in the order in which they are reported; the rows of the evidence are read."""
    yield _no_ledger(evidence)
    report = evidence.report
    if report is None:
        yield check("report.present", False, good="", bad="an audit's report is missing")
        return
    # A worker signs every audit, so one without a signature has lost it.
    yield signature_check(report, keyring, with_checkpoints=True)
    yield agrees(report, "subject", "predictions")
    yield agrees(report, "experiment.id", evidence.experiment_id, name="report.audit")
    yield agrees(report, "guarantee.kind", "none")
    yield spec_hash_check(evidence, report)
    try:
        audit = parse_audit(evidence.spec)
    except InvalidInputError:
        yield unchecked("report.figures", "the spec cannot be read, or is of another version")
        return
    yield from _figures(audit, report)
    # Words and gates are read beside the columns and labels of a run's spec.
    measuring = measuring_spec(audit)
    as_of_run = {**report, "spec": measuring.model_dump(mode="json")}
    yield from words_checks(as_of_run)
    yield check_gates(measuring, as_of_run)
    yield _gate_outcome(report)


def _no_ledger(evidence: Evidence) -> Check:
    found = [*evidence.names, *evidence.checkpoints, *evidence.sign_offs]
    rows = sum(1 for _ in evidence.rows)
    return check(
        "ledger.absent",
        not found and not rows,
        good="there is no ledger: an audit of predictions spends nothing",
        bad="an audit has no ledger, and entries, subjects, checkpoints or sign-offs came with it",
    )


def _figures(audit: AuditSpec, report: Mapping[str, Any]) -> Iterator[Check]:
    exact = audit.rounding is None
    yield _compared(
        "report.rates",
        lambda: _of_sections(report, _wrong_rates, exact=exact),
        good="the rates of each group fit one another, and suppressed groups have none",
        bad="these figures of groups do not fit one another",
    )
    yield _compared(
        "report.gaps",
        lambda: _of_sections(report, _wrong_gaps, exact=exact),
        good="every gap is equal to what was recomputed from the groups' figures",
        bad="these gaps are not those between the groups' figures",
    )
    yield _compared(
        "report.utility",
        lambda: _wrong_utility(report["utility"], exact=exact),
        good="what the predictions are above a constant follows from both accuracies",
        bad="these figures do not follow from the others",
    )


def _compared(name: str, wrong: Any, *, good: str, bad: str) -> Check:
    try:
        found = wrong()
    except _MALFORMED:
        return check(name, False, good="", bad="the report lacks figures, or has them malformed")
    return check(name, not found, good=good, bad=f"{bad}: {'; '.join(found[:3])}")


def _of_sections(report: Mapping[str, Any], wrong: Any, *, exact: bool) -> list[str]:
    return [
        f"{text} by {section['attribute']}"
        for section in report["fairness"]
        for text in wrong(section, exact=exact)
    ]


# -- groups ---------------------------------------------------------------------------------------


def _wrong_rates(section: _Section, *, exact: bool) -> Iterator[str]:
    for group in section["groups"]:
        place = shown(group["value"])
        figures = {name: group[name] for name in (*RATES, "accuracy", "accuracy_over_baseline")}
        if group["suppressed"]:
            yield from (f"{name} of {place}" for name, one in figures.items() if one is not None)
            continue
        selected, right, false = (
            figures[name]
            for name in ("selection_rate", "true_positive_rate", "false_positive_rate")
        )
        if None not in (selected, right, false):
            low, high = min(right, false), max(right, false)
            if not low - _DIGITS <= selected <= high + _DIGITS:
                yield f"selection_rate of {place}"
            elif exact and not _is_possible(figures["accuracy"], selected, right, false):
                yield f"accuracy of {place}"
        if not _is_gain(group):
            yield f"accuracy_over_baseline of {place}"


def _is_possible(accuracy: float | None, selected: float, right: float, false: float) -> bool:
    """Whether so many predictions can be right: no more than have the favourable outcome right,
    whose share follows from the three rates."""
    spread_of_rates = right - false
    if accuracy is None or abs(spread_of_rates) < 1e-6:
        return True
    favourable = (selected - false) / spread_of_rates
    return accuracy <= favourable * right + (1 - favourable) * (1 - false) + _DIGITS


def _wrong_gaps(section: _Section, *, exact: bool) -> Iterator[str]:
    groups = section["groups"]
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
        said = section["metrics"][name]["value"]
        # Rounded counts may define a gap that the exact ones do not, and then it stays undefined.
        undefined = said is None and (bool(np.isnan(value)) or not exact)
        if not undefined and not _near(said, float(value)):
            yield f"{name} is {shown(said)} in the report and {float(value)!r} recomputed"


def _column(groups: Sequence[_Section], name: str) -> NDArray[np.float64]:
    return np.array(
        [np.nan if group[name] is None else float(group[name]) for group in groups],
        dtype=np.float64,
    )


# -- all rows -------------------------------------------------------------------------------------


def _wrong_utility(utility: _Section, *, exact: bool) -> list[str]:
    wrong = [] if _is_gain(utility) else ["accuracy_over_baseline"]
    gain = utility["accuracy_over_baseline"]
    judged = judge_model(
        accuracy=None if gain is None else Gained(gain, shown=True),
        loss=None,
        outcome=None,
        prediction_share=utility["prediction_share"],
        outcome_share=utility["outcome_share"],
    )
    # Whether a gain is shown rests on the rows; that there is none does not. Figures in wide steps
    # do not say it.
    if exact and (judged.degenerate is True) != (utility["degenerate"] is True):
        wrong.append(f"degenerate is {shown(utility['degenerate'])}")
    return wrong


def _is_gain(figures: _Section) -> bool:
    gain, baseline = figures["accuracy_over_baseline"], figures["baseline_accuracy"]
    if gain is None or baseline is None:
        return gain is None
    return _near(gain, figures["accuracy"] - baseline)


def _gate_outcome(report: Mapping[str, Any]) -> Check:
    gates = value_at(report, "gates")
    try:
        found = overall(gates)
    except _MALFORMED:
        return check("report.gate_outcome", False, good="", bad="the report's gates are malformed")
    return agrees(report, "gate_outcome", found)


def _near(said: Any, found: float) -> bool:
    if isinstance(said, bool) or not isinstance(said, int | float):
        return False
    return math.isclose(said, found, rel_tol=0.0, abs_tol=_DIGITS)
