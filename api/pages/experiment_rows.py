"""Experiments as the list shows them: a line each, with the figures that one compares by."""

from dataclasses import dataclass
from typing import assert_never

from api.pages.wording import cost, figure, small_number
from api.schemas.experiments import ExperimentBody, Status
from api.schemas.reports import LargestGapBody
from fedaudit.fairness.metrics import gap_size
from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.privacy.guarantees.cost_sentences import level_words
from fedaudit.privacy.mechanisms.base import PrivacyMechanism
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.figures import LargestGap
from fedaudit.spec.metrics import METRICS
from fedaudit.spec.parse import parse_admitted
from models.repositories.experiments import ENDED

# The first that an experiment has is the one shown.
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
class Row:
    """One line of the list. A figure is None where there is none, and `reason` says why."""

    experiment: ExperimentBody
    mechanism: str
    guarantee: GuaranteeKind
    cost: Shown | None
    gap: Shown | None
    utility: Shown | None
    reason: str
    progress: float | None
    """The share of the rounds that are done, while it has not ended."""
    federation: str | None
    """The name of its data, where the visitor may know it."""


def row_of(
    experiment: ExperimentBody, federation: str | None, gap: LargestGap | None = None
) -> Row:
    """The line of an experiment; `gap` is its report's largest, where it has a report."""
    mechanism, done = mechanism_of(parse_admitted(experiment.spec)), experiment.progress
    waiting = experiment.status not in ENDED
    return Row(
        experiment=experiment,
        mechanism=mechanism.facts.label,
        guarantee=mechanism.guarantee_kind,
        cost=_cost(experiment, mechanism),
        gap=_gap(experiment) if gap is None else shown_gap(gap),
        utility=_utility(experiment),
        reason=_reason(experiment.status),
        progress=done.round / max(done.rounds, 1) if waiting else None,
        federation=federation,
    )


def _reason(status: Status) -> str:
    """Why a figure is missing. A run that failed may have spent all the same."""
    match status:
        case "queued" | "running" | "cancelling":
            return "not yet"
        case "succeeded":
            return "no figure"
        case "failed" | "cancelled":
            return "no report"
        case _:
            assert_never(status)


def shown_gap(gap: LargestGap | LargestGapBody) -> Shown:
    """The largest gap of a report, with what it is about."""
    words = gap.figure.removesuffix("_difference").replace("_", " ")
    size = gap_size(gap.figure, gap.value)
    remark = f"{words} by {gap.attribute}"
    if gap.unmeasured:
        remark += f"; none for {', '.join(gap.unmeasured)}"
    if size:
        remark += f"; {size}"
    return Shown(figure(gap.value), remark, share=gap.value if gap.value <= 1 else None)


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


def _gap(experiment: ExperimentBody) -> Shown | None:
    for name in _GAPS:
        value = getattr(experiment.figures, name)
        if value is not None:
            return Shown(figure(value), METRICS[name].family.words, share=value)
    return None


def _utility(experiment: ExperimentBody) -> Shown | None:
    figures = experiment.figures
    if figures.accuracy is not None:
        return Shown(figure(figures.accuracy), "accuracy", share=figures.accuracy)
    if figures.validation_loss is not None:
        return Shown(figure(figures.validation_loss), "validation loss")
    return None
