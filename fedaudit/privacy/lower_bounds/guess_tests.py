"""Coins of canaries guessed from their scores: how many are guessed, and what that refutes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedaudit.arrays import Bools, Floats
from fedaudit.privacy.lower_bounds.epsilon_bounds import (
    GuessPlan,
    by_score,
    fewest_correct,
    possible_plans,
    refutes,
)
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw, simulated

_DRAWS = 1000
_NUMBERS = 4_000_000
_LEAST_DRAWS = 100
_SEARCH_STEPS = 24
_SEARCH_STEPS_SAMPLED = 5
_LARGEST_RATIO = 1e3


@dataclass(frozen=True)
class GuessTest:
    """How coins are guessed for one bound, as decided before the run."""

    plan: GuessPlan
    canaries: int
    """The first so many are its canaries; the coins of the others are taken as given."""
    power: float

    def counts(self, scores: Floats, coins: Bools) -> Mapping[str, int]:
        """Canaries, guesses, and correct guesses after the run."""
        own = slice(self.canaries)
        correct = int(self.plan.correct(by_score(scores[own], coins[own])))
        return {"canaries": self.canaries, "guesses": self.plan.guesses, "correct": correct}


def most_powerful_guesses(
    law: ReleaseLaw, canaries: int, refuted: Callable[[int, int, int], bool]
) -> GuessTest:
    """The guesses with the largest power, by scores drawn under half of the noise. `refuted` takes
    canaries, guesses and correct guesses."""
    draws = max(_LEAST_DRAWS, min(_DRAWS, _NUMBERS // canaries))
    generator = np.random.default_rng(canaries)
    scores, coins = simulated(
        law, ratio=2 * law.ratio, canaries=canaries, draws=draws, generator=generator
    )
    ordered = by_score(scores, coins)
    best, margin = GuessTest(GuessPlan(canaries // 2, 0), canaries, 0.0), -np.inf
    for plan in possible_plans(canaries):
        needed = fewest_correct(partial(refuted, canaries, plan.guesses), guesses=plan.guesses)
        correct = plan.correct(ordered)
        power = 0.0 if needed is None else float((correct >= needed).mean())
        spare = float(correct.mean()) - (plan.guesses + 1 if needed is None else needed)
        if (power, spare / plan.guesses) > (best.power, margin):
            best, margin = GuessTest(plan, canaries, power), spare / plan.guesses
    return best


def f_dp_epsilon(
    law: ReleaseLaw, delta: float, counts: Mapping[str, int], *, significance: float
) -> float:
    """The epsilon of the least noise whose curve so many correct guesses refute."""

    def refuted(ratio: float) -> bool:
        return refutes(law.with_ratio(ratio).curve(), **counts, significance=significance)

    low = high = law.ratio / (8 if law.is_sampled else 64)
    if not refuted(low):
        return 0.0
    while high < _LARGEST_RATIO and refuted(high):
        low, high = high, 2 * high
    # Every step of the search is a bound; of a sampled law one takes a good part of a second.
    for _ in range(_SEARCH_STEPS_SAMPLED if law.is_sampled else _SEARCH_STEPS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return law.with_ratio(low).epsilon(delta)
