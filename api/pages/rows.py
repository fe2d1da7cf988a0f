"""Experiments and reports as lists show them: a line each, with the figures one compares by."""

import re
from dataclasses import dataclass
from typing import Any, assert_never

from api.pages.wording import cost, figure, small_number
from api.schemas.experiments import ExperimentBody, Status
from api.schemas.reports import LargestGapBody, ReportBody
from fedaudit.fairness.gaps import gap_size
from fedaudit.number_text import UNBOUNDED
from fedaudit.privacy.guarantees.cost_sentences import level_words
from fedaudit.privacy.mechanisms.base import PrivacyMechanism
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.figures import LargestGap
from fedaudit.reports.sections.guarantee import guarantee_words
from fedaudit.spec.metrics import METRICS
from fedaudit.spec.parse import parse_admitted
from models.vocabulary import ENDED

_UNREADABLE = "cannot be read"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
# The first that an experiment has is the one shown.
_NOT_USEFUL = frozenset(
    {
        "model-decides-nothing",
        "model-not-shown-useful",
        "model-too-good",
        "threshold-misplaced",
        "training-diverged",
    }
)
"""Reasons for an answer that take an accuracy its meaning."""
_GAPS = (
    "equalized_odds_difference",
    "demographic_parity_difference",
    "equal_opportunity_difference",
)


@dataclass(frozen=True)
class Shown:
    """A figure, and what it is; `share` of 1 draws a bar."""

    text: str
    remark: str
    share: float | None = None


@dataclass(frozen=True)
class ReportRow:
    """One line. Without a gap, the report's reasons say why."""

    report: ReportBody
    verdict: str
    """The first sentence."""
    guarantee: str
    guarantee_style: str
    gap: Shown | None
    federation: str | None


def experiment_row(
    experiment: ExperimentBody, federation: str | None, gap: LargestGap | None = None
) -> dict[str, Any]:
    """The line of an experiment; `gap` is its report's largest, where it has a report, and
    `federation` the name of its data, for visitors who may read federations. A missing figure is
    None, and `reason` says why; `progress` is None once it has ended."""
    mechanism, done = mechanism_of(parse_admitted(experiment.spec)), experiment.progress
    return {
        "experiment": experiment,
        "mechanism": mechanism.facts.label,
        "guarantee": mechanism.guarantee_kind,
        "cost": _cost(experiment, mechanism),
        "gap": _first_gap(experiment) if gap is None else _largest_gap(gap),
        "utility": _utility(experiment),
        "reason": _reason(experiment.status),
        "progress": None if experiment.status in ENDED else done.round / max(done.rounds, 1),
        "federation": federation,
    }


def report_row(report: ReportBody, federation: str | None) -> ReportRow:
    """The line of a report."""
    gap, guarantee = report.largest_gap, report.guarantee
    if guarantee is None:
        label, style = _UNREADABLE, "none"
    elif guarantee.kind == "none":  # no reader takes this word for zero
        label, style = UNBOUNDED, "none"
    else:
        label = guarantee_words(guarantee.model_dump())
        style = guarantee.kind if guarantee.in_force else "suspended"
    # A full stop within a number ends no sentence.
    verdict = _SENTENCE_END.split(report.verdict, maxsplit=1)[0] if report.verdict else _UNREADABLE
    shown = None if gap is None else _largest_gap(gap)
    return ReportRow(report, verdict, label, style, shown, federation)


def _reason(status: Status) -> str:
    """Why a figure is missing. A failed run may still have spent privacy budget."""
    match status:
        case "queued" | "running" | "cancelling":
            return "not yet"
        case "succeeded":
            return "no figure"
        case "failed" | "cancelled":
            return "no report"
        case _:
            assert_never(status)


def _largest_gap(gap: LargestGap | LargestGapBody) -> Shown:
    words = gap.figure.removesuffix("_difference").replace("_", " ")
    remark = f"{words} by {gap.attribute}"
    if gap.unmeasured:
        remark += f"; none for {', '.join(gap.unmeasured)}"
    if size := gap_size(gap.figure, gap.value):
        remark += f"; {size}"
    return Shown(figure(gap.value), remark, share=gap.value if gap.value <= 1 else None)


def _first_gap(experiment: ExperimentBody) -> Shown | None:
    for name in _GAPS:
        value = getattr(experiment.figures, name)
        if value is not None:
            return Shown(figure(value), METRICS[name].family.words, share=value)
    return None


def _cost(experiment: ExperimentBody, mechanism: PrivacyMechanism) -> Shown | None:
    figures = experiment.figures
    if figures.epsilon_max is not None:
        words = level_words(
            figures.epsilon_max,
            delta=figures.delta or 0.0,
            kind=mechanism.guarantee_kind,
            in_force=mechanism.noise_is_secret,
        )
        remark = f"at δ = {small_number(figures.delta)}; {words}"
        return Shown(f"ε ≤ {cost(figures.epsilon_max)}", remark)
    if figures.leakage_max is not None:
        return Shown(cost(figures.leakage_max), "leakage, largest")
    return None


def _utility(experiment: ExperimentBody) -> Shown | None:
    figures, answer = experiment.figures, experiment.answer
    if figures.accuracy is not None:
        # A constant prediction may be as accurate: no bar before a report compared the two.
        found = {"not-compared"} if answer is None else {one.code for one in answer.reasons}
        useful = found.isdisjoint({"not-compared", *_NOT_USEFUL})
        remark = "accuracy" if useful or answer is None else "accuracy, not shown to be useful"
        share = figures.accuracy if useful else None
        return Shown(figure(figures.accuracy), remark, share=share)
    if figures.validation_loss is not None:
        return Shown(figure(figures.validation_loss), "validation loss")
    return None
