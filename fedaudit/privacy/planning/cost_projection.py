"""The form of a projected cost, reasons for missing figures, and how often clients are drawn."""

from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.privacy_events import Adjacency, Observer
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.training import FixedCohort, PoissonCohort

NO_MECHANISM = "there is no mechanism, so nothing bounds what a release reveals"
NO_EPSILON = (
    "metric privacy is counted as leakage; it has no (epsilon, delta) guarantee to add it to"
)
NO_LEAKAGE = (
    "the mechanism is counted as an epsilon with a delta; leakage, of metric privacy, is another "
    "figure"
)
NO_NOISE = "the baseline `privacy-free` trains without noise, so nothing bounds what it reveals"

LEAKAGE_FIGURES = ("leakage_worst_case", "leakage_expected", "log_ratio_worst_case")
ALL_FIGURES = (*LEAKAGE_FIGURES, "epsilon", "budget_ends_in_round", "noise_multiplier")


@dataclass(frozen=True)
class Projection:
    """The cost if every round runs. A None has its reason under the same name in `reasons`."""

    leakage_worst_case: float | None
    """Leakage of a client drawn in every round, as far as its budget lets it take part."""
    leakage_expected: float | None
    """Mean leakage of a training client."""
    log_ratio_worst_case: float | None = None
    """The theorem's own sum of the same client, between any two datasets that choose alike."""
    epsilon: list[dict[str, object]] = field(default_factory=list)
    """Per observer, delta and adjacency: the worst case of the whole run, as `value`; with
    `expected`, the mean over clients, where that is less. Empty for metric privacy."""
    budget_ends_in_round: int | None = None
    """The earliest round in which a budget could refuse a client, or that a run would not play."""
    noise_multiplier: float | None = None
    """The noise multiplier of the mechanism: as the spec sets it, or calibrated from public
    numbers."""
    fairness_epsilon: dict[str, object] | None = None
    """What the fairness figures may reveal of the people held out, in the form of an entry of
    `epsilon` with its `unit`; known before the run."""
    reasons: dict[str, str] = field(default_factory=dict)


def unbounded_projection(reason: str) -> Projection:
    """The projection of training without noise: no figure, for one reason."""
    return Projection(None, None, reasons=dict.fromkeys(ALL_FIGURES, reason))


def epsilon_entry(
    observer: Observer, *, delta: float, adjacency: Adjacency, value: float
) -> dict[str, object]:
    """An entry of `Projection.epsilon`."""
    return {
        "observer": observer,
        "delta": delta,
        "adjacency": adjacency,
        "value": value,
    }


def fixed_cohort(spec: ExperimentSpec, training_clients: int) -> int:
    """Clients drawn in a round.

    Raises ValueError for a cohort of coins, which the spec's rules leave to other mechanisms.
    """
    cohort = spec.training.cohort
    match cohort:
        case FixedCohort():
            return min(cohort.clients, training_clients)
        case PoissonCohort():
            raise ValueError(f"{spec.privacy.mechanism} draws a fixed number of clients")
        case _:
            assert_never(cohort)


def mean_participations(rounds: int, cohort: int, clients: int, *, most: int) -> float:
    """Mean releases of a client that is drawn with chance cohort / clients in every round.

    That is rounds * cohort / clients, and with a budget the mean of min(X, most), X binomial.
    """
    if most >= rounds:
        return rounds * cohort / clients
    shares = participations(rounds, cohort, clients, most=most)
    return float(np.arange(most + 1) @ shares)


def participations(rounds: int, cohort: int, clients: int, *, most: int) -> NDArray[np.float64]:
    """The chances of min(X, most) = 0 .. most, X binomial: float64 [most + 1].

    X counts the draws of a client that is drawn with chance cohort / clients in every round.
    """
    shares = np.zeros(most + 1)
    if cohort == clients:
        shares[most] = 1.0
        return shares
    draws = np.arange(most)
    steps = np.log(rounds - draws) - np.log1p(draws) + np.log(cohort) - np.log(clients - cohort)
    logs = rounds * np.log1p(-cohort / clients) + np.concatenate(([0.0], np.cumsum(steps)))
    shares[:most] = np.exp(logs[:most])
    shares[most] = max(0.0, 1.0 - float(shares[:most].sum()))
    return shares
