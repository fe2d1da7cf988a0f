"""What a run is projected to cost, and whether its noise drowns what is learnt.

The theorem's own sum over a run (Galli et al., Theorem 4.2) says how far apart the transcripts of
any two datasets of a client may be, however large the radius was chosen. n/nu does not: it holds
between uploads within a radius that is free, and the same noise has any n/nu.

Whether noise will likely drown what a round learns is judged from public numbers alone. A round
moves a hypothesis by the average of about m updates, m being the cohort over the number of
hypotheses. The average can be no longer than the bound on one update: its clip, or with an adaptive
radius the updates themselves. Root mean squares of the noise on that average, for n parameters:

- `laplace-l2`: a release's noise has the norm of a gamma variable, of shape n and scale nu r / n,
  so nu r sqrt((n + 1) / n); of m independent ones, over sqrt(m). With noise for each layer, their
  squares add up.
- `gaussian-local`: nu clip sqrt(n) of a release, over sqrt(m).
- `gaussian-central`: nu clip sqrt(n) on the sum, over m.

Noise twice as long as the longest signal is taken to drown it. That is a rule of thumb: many rounds
average noise out, so a little more noise than signal still lets a model learn; updates that are
shorter than their clip, or point in different directions, drown sooner. No warning is no promise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.accounting.privacy_events import Adjacency, Observer
from fedaudit.privacy.leakage import worst_log_ratio
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)
from fedaudit.spec.training import AllocationCohort, Cohort, FixedCohort, PoissonCohort

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
    return {"observer": observer, "delta": delta, "adjacency": adjacency, "value": value}


def fixed_cohort(spec: ExperimentSpec, training_clients: int) -> int:
    """Clients drawn in a round.

    Raises ValueError for a cohort of coins, which the spec's rules leave to other mechanisms.
    """
    cohort = spec.training.cohort
    match cohort:
        case FixedCohort():
            return min(cohort.clients, training_clients)
        case PoissonCohort() | AllocationCohort():
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


SECRET_RATES = (
    "the radius is adaptive, so the rates are secret, and the theorem needs public ones; leakage "
    "adds up by the paper's convention instead"
)
NO_CLIP = "updates are not clipped, so nothing bounds how far a client's uploads may lie apart"


def theorem_sum(inputs: MechanismParameters, releases: int) -> float | str:
    """The sum over `releases` rounds between datasets that choose alike in every round, or the
    reason why there is none.

    Raises ValueError where the cost is not counted as leakage.
    """
    if inputs.cost_kind != "leakage" or inputs.noise_multiplier is None:
        raise ValueError(f"the cost of {inputs.mechanism} is not counted as leakage")
    if inputs.radius is None:
        return SECRET_RATES
    if inputs.clip is None:
        return NO_CLIP
    return worst_log_ratio(
        releases,
        sizes=inputs.noised_sizes,
        noise_multiplier=inputs.noise_multiplier,
        radius=inputs.radius,
        clip=inputs.clip,
    )


DROWNED = 2.0
"""The ratio from which on noise is said to drown the signal: a small logistic regression of 60
rounds learnt at 0.4, and nothing at 3 (`tests/runs/test_useless_models.py`)."""


def noise_ratio(
    spec: ExperimentSpec, *, sizes: Sequence[int], training_clients: int
) -> float | None:
    """Norm of the noise on an averaged update over the most that the average can be long.

    `sizes`: how many parameters get noise together, for each layer or all in one. None where
    nothing bounds the signal, there is no noise, or noise is added in local steps.
    """
    m, privacy = _updates_averaged(spec, training_clients), spec.privacy
    match privacy:
        case NoMechanism() | RecordPersonalised():
            return None
        case LaplaceL2():
            ratio = _laplace_ratio(privacy, sizes)
            return None if ratio is None else ratio / math.sqrt(m)
        case GaussianLocal():
            return privacy.noise_multiplier * math.sqrt(sum(sizes) / m)
        case GaussianCentral():
            return privacy.noise_multiplier * math.sqrt(sum(sizes)) / m
        case _:
            assert_never(privacy)


def drowning_words(
    spec: ExperimentSpec, *, sizes: Sequence[int], training_clients: int
) -> str | None:
    """A warning where noise will likely drown the signal, with a remedy; None where it need not."""
    ratio = noise_ratio(spec, sizes=sizes, training_clients=training_clients)
    if ratio is None or ratio < DROWNED:
        return None
    m = _updates_averaged(spec, training_clients)
    follows = isinstance(spec.privacy, LaplaceL2) and spec.privacy.radius == "adaptive"
    longest = "the updates themselves" if follows else "the clip lets it be at most"
    return (
        "noise will likely drown what is learnt: on the average of about "
        f"{m:.3g} updates it is about {ratio:.2g} times as long as {longest}. This is a rule of "
        "thumb from the noise multiplier, the cohort, the number of hypotheses and "
        f"{sum(sizes):,} parameters. Draw more clients, ask for fewer hypotheses or parameters, or "
        "lower the noise multiplier, which costs privacy"
    )


def _updates_averaged(spec: ExperimentSpec, training_clients: int) -> float:
    """Updates that make one hypothesis in a round, were all chosen alike; at least 1."""
    drawn = mean_cohort(spec.training.cohort, training_clients)
    return max(1.0, drawn / spec.training.hypotheses)


def mean_cohort(cohort: Cohort, training_clients: int) -> float:
    """How many clients take part in a round on average, which is public; it may be below 1."""
    match cohort:
        case FixedCohort():
            return float(min(cohort.clients, training_clients))
        case PoissonCohort():
            return cohort.rate * training_clients
        case AllocationCohort():
            return training_clients / cohort.every
        case _:
            assert_never(cohort)


def _laplace_ratio(privacy: LaplaceL2, sizes: Sequence[int]) -> float | None:
    """Of one release; None where nothing bounds an update. An adaptive radius is the norm of the
    update, or of each layer's part of it, whose squares add up to that of the whole, so that the
    smallest layer's factor bounds it; a fixed one holds for every layer."""
    nu = float(privacy.noise_multiplier)
    if privacy.radius == "adaptive":
        return nu * math.sqrt((min(sizes) + 1) / min(sizes))
    if privacy.clip is None:
        return None
    norm = math.sqrt(sum((size + 1) / size for size in sizes))
    return nu * privacy.radius * norm / privacy.clip
