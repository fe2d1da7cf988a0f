"""The Laplace mechanism for one client's vector of a million parameters.

The numbers are those of `privacy.laplace`. What differs is room: vectors are worked through in
parts, so that a release needs little beside the upload itself.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.privacy.distances import squared_distances
from fedaudit.privacy.laplace import Sanitiser, unit_gamma
from fedaudit.randomness import Purpose, Source, normals

_PART = 1 << 16


def unit_laplace_vector(source: Source, *, n: int, round_: int, client: int) -> NDArray[np.float32]:
    """One draw with epsilon = 1: float32 [n], as `unit_laplace` gives it to this client.

    `source` is that of a stack of one. Besides the result it takes room for n numbers in double
    precision, for a norm that is summed in the same order.
    """
    norm = unit_gamma(source, shape=n, round_=round_, counters=client)
    direction = _direction(source, n, round_, client)
    length = np.sqrt(np.square(direction, dtype=np.float64).sum(-1))
    scale = norm / length
    for start in range(0, n, _PART):
        part = direction[start : start + _PART]
        part[:] = part * scale
    return direction


def _direction(source: Source, n: int, round_: int, client: int) -> NDArray[np.float32]:
    """Standard normal numbers; each pair of words gives one to either half of the vector."""
    half = (n + 1) // 2
    words = source.words(
        purpose=Purpose.DIRECTION, round_=round_, counters=client, count=2 * half
    ).reshape(2, half)
    numbers = np.empty((2, half), dtype=np.float32)
    for start in range(0, half, _PART):
        part = slice(start, start + _PART)
        numbers[:, part] = normals(words[:, part].ravel()).reshape(2, -1)
    return numbers.ravel()[:n]


def release_in_place(
    sanitise: Sanitiser, start: Tensor, updated: Tensor, unit_noise: NDArray[np.float32]
) -> Tensor:
    """Turns what a client made of its hypothesis, `updated` [n], into what leaves it.

    `start` [n] is the hypothesis that it chose. Returns the radius, float64 [1, 1].
    """
    norm = squared_distances(updated[None], start).sqrt()[None]
    radius = sanitise.radii(norm)
    for first in range(0, len(updated), _PART):
        part = slice(first, first + _PART)
        noise = torch.from_numpy(unit_noise[part]).to(updated.device)
        released = sanitise.release(
            start[None, None, part], updated[None, None, part], noise, norm=norm, radius=radius
        )
        updated[part] = released[0, 0]
    return radius
