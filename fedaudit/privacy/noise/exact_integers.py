"""Exact samples of integer noise: no floating-point number is drawn, so none can give away more.

Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020), algorithms 1
to 3: everything is made of fair words by comparing integers. Free of torch.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import isqrt

import numpy as np

from fedaudit.arrays import Ints
from fedaudit.randomness import Purpose, Source

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
    block = 0
    while True:
        words = source.wide_words(
            purpose=purpose, round_=round_, counters=block, count=_WORDS_AT_A_TIME
        )
        yield from words.ravel().tolist()
        block += 1
