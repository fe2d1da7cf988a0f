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
from fedaudit.privacy.noise.laplace import Sanitiser, kept_share, layer_gamma, layer_slices
from fedaudit.privacy.noise.layered_laplace import LayerSanitiser, whole_norm
from fedaudit.privacy.noise.normal_numbers import drawn_normals
from fedaudit.randomness import Purpose, Source
from fedaudit.reproducible import square_root

_PART = 1 << 16


def unit_laplace_vector(
    source: Source, *, sizes: Sequence[int], round_: int, client: int
) -> NDArray[np.float64]:
    """One draw with epsilon = 1: float64 [n], as `unit_layers` gives it to this client.

    A single size is that of a whole vector. `source` is that of a stack of one. Besides the result
    it takes room for as many numbers of the largest layer, for a norm that is summed in the same
    order.
    """
    direction = drawn_normals(
        source, purpose=Purpose.DIRECTION, n=sum(sizes), round_=round_, counters=client
    )
    (vector,) = direction.reshape(1, -1)
    for layer, own in enumerate(layer_slices(sizes)):
        norm = layer_gamma(source, sizes=sizes, layer=layer, round_=round_, counters=client)
        vector[own] *= norm / np.sqrt(np.square(vector[own]).sum(-1))
    return vector


def release_layers_in_place(
    sanitise: LayerSanitiser, start: Tensor, updated: Tensor, unit_noise: NDArray[np.float64]
) -> Tensor:
    """As `release_in_place`, layer by layer. Returns the radii, float64 [1, 1, layers]."""
    slices = layer_slices(sanitise.sizes)
    lengths = torch.stack(
        [square_root(squared_distances(updated[None, own], start[own])) for own in slices], dim=-1
    )[None]
    radii, kept = sanitise.radii(lengths), kept_share(whole_norm(lengths), sanitise.clip)
    for layer, (one, own) in enumerate(zip(sanitise.parts, slices, strict=True)):
        _release(
            one,
            start[own],
            updated[own],
            unit_noise[own],
            radius=radii[..., layer],
            kept=kept,
        )
    return radii


def release_in_place(
    sanitise: Sanitiser, start: Tensor, updated: Tensor, unit_noise: NDArray[np.float64]
) -> Tensor:
    """Turns a client's updated hypothesis, `updated` [n], into its protected upload, in place.

    `start` [n] is the hypothesis that the client chose. Returns the radius, float64 [1, 1].
    """
    norm = square_root(squared_distances(updated[None], start))[None]
    radius = sanitise.radii(norm)
    kept = kept_share(norm, sanitise.clip)
    _release(sanitise, start, updated, unit_noise, radius=radius, kept=kept)
    return radius


def _release(
    sanitise: Sanitiser,
    start: Tensor,
    updated: Tensor,
    unit_noise: NDArray[np.float64],
    *,
    radius: Tensor,
    kept: Tensor | None,
) -> None:
    """Writes the protected upload into `updated`, part by part; `radius` and `kept` [1, 1]."""
    for first in range(0, len(updated), _PART):
        part = slice(first, first + _PART)
        noise = torch.from_numpy(unit_noise[part]).to(updated.device)
        origin, update = start[None, None, part], (updated[part] - start[part])[None, None]
        released = sanitise.release(origin, update, noise, radius=radius, kept=kept)
        updated[part] = released[0, 0]
