"""Experiments as the list shows them: a line each, with the figures that one compares by."""

from dataclasses import dataclass

from api.pages.wording import cost, figure, small_number
from api.schemas.experiments import ExperimentBody
from fedaudit.privacy.guarantees import guarantee_kind
from fedaudit.privacy.inputs import GuaranteeKind
from fedaudit.spec.metrics import METRICS
from fedaudit.spec.parse import parse_spec

MECHANISMS = {
    "none": "no noise",
    "laplace-l2": "Laplace, metric privacy",
    "gaussian-local": "Gaussian, at each client",
    "gaussian-central": "Gaussian, at the server",
    "record-personalised": "budgets of records",
}
"""What each mechanism is, in few words."""

# The first that an experiment has is the one shown.
_GAPS = (
    "equalized_odds_difference",
    "demographic_parity_difference",
    "equal_opportunity_difference",
)
_UNENDED = ("queued", "running", "cancelling")


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


def row_of(experiment: ExperimentBody, federation: str | None) -> Row:
    """The line of an experiment."""
    spec, done = parse_spec(experiment.spec), experiment.progress
    waiting = experiment.status in _UNENDED
    return Row(
        experiment=experiment,
        mechanism=MECHANISMS[spec.privacy.mechanism],
        guarantee=guarantee_kind(spec),
        cost=_cost(experiment),
        gap=_gap(experiment),
        utility=_utility(experiment),
        reason=_reason(experiment.status),
        progress=done.round / max(done.rounds, 1) if waiting else None,
        federation=federation,
    )


def _reason(status: str) -> str:
    """Why a figure is missing. A run that failed may have spent all the same."""
    if status in _UNENDED:
        return "not yet"
    return "no figure" if status == "succeeded" else "no report"


def _cost(experiment: ExperimentBody) -> Shown | None:
    figures = experiment.figures
    if figures.epsilon_max is not None:
        return Shown(f"ε ≤ {cost(figures.epsilon_max)}", f"at δ = {small_number(figures.delta)}")
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
