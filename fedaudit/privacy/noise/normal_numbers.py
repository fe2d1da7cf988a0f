"""Standard normal numbers that are fine enough for noise.

By Box and Muller, in float64 all through. A pair of numbers takes a pair of words of 64 bits: the
radius sqrt(-2 log u) reaches 9.4, since u is fine near 0, and the angle lies between -pi and pi. A
number lies within 2^-49 r + 2^-53 / r + 2^-64 / (u r) of the real number that its words stand for,
r being the radius: 2^-49 on average, and 2^-52 as measured. `docs/guarantees.md` says what follows.

Logarithm, sine and cosine are torch's, which are within one unit in the last place and several
times as fast as numpy's where a processor has no AVX-512.
"""

import math

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from fedaudit.randomness import Purpose, Source, WideWords, wide_uniforms

_CHUNK = 1 << 15  # numbers at a time: the working set stays within the L2 cache
_TURN = math.pi * 2.0**-63


def unit_gaussian(
    source: Source, *, n: int, round_: ArrayLike, counters: ArrayLike
) -> NDArray[np.float64]:
    """Standard normal numbers: float64 [..., n] over broadcast(seeds, round_, counters)."""
    return drawn_normals(source, purpose=Purpose.GAUSSIAN, n=n, round_=round_, counters=counters)


def drawn_normals(
    source: Source, *, purpose: Purpose, n: int, round_: ArrayLike, counters: ArrayLike
) -> NDArray[np.float64]:
    """As `unit_gaussian`, for a purpose."""
    words = source.wide_words(purpose=purpose, round_=round_, counters=counters, count=n + n % 2)
    return wide_normals(words)[..., :n]


def wide_normals(words: WideWords) -> NDArray[np.float64]:
    """Standard normal numbers, one a word; the last axis must be even.

    A word of the first half makes a radius, its partner in the second half an angle.
    """
    half = words.shape[-1] // 2
    numbers = np.empty(words.shape, dtype=np.float64)
    flat_words, flat = words.reshape(-1, 2, half), numbers.reshape(-1, 2, half)
    rows, columns = max(1, _CHUNK // max(1, 2 * half)), max(1, _CHUNK // 2)
    for first in range(0, len(flat), rows):
        for begin in range(0, half, columns):
            part = slice(first, first + rows), slice(None), slice(begin, begin + columns)
            _fill(flat[part], flat_words[part])
    return numbers


def _fill(numbers: NDArray[np.float64], words: WideWords) -> None:
    """Writes the normal numbers of words [rows, 2, half]."""
    radius = torch.from_numpy(wide_uniforms(words[:, 0]))
    radius.log_().mul_(-2).sqrt_()
    angle = torch.from_numpy(np.multiply(words[:, 1].view(np.int64), _TURN))
    target = torch.from_numpy(numbers)
    torch.mul(radius, torch.cos(angle), out=target[:, 0])
    torch.mul(radius, angle.sin_(), out=target[:, 1])
