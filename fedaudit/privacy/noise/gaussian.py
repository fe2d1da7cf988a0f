"""Gaussian noise: its normal numbers, the public grid, and vectors with noise.

Normal numbers are made by Box and Muller, in float64 all through. A pair of numbers takes a pair of
words of 64 bits: the radius sqrt(-2 log u) reaches 9.4, since u is fine near 0, and the angle is
between -pi and pi. A number is within 2^-49 r + 2^-53 / r + 2^-64 / (u r) of the real number that
its words encode, r being the radius: 2^-49 on average, and 2^-52 as measured.
`docs/guarantees.md` says what follows.

Logarithm, sine and cosine are power series after an exact reduction: log m of u = 2^k m by that of
(1 + s) / (1 - s), with s^2 up to 0.0295 and a rest below 2^-60 of the sum, and those of an angle up
to a quarter of pi, with rests below 2^-58. Their roundings, of 2^-53 each, add up to less than half
of 2^-49. They are sums, products and quotients alone, so that the compiled kernel and numpy give
the same bits on every machine.

Noise is a float64, and so is its sum with what it hides. Which of these numbers can come up depends
on what is hidden: the last bits of a sum would disclose it (Mironov, "On significance of the least
significant bits for differential privacy", 2012). So what leaves is the nearest multiple of a
power of two that is coarse against the errors of float64 noise, 2^-49 standard deviations on
average, and fine against the noise itself: 2^-12 to 2^-11 of a standard deviation. That a number
falls into another cell than its real one would then has a chance of at most 2 * 2^-49 / 2^-12, and
no more than n * 2^-34 for n of them, all other roundings of noise included.

The spacing follows from public numbers alone, the standard deviation that the noise has or, where a
secret scales it, the least that it can have. Rounding what is noised already costs no epsilon, and
neither does the narrower float32 in which the multiple is stored.

The Gaussian mechanism: adding or removing one vector moves a sum of clipped ones by at most `clip`,
and every component gets noise of standard deviation `noise_multiplier * clip`. Noise is drawn with
standard deviation 1 and scaled where it is added. All of that is float64, and what has its noise is
rounded once, onto this grid."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fedaudit.arrays import Floats
from fedaudit.native import tensors
from fedaudit.native.library import call, kernels, line
from fedaudit.privacy.noise.adaptive_clipping import FINEST, STEPS_BITS
from fedaudit.randomness import Purpose, Source, WideWords, wide_uniforms

_CHUNK = 1 << 15  # numbers at a time: the working set stays within the L2 cache
_TURN = math.pi * 2.0**-63
# The series of logarithm, sine and cosine, each without its first terms.
_LOGARITHM = [2 / n for n in range(3, 22, 2)]
_SINE = [(-1) ** (n // 2) / math.factorial(n) for n in range(3, 18, 2)]
_COSINE = [(-1) ** (n // 2) / math.factorial(n) for n in range(4, 17, 2)]
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # 32 bits: its products with integers are exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_ONE, _FRACTION, _QUARTER = np.uint64(1023 << 52), np.uint64(2**52 - 1), np.uint64(2**62)
_ROOT_HALF = np.uint64(0x3FE6A09E00000000)
"""The bits of a number just below it."""


def unit_gaussian(
    source: Source,
    *,
    n: int,
    round_: ArrayLike,
    counters: ArrayLike,
    purpose: Purpose = Purpose.GAUSSIAN,
) -> Floats:
    """Standard normal numbers: float64 [..., n] over broadcast(seeds, round_, counters)."""
    words = source.wide_words(purpose=purpose, round_=round_, counters=counters, count=n + n % 2)
    # With a million parameters, fresh memory takes as long as the numbers in it.
    into = words.view(np.float64) if words.flags.writeable and words.flags.c_contiguous else None
    return wide_normals(words, into)[..., :n]


def wide_normals(words: WideWords, into: Floats | None = None) -> Floats:
    """Standard normal numbers, one a word; the last axis must be even.

    A word of the first half makes a radius, its partner in the second half an angle. The numbers
    may go `into` the place of the words.
    """
    half = words.shape[-1] // 2
    numbers = np.empty(words.shape, dtype=np.float64) if into is None else into
    library = kernels()
    if library is not None:
        words = line(words, np.uint64)
        call(library.fedaudit_normals, words, words.size // max(1, 2 * half), half, numbers)
        return numbers
    flat_words, flat = words.reshape(-1, 2, half), numbers.reshape(-1, 2, half)
    rows, columns = max(1, _CHUNK // max(1, 2 * half)), max(1, _CHUNK // 2)
    for first in range(0, len(flat), rows):
        for begin in range(0, half, columns):
            part = slice(first, first + rows), slice(None), slice(begin, begin + columns)
            radius = np.sqrt(_squares_of_radii(flat_words[part][:, 0]))
            cosine, sine = _turned(flat_words[part][:, 1])
            flat[part][:, 0] = radius * cosine
            flat[part][:, 1] = radius * sine
    return numbers


def _squares_of_radii(words: WideWords) -> Floats:
    """-2 log u: u = 2^k m, m from root 1/2 to root 2, and log m by that of (1 + s) / (1 - s)."""
    bits = wide_uniforms(words).view(np.uint64) + (_ONE - _ROOT_HALF)
    k = (bits >> np.uint64(52)).view(np.int64) - 1023.0
    f = ((bits & _FRACTION) + _ROOT_HALF).view(np.float64) - 1.0
    s, half = f / (2.0 + f), 0.5 * f * f
    z = s * s
    small = s * (half + z * _polynomial(_LOGARITHM, z)) + k * _LN2_LOW
    return -2.0 * (k * _LN2_HIGH - ((half - small) - f))


def _turned(words: WideWords) -> tuple[Floats, Floats]:
    """Cosine and sine of words, each an angle as a signed number of 2^-63 half turns."""
    turned = words + _QUARTER // np.uint64(2)
    quarter = turned >> np.uint64(62)
    x = ((turned & (_QUARTER - np.uint64(1))).view(np.int64) - 2**61) * _TURN
    z = x * x
    sine = x + x * z * _polynomial(_SINE, z)
    half = 0.5 * z
    rest = 1.0 - half
    cosine = rest + (((1.0 - rest) - half) + z * z * _polynomial(_COSINE, z))
    aside = (quarter & np.uint64(1)).astype(np.bool_)
    first, second = np.where(aside, sine, cosine), np.where(aside, cosine, sine)
    np.negative(first, out=first, where=(quarter == 1) | (quarter == 2))
    np.negative(second, out=second, where=quarter >= 2)
    return first, second


def _polynomial(series: Sequence[float], z: Floats) -> Floats:
    """Even and odd terms apart, as the kernel has them."""
    square = z * z
    even, odd = np.zeros_like(z), np.zeros_like(z)
    for i in range(len(series) - 1, -1, -1):
        part = odd if i % 2 else even
        part *= square
        part += series[i]
    return even + odd * z


def grid_spacing(deviation: Tensor) -> Tensor:
    """A power of two for each standard deviation, float64, not negative: see `spacing_of`."""
    mantissa, _ = torch.frexp(deviation)
    # Without noise there is nothing to divide, and the finest grid, which float32 has anyway.
    power = (deviation / mantissa).nan_to_num_(0.0)
    return (power * 2.0**-STEPS_BITS).clamp_(min=FINEST)


def round_to_grid(values: Tensor, spacing: Tensor) -> Tensor:
    """Rounds values, float64, to multiples of `spacing`, in place; half to even.

    Values so large that a float64 has no finer digits stay as they are. What is not finite stays
    so.
    """
    return values.div_(spacing).round_().mul_(spacing)


def noised(
    sums: Tensor, unit_noise: Tensor, *, deviation: Tensor, spacing: Tensor, divisor: float
) -> Tensor:
    """Adds noise times its standard deviation to sums, both float64 [rows, n], in place, and rounds
    them to multiples of `spacing`; `deviation` and `spacing` float64 [rows, 1]. Returns them over
    `divisor`, float32."""
    library = kernels()
    if library is None or sums.device.type != "cpu":
        round_to_grid(torch.add(unit_noise * deviation, sums, out=sums), spacing)
        return sums.float() / divisor
    quotients = torch.empty(sums.shape)
    given = unit_noise.contiguous(), deviation, spacing, *sums.shape, divisor, sums, quotients
    tensors.call(library.fedaudit_noised, *given)
    return quotients


# Vectors above this share of the clip are cut to it: products of float32 may round upwards by
# 2^-24, and sums of many vectors in float64 by less than what then is still left.
_SHORTENED = 1 - 2.0**-20


def clip_to_norm(vectors: Tensor, *, clip: Tensor | float) -> tuple[Tensor, Tensor]:
    """Vectors [..., n] scaled to norms of at most `clip`, and whether each was finite.

    Norms and products are float64, the result float32. `clip` is a number, or a float64 tensor
    that broadcasts to [...]. A vector that is not finite has no norm to be scaled by: it becomes
    zero and its flag, bool [...], False.
    """
    norms = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float64)
    finite = norms.isfinite()
    shrunk = (clip * _SHORTENED / norms).clamp_(max=1.0)
    clipped = (vectors * shrunk[..., None]).float()
    return torch.where(finite[..., None], clipped, 0.0), finite


@dataclass(frozen=True)
class LocalGaussian:
    """Each client clips its own update and adds the noise itself; tensors float64 [cells, 1]."""

    clip: Tensor
    noise_multiplier: Tensor

    @cached_property
    def deviation(self) -> Tensor:
        """Deviation of the noise on every component: float64 [cells, 1, 1]."""
        return (self.noise_multiplier * self.clip)[..., None]

    @cached_property
    def spacing(self) -> Tensor:
        """Spacing of the grid of uploads: float64 [cells, 1, 1]."""
        return grid_spacing(self.deviation)

    def __call__(self, start: Tensor, updated: Tensor, unit_noise: Tensor) -> Tensor:
        """What leaves the clients, float32.

        `start`, `updated`: float32, `unit_noise`: float64, all [cells, clients, n]. An update that
        is not finite is withheld: its upload holds the start and noise alone.
        """
        clipped, _ = clip_to_norm(updated - start, clip=self.clip)
        # The start comes last: next to large parameters an update would be rounded while it is
        # still bare, and two could end up farther apart than two clips.
        noised = (unit_noise * self.deviation).add_(clipped).add_(start)
        return round_to_grid(noised, self.spacing).float()


def noised_average(
    theta: Tensor,
    sums: Tensor,
    unit_noise: Tensor,
    *,
    clip: Tensor,
    noise_multiplier: Tensor,
    denominators: Tensor,
) -> Tensor:
    """The next hypotheses, float32 [cells, k, n], of a server that adds noise to the sum of clipped
    updates.

    `theta`, float32: those that were sent out; `sums`: the clipped updates of those who chose each,
    added up; `unit_noise`, both float64; all [cells, k, n]. `clip` and `noise_multiplier` float64
    [cells, 1]; `denominators` [cells, 1] or [cells, k]: public constants, such as the expected
    number of clients over k, as the number of those who chose a hypothesis is as secret as their
    updates.

    With k hypotheses a client's message is a vector of k * n numbers, zero but for the block of the
    hypothesis that it chose itself. Its norm is that of the one update, so the sensitivity stays
    `clip`, and noise goes on all k blocks, those that no one chose included.
    """
    deviation = (noise_multiplier * clip)[..., None]
    noised = (unit_noise * deviation).add_(sums)
    round_to_grid(noised, grid_spacing(deviation))
    return noised.div_(denominators[..., None]).add_(theta).float()
