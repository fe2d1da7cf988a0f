"""The Gaussian mechanism: vectors of Euclidean norm at most `clip`, plus normal noise.

Adding or removing one vector moves a sum of clipped ones by at most `clip`, and every component
gets noise of standard deviation `noise_multiplier * clip`. Noise is drawn with standard deviation
1 and scaled where it is added.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fedaudit.randomness import CounterSource, Purpose, Source, Words

# Products may round upwards. Shortened by this much, a vector never exceeds the clip.
_SHORTENED = 1 - 2.0**-20
_LONG = 1 << 12  # numbers from which a separate generator pays off
_CHUNK = 1 << 15  # numbers at a time: the working set stays within the L2 cache
_BELOW_ONE = np.float32(1 - 2.0**-24)
_TURN = np.float32(2 * np.pi * 2.0**-24)


def unit_gaussian(
    source: Source, *, n: int, round_: ArrayLike, counters: ArrayLike
) -> NDArray[np.float32]:
    """Standard normal numbers: float32 [..., n] over broadcast(seeds, round_, counters)."""
    even = n + n % 2
    if n < _LONG or not isinstance(source, CounterSource):
        words = source.words(purpose=Purpose.GAUSSIAN, round_=round_, counters=counters, count=even)
        return _normals(words)[..., :n]
    # Repeatable words are the key of numpy's own Philox, which draws seven times as fast.
    keys = source.words(purpose=Purpose.GAUSSIAN, round_=round_, counters=counters, count=4)
    numbers = np.empty((*keys.shape[:-1], n), dtype=np.float32)
    for place in np.ndindex(keys.shape[:-1]):
        generator = np.random.Philox(key=keys[place].view(np.uint64))
        for begin in range(0, n, _CHUNK):
            words = generator.random_raw(min(_CHUNK, even - begin) // 2).view(np.uint32)
            numbers[place][begin : begin + _CHUNK] = _normals(words)[: n - begin]
    return numbers


def _normals(words: Words) -> NDArray[np.float32]:
    """Normal numbers, one a word, by Box and Muller, whose tails reach 7.5 standard deviations.

    `randomness.normals` ends at 6.8: over a million components and hundreds of releases that end
    could be seen with a chance near the deltas in use. An angle has no more than 24 bits in
    float32, so the other 8 of its word make the radius finer.
    """
    half = words.shape[-1] // 2
    unit = words[..., :half].astype(np.float32)
    unit *= np.float32(2.0**-32)
    fine = (words[..., half:] & np.uint32(0xFF)).astype(np.float32)
    fine += np.float32(0.5)
    fine *= np.float32(2.0**-40)
    unit += fine
    # The largest words round to 1, which would give a zero radius.
    radius = np.sqrt(-2 * np.log(np.minimum(unit, _BELOW_ONE)))
    angle = (words[..., half:] >> np.uint32(8)).astype(np.float32)
    angle *= _TURN
    numbers = np.empty(words.shape, dtype=np.float32)
    np.multiply(radius, np.cos(angle), out=numbers[..., :half])
    np.multiply(radius, np.sin(angle), out=numbers[..., half:])
    return numbers


def clip_to_norm(vectors: Tensor, *, clip: Tensor | float) -> tuple[Tensor, Tensor]:
    """Vectors [..., n] scaled to norms of at most `clip`, and whether each was finite.

    Norms and products are float64, the result float32. `clip` is a number, or a float64 tensor
    that broadcasts to [...]. A vector that is not finite has no norm to be scaled by: it becomes
    zero and its flag, bool [...], False.
    """
    norms = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float64)
    finite = norms.isfinite()
    shrunk = torch.where(norms > clip, clip * _SHORTENED / norms, 1.0)
    clipped = (vectors * shrunk[..., None]).float()
    return torch.where(finite[..., None], clipped, 0.0), finite


@dataclass(frozen=True)
class LocalGaussian:
    """Each client clips its own update and adds the noise itself; tensors float64 [cells, 1]."""

    clip: Tensor
    noise_multiplier: Tensor

    def __call__(self, start: Tensor, updated: Tensor, unit_noise: Tensor) -> tuple[Tensor, Tensor]:
        """What leaves the clients, float32, and which uploads are released, bool [cells, clients].

        `start`, `updated`, `unit_noise`: float32 [cells, clients, n]. An update that is not finite
        is withheld: its upload holds the start and noise alone.
        """
        clipped, finite = clip_to_norm(updated - start, clip=self.clip)
        noise = unit_noise * (self.noise_multiplier * self.clip)[..., None]
        return (start + clipped + noise).float(), finite


@dataclass(frozen=True)
class CentralGaussian:
    """The server adds noise to the sum of clipped updates; tensors float64 [cells, 1].

    With k hypotheses a client's message is a vector of k * n numbers, zero but for the block of the
    hypothesis that it chose itself. Its norm is that of the one update, so the sensitivity stays
    `clip`, and noise goes on all k blocks, those that nobody chose included.
    """

    clip: Tensor
    noise_multiplier: Tensor
    denominators: Tensor
    """[cells, 1] or [cells, k]: public constants, such as the expected number of clients over k.
    The number of those who chose a hypothesis is as secret as their updates."""

    def __call__(self, theta: Tensor, sums: Tensor, unit_noise: Tensor) -> Tensor:
        """The next hypotheses, float32 [cells, k, n].

        `theta`: those that were sent out; `sums`: the clipped updates of those who chose each,
        added up; `unit_noise`: float32, all [cells, k, n].
        """
        noise = unit_noise * (self.noise_multiplier * self.clip)[..., None]
        return (theta + (sums + noise) / self.denominators[..., None]).float()
