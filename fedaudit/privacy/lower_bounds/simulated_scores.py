"""Scores of canaries: what a release says for a canary's presence, and how scores would fall under
some noise, which the power of a test is told by before the run."""

import math

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw

_MOST_NUMBERS = 20_000_000
_MOMENT_DRAWS = 200_000


def evidence(signals: NDArray[np.float64], law: ReleaseLaw) -> NDArray[np.float64]:
    """The logarithm of the likelihood ratio of each release, under the claimed law; to be added up.

    `signals`: what is left of a release in a canary's direction, in lengths of a canary: around 1
    where it took part, and around 0, or -1 where another replaced it.
    """
    variance = (law.reach / law.ratio) ** 2
    if not law.is_sampled:
        return signals * (law.reach / variance)
    kept, rate = math.log1p(-law.rate), math.log(law.rate)
    there = np.logaddexp(kept, rate + (signals - 0.5) / variance)
    if law.adjacency == "add-or-remove-one":
        return there
    return there - np.logaddexp(kept, rate + (-signals - 0.5) / variance)


def simulated(
    law: ReleaseLaw,
    *,
    ratio: float,
    canaries: int,
    draws: int,
    generator: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Scores and coins [draws, canaries] under a true `ratio`, scored as `law` has it.

    Of long sampled runs the sum over releases is drawn as the normal number of its moments.
    """
    coins = generator.random((draws, canaries)) < 0.5
    sent = np.where(coins, 1.0, -1.0 if law.adjacency == "replace-one" else 0.0)
    deviation = law.reach / ratio
    if not law.is_sampled:
        noise = generator.standard_normal(sent.shape) * deviation / math.sqrt(law.compositions)
        return evidence(sent + noise, law), coins
    if sent.size * law.compositions > _MOST_NUMBERS:
        return _by_moments(law, sent, coins, deviation, generator), coins
    scores = np.zeros(sent.shape)
    for _ in range(law.compositions):
        entered = generator.random(sent.shape) < law.rate
        signals = sent * entered + generator.standard_normal(sent.shape) * deviation
        scores += evidence(signals, law)
    return scores, coins


def _by_moments(
    law: ReleaseLaw,
    sent: NDArray[np.float64],
    coins: NDArray[np.bool_],
    deviation: float,
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    scores = np.empty(sent.shape)
    for side in (False, True):
        length = 1.0 if side else (-1.0 if law.adjacency == "replace-one" else 0.0)
        entered = generator.random(_MOMENT_DRAWS) < law.rate
        noise = generator.standard_normal(_MOMENT_DRAWS) * deviation
        one = evidence(length * entered + noise, law)
        own = coins == side
        spread = one.std() * math.sqrt(law.compositions)
        scores[own] = one.mean() * law.compositions + spread * generator.standard_normal(own.sum())
    return scores
