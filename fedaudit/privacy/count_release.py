"""Counts of held-out rows with noise: how far one unit moves them, how much noise, what it costs.

A row is in one group of every attribute measured, sensitive ones and intersections, and there in
one of the four counts. With `a` attributes and at most `m` rows of a unit (1 for a record) the
counts of all attributes together move by at most a * m in the sum of absolute values, and by
sqrt(a) * m in Euclidean length, where the unit's rows are counted or are not (zero-out).

Discrete Laplace noise of scale a * m / epsilon costs epsilon (Ghosh, Roughgarden and Sundararajan
2009). Discrete Gaussian noise has the Renyi divergences of the Gaussian mechanism, as an upper
bound (Canonne, Kamath and Steinke 2020, theorem 14), and is calibrated by the accountant `rdp`.

Exact samples of integer noise: no floating-point number is drawn, so none can give away more.

Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020), algorithms 1
to 3: everything is made of fair words by comparing integers. Free of torch.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from math import isqrt
from typing import Any, Literal, assert_never

import numpy as np

from fedaudit.arrays import Floats, Ints
from fedaudit.privacy.accounting.accountant import RDP_ORDERS, added_epsilon
from fedaudit.privacy.accounting.epsilon_tables import EpsilonTerms, renyi_epsilons, shared_curve
from fedaudit.privacy.accounting.privacy_events import (
    REPORT,
    Adjacency,
    DiscreteLaplace,
    Event,
    Gaussian,
    ReportObserver,
)
from fedaudit.randomness import Purpose, Source
from fedaudit.spec.errors import error_at
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import DiscreteLaplaceCounts, GaussianCounts, HeldOutUnit

_WORDS_AT_A_TIME = 256
_WORD_BITS = 64


class IntegerDraws:
    """Exact draws from one source; every object draws the same from a source that repeats."""

    def __init__(self, source: Source, *, purpose: Purpose, round_: int) -> None:
        self._words = _words(source, purpose, round_)

    def discrete_laplace(self, scale: Fraction) -> int:
        """An integer x with a chance proportional to exp(-|x| / scale); `scale` above 0."""
        while True:
            magnitude = self._geometric(scale)
            negative = bool(self.below(2))
            if magnitude or not negative:
                return -magnitude if negative else magnitude

    def discrete_gaussian(self, variance: Fraction) -> int:
        """An integer x with a chance proportional to exp(-x^2 / (2 variance))."""
        whole = isqrt(variance.numerator // variance.denominator) + 1
        while True:
            candidate = self.discrete_laplace(Fraction(whole))
            excess = (abs(candidate) - variance / whole) ** 2 / (2 * variance)
            if self._happens_with_exp_of_minus(excess):
                return candidate

    def below(self, bound: int) -> int:
        """A whole number from 0 to bound - 1, each equally likely."""
        words = -(-bound.bit_length() // _WORD_BITS)
        spare = words * _WORD_BITS - (bound - 1).bit_length()
        while True:
            drawn = 0
            for _ in range(words):
                drawn = drawn << _WORD_BITS | next(self._words)
            drawn >>= spare
            if drawn < bound:
                return drawn

    def _geometric(self, scale: Fraction) -> int:
        """A magnitude x from 0 with a chance proportional to exp(-x / scale)."""
        steps, parts = scale.numerator, scale.denominator
        while True:
            rest = self.below(steps)
            if self._happens_with_exp_of_minus(Fraction(rest, steps)):
                break
        whole = 0
        while self._happens_with_exp_of_minus(Fraction(1)):
            whole += 1
        return (rest + steps * whole) // parts

    def _happens_with_exp_of_minus(self, exponent: Fraction) -> bool:
        """A coin of chance exp(-exponent), `exponent` from 0."""
        while exponent > 1:
            if not self._happens_with_exp_of_minus(Fraction(1)):
                return False
            exponent -= 1
        tries = 1
        while self.below(tries * exponent.denominator) < exponent.numerator:
            tries += 1
        return bool(tries % 2)


def drawn_integers(
    draws: IntegerDraws, *, shape: tuple[int, ...], scale: Fraction, gaussian: bool
) -> Ints:
    """Independent noise: discrete Laplace of `scale`, or discrete Gaussian of variance `scale`."""
    one = draws.discrete_gaussian if gaussian else draws.discrete_laplace
    count = int(np.prod(shape, dtype=np.int64))
    return np.array([one(scale) for _ in range(count)], dtype=np.int64).reshape(shape)


def _words(source: Source, purpose: Purpose, round_: int) -> Iterator[int]:
    for block in count():
        words = source.wide_words(
            purpose=purpose, round_=round_, counters=block, count=_WORDS_AT_A_TIME
        )
        yield from words.ravel().tolist()


ADJACENCY: Adjacency = "add-or-remove-one"
BUDGET_DELTA = 1e-9
"""The delta under which an epsilon without one is charged: budgets compose Renyi divergences, which
need a delta, and epsilon holds at every delta."""
_MARGIN = 1 + 1e-12


@dataclass(frozen=True, kw_only=True)
class CountRelease:
    """One release of the counts of all attributes together. Public numbers alone."""

    mechanism: Literal["discrete-laplace", "gaussian"]
    unit: HeldOutUnit
    attributes: int
    max_rows: int
    """Largest number of rows of one unit that count towards an attribute."""
    event: Event
    delta: float
    """0 for discrete Laplace noise."""
    scale: Fraction
    """Scale of discrete Laplace noise, or variance of discrete Gaussian noise."""

    observer: ReportObserver = REPORT
    adjacency: Adjacency = ADJACENCY

    @property
    def is_gaussian(self) -> bool:
        """Whether the noise is discrete Gaussian, and not discrete Laplace."""
        return isinstance(self.event, Gaussian)

    @property
    def l1(self) -> float:
        """How far a unit moves the counts, as a sum of absolute values."""
        return float(self.attributes * self.max_rows)

    @property
    def l2(self) -> float:
        """How far a unit moves the counts, in Euclidean length."""
        return math.sqrt(self.attributes) * self.max_rows

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on each count, at most."""
        if self.is_gaussian:
            return math.sqrt(self.scale)
        return math.sqrt(2) * float(self.scale)

    @property
    def noise_multiplier(self) -> float:
        """Scale over `l1` of discrete Laplace noise, standard deviation over `l2` of Gaussian."""
        return self.deviation / self.l2 if self.is_gaussian else float(self.scale) / self.l1

    @property
    def accountant(self) -> Literal["rdp", "sum"]:
        """What computes the epsilon: Renyi orders, or the sum of epsilons without a delta."""
        return "rdp" if self.is_gaussian else "sum"

    def epsilon(self, compositions: int) -> float:
        """What so many releases cost, at `delta`."""
        if isinstance(self.event, DiscreteLaplace):
            return compositions * self.event.epsilon
        return float(renyi_epsilons(self.event, compositions, self._terms))

    @property
    def curve(self) -> Floats:
        """Renyi divergences of one release, at the orders that budgets compose."""
        return shared_curve(self.event, self._terms)

    @property
    def _terms(self) -> EpsilonTerms:
        return EpsilonTerms(adjacency=self.adjacency, observer="final_model", delta=self.delta)


def count_release(spec: ExperimentSpec) -> CountRelease | None:
    """How the counts of a run get noise; None where they get none.

    Raises InvalidInputError where no Gaussian noise keeps the epsilon.
    """
    noise = spec.fairness.noise
    if noise is None:
        return None
    attributes, rows = len(spec.fairness.attributes), noise.max_rows_per_client or 1
    match noise:
        case DiscreteLaplaceCounts():
            event: Event = DiscreteLaplace(noise.epsilon)
            delta, scale = 0.0, attributes * rows / Fraction(noise.epsilon)
        case GaussianCounts():
            multiplier = _noise_multiplier(noise.epsilon, noise.delta)
            event, delta = Gaussian(multiplier), noise.delta
            scale = Fraction(multiplier) ** 2 * attributes * rows**2
        case _:
            assert_never(noise)
    return CountRelease(
        mechanism=noise.mechanism,
        unit=noise.unit,
        attributes=attributes,
        max_rows=rows,
        event=event,
        delta=delta,
        scale=scale,
    )


def held_out_units(data: Any, *, unit: str) -> int:
    """How many clients with held-out rows, or rows, there are by the section `data`, or as many
    rows as may be held out."""
    if unit == "record":
        return int(data["rows"])
    return int(data["clients"] - data["training_clients"] or data["clients"])


def _noise_multiplier(epsilon: float, delta: float) -> float:
    """The least noise over sensitivity that keeps the epsilon at some Renyi order.

    The divergence at order alpha is alpha / (2 multiplier^2).
    """
    orders = np.array(RDP_ORDERS)
    steepest = float(((epsilon - added_epsilon(orders, delta)) / orders).max())
    if steepest <= 0:
        least = float(added_epsilon(orders, delta).min())
        message = (
            f"at delta = {delta:g} the accountant cannot show less than {least:.4g}; raise epsilon "
            "or delta, or use `discrete-laplace`"
        )
        raise error_at("/fairness/noise/epsilon", message, of_spec=True)
    return math.sqrt(1 / (2 * steepest)) * _MARGIN
