"""The Laplace mechanism for one client's vector of a million parameters.

The numbers equal those of `fedaudit.privacy.noise.laplace`. The difference is memory: vectors are
processed in parts, so that a release needs little memory beyond the upload itself.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.privacy.noise.distances import squared_distances
from fedaudit.privacy.noise.laplace import Sanitiser, clipped, layer_gamma, layer_slices
from fedaudit.privacy.noise.layered_laplace import LayerSanitiser, whole_norm
from fedaudit.randomness import Purpose, Source, normals

_PART = 1 << 16


def unit_laplace_vector(
    source: Source, *, sizes: Sequence[int], round_: int, client: int
) -> NDArray[np.float32]:
    """One draw with epsilon = 1: float32 [n], as `unit_layers` gives it to this client.

    A single size is that of a whole vector. `source` is that of a stack of one. Besides the result
    it takes room for as many numbers of the largest layer in double precision, for a norm that is
    summed in the same order.
    """
    direction = _direction(source, sum(sizes), round_, client)
    for layer, own in enumerate(layer_slices(sizes)):
        noise = direction[own]
        norm = layer_gamma(source, sizes=sizes, layer=layer, round_=round_, counters=client)
        length = np.sqrt(np.square(noise, dtype=np.float64).sum(-1))
        scale = norm / length
        for start in range(0, len(noise), _PART):
            part = noise[start : start + _PART]
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


def release_layers_in_place(
    sanitise: LayerSanitiser, start: Tensor, updated: Tensor, unit_noise: NDArray[np.float32]
) -> Tensor:
    """As `release_in_place`, layer by layer. Returns the radii, float64 [1, 1, layers]."""
    slices = layer_slices(sanitise.sizes)
    lengths = torch.stack(
        [squared_distances(updated[None, own], start[own]).sqrt() for own in slices], dim=-1
    )[None]
    radii = sanitise.radii(lengths)
    if sanitise.clip is not None:
        norm = whole_norm(lengths)
        for first in range(0, len(updated), _PART):
            part = slice(first, first + _PART)
            cut = clipped(
                start[None, None, part], updated[None, None, part], clip=sanitise.clip, norm=norm
            )
            updated[part] = cut[0, 0]
    for layer, (one, own) in enumerate(zip(sanitise.parts, slices, strict=True)):
        _release(
            one,
            start[own],
            updated[own],
            unit_noise[own],
            norm=lengths[..., layer],
            radius=radii[..., layer],
        )
    return radii


def release_in_place(
    sanitise: Sanitiser, start: Tensor, updated: Tensor, unit_noise: NDArray[np.float32]
) -> Tensor:
    """Turns a client's updated hypothesis, `updated` [n], into its protected upload, in place.

    `start` [n] is the hypothesis that the client chose. Returns the radius, float64 [1, 1].
    """
    norm = squared_distances(updated[None], start).sqrt()[None]
    radius = sanitise.radii(norm)
    _release(sanitise, start, updated, unit_noise, norm=norm, radius=radius)
    return radius


def _release(
    sanitise: Sanitiser,
    start: Tensor,
    updated: Tensor,
    unit_noise: NDArray[np.float32],
    *,
    norm: Tensor,
    radius: Tensor,
) -> None:
    """Writes the protected upload into `updated`, part by part; norm and radius [1, 1]."""
    for first in range(0, len(updated), _PART):
        part = slice(first, first + _PART)
        noise = torch.from_numpy(unit_noise[part]).to(updated.device)
        released = sanitise.release(
            start[None, None, part], updated[None, None, part], noise, norm=norm, radius=radius
        )
        updated[part] = released[0, 0]
