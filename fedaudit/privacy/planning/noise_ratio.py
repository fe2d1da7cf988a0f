"""Whether noise will likely drown what a round learns, judged from public numbers alone.

A round moves a hypothesis by the average of about m updates, m being the cohort over the number of
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
from typing import assert_never

from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)
from fedaudit.spec.training import FixedCohort, PoissonCohort

DROWNED = 2.0
"""The ratio from which on noise is said to drown the signal: a small logistic regression of 60
rounds learnt at 0.4, and nothing at 3 (`tests/runs/test_drowned_signal.py`)."""


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
            return _laplace_ratio(privacy, sizes) / math.sqrt(m) if _is_bounded(privacy) else None
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
    longest = "the updates themselves" if _follows_updates(spec) else "the clip lets it be at most"
    return (
        "noise will likely drown what is learnt: on the average of about "
        f"{m:.3g} updates it is about {ratio:.2g} times as long as {longest}. This is a rule of "
        "thumb from the noise multiplier, the cohort, the number of hypotheses and "
        f"{sum(sizes):,} parameters. Draw more clients, ask for fewer hypotheses or parameters, or "
        "lower the noise multiplier, which costs privacy"
    )


def _updates_averaged(spec: ExperimentSpec, training_clients: int) -> float:
    """Updates that make one hypothesis in a round, were all chosen alike; at least 1."""
    cohort = spec.training.cohort
    match cohort:
        case FixedCohort():
            drawn = float(min(cohort.clients, training_clients))
        case PoissonCohort():
            drawn = cohort.rate * training_clients
        case _:
            assert_never(cohort)
    return max(1.0, drawn / spec.training.hypotheses)


def _is_bounded(privacy: LaplaceL2) -> bool:
    return privacy.radius == "adaptive" or privacy.clip is not None


def _follows_updates(spec: ExperimentSpec) -> bool:
    return isinstance(spec.privacy, LaplaceL2) and spec.privacy.radius == "adaptive"


def _laplace_ratio(privacy: LaplaceL2, sizes: Sequence[int]) -> float:
    """Of one release. An adaptive radius is the norm of the update, or of each layer's part of it,
    whose squares add up to that of the whole, so that the smallest layer's factor bounds it; a
    fixed one holds for every layer."""
    nu = float(privacy.noise_multiplier)
    if privacy.radius == "adaptive":
        return nu * math.sqrt((min(sizes) + 1) / min(sizes))
    if privacy.clip is None:
        raise ValueError("without a clip nothing bounds an update")
    norm = math.sqrt(sum((size + 1) / size for size in sizes))
    return nu * privacy.radius * norm / privacy.clip
