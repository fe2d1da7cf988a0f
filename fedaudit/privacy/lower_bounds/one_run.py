"""The bound that assumes nothing but the definition, from one run: Steinke, Nasr and Jagielski
("Privacy auditing with one (1) training run", 2023, theorem 5.2).

Of m canaries with a fair coin each, r coins are guessed from the output and v guesses are right. An
(epsilon, delta)-private mechanism is this good with a chance of at most P[B >= v] + 2 m delta a, B
being binomial of r and e^epsilon / (1 + e^epsilon), and a the largest P[v > B >= v - i] / i.
"""

import math

import numpy as np
from scipy.special import expit
from scipy.stats import binom

_LARGEST = 60.0
_STEPS = 60
SMALL_DELTA_TERM = 0.02
"""The largest 2 m delta with which the term beside the binomial's is of no weight."""


def most_canaries(delta: float) -> int | None:
    """How many canaries leave the term of delta small; None where there is none."""
    return None if delta == 0 else max(1, math.floor(SMALL_DELTA_TERM / (2 * delta) + 1e-6))


def one_run_p_value(
    *, canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """An upper bound on the chance of so many correct guesses."""
    if not 0 <= correct <= guesses <= canaries:
        raise ValueError("correct guesses are among the guesses, and these among the canaries")
    chance = float(expit(epsilon))
    tail = float(binom.sf(correct - 1, guesses, chance))
    if delta == 0 or correct == 0:
        return min(1.0, tail)
    below = binom.pmf(np.arange(correct - 1, -1, -1), guesses, chance)
    worst = float((np.cumsum(below) / np.arange(1, correct + 1)).max())
    return min(1.0, tail + 2 * canaries * delta * worst)


def one_run_epsilon(
    *, canaries: int, guesses: int, correct: int, delta: float, significance: float
) -> float:
    """The largest epsilon that so many correct guesses refute; 0 where they refute none."""

    def refuted(epsilon: float) -> bool:
        p = one_run_p_value(
            canaries=canaries, guesses=guesses, correct=correct, epsilon=epsilon, delta=delta
        )
        return p <= significance

    if not guesses or not refuted(0.0):
        return 0.0
    low, high = 0.0, _LARGEST
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
