"""The Laplace mechanism under Euclidean distance in R^n (Galli et al., Lemma 4.1, Algorithm 2).

Its density is K exp(-epsilon ||x||). A draw is a norm from Gamma(shape n, scale 1/epsilon) times a
direction uniform on the sphere (section 4.2). Noise is drawn here for epsilon = 1 and scaled by
1/epsilon = nu * radius / n where it is added, so it can be drawn before the radius is known.

Layer by layer, each layer's part of the vector has a draw of its own dimension, independent of the
others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fedaudit.randomness import Purpose, Source, normals, uniforms

# Up to this shape a gamma number is minus the logarithm of a product of uniforms.
_MAX_PRODUCT_SHAPE = 16
_ATTEMPT_WORDS = 4


def unit_laplace(
    source: Source, *, n: int, round_: ArrayLike, counters: ArrayLike
) -> NDArray[np.float32]:
    """Draws with epsilon = 1: float32 [..., n] over broadcast(seeds, round_, counters).

    The norm is drawn, and the direction normalised, in float64.
    """
    return unit_layers(source, sizes=(n,), round_=round_, counters=counters)


def unit_layers(
    source: Source, *, sizes: Sequence[int], round_: ArrayLike, counters: ArrayLike
) -> NDArray[np.float32]:
    """As `unit_laplace`, with a draw of its own for each of the layers, which have these sizes.

    A single layer gets the noise of the whole vector.
    """
    n = sum(sizes)
    words = source.words(
        purpose=Purpose.DIRECTION, round_=round_, counters=counters, count=n + n % 2
    )
    direction = normals(words)[..., :n]
    noise = np.empty(direction.shape, dtype=np.float32)
    for layer, part in enumerate(layer_slices(sizes)):
        norm = layer_gamma(source, sizes=sizes, layer=layer, round_=round_, counters=counters)
        length = np.sqrt(np.square(direction[..., part], dtype=np.float64).sum(-1))
        noise[..., part] = direction[..., part] * (norm / length)[..., None]
    return noise


def layer_slices(sizes: Sequence[int]) -> list[slice]:
    """Where each of the layers lies in the vector that they make up end to end."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def layer_gamma(
    source: Source, *, sizes: Sequence[int], layer: int, round_: ArrayLike, counters: ArrayLike
) -> NDArray[np.float64]:
    """The norm of one layer's draw, as `unit_gamma` gives it; layers share no number."""
    if layer == 0:
        return unit_gamma(source, shape=sizes[0], round_=round_, counters=counters)
    own = np.asarray(counters, dtype=np.int64) * (len(sizes) - 1) + layer - 1
    return unit_gamma(
        source, shape=sizes[layer], round_=round_, counters=own, purpose=Purpose.LAYER_MAGNITUDE
    )


def unit_gamma(
    source: Source,
    *,
    shape: int,
    round_: ArrayLike,
    counters: ArrayLike,
    purpose: Purpose = Purpose.MAGNITUDE,
) -> NDArray[np.float64]:
    """Gamma(shape, 1) numbers in float64 over broadcast(seeds, round_, counters)."""
    if shape <= _MAX_PRODUCT_SHAPE:
        words = source.words(purpose=purpose, round_=round_, counters=counters, count=shape)
        product: NDArray[np.float64] = uniforms(words).prod(-1)
        return -np.log(product)
    return _marsaglia_tsang(source, shape=shape, round_=round_, counters=counters, purpose=purpose)


def _marsaglia_tsang(
    source: Source, *, shape: int, round_: ArrayLike, counters: ArrayLike, purpose: Purpose
) -> NDArray[np.float64]:
    """Rejection for large shapes (Marsaglia and Tsang 2000); attempt a reads the a-th four words.

    An attempt fails with probability below 2e-3 for these shapes, so eight are drawn at first.
    """
    d = shape - 1 / 3
    c = 1 / np.sqrt(9 * d)
    attempts = 8
    while True:
        words = source.words(
            purpose=purpose,
            round_=round_,
            counters=counters,
            count=attempts * _ATTEMPT_WORDS,
        )
        words = words.reshape(*words.shape[:-1], attempts, _ATTEMPT_WORDS)
        x = normals(words[..., :2], np.float64)[..., 0]
        v = np.maximum((1 + c * x) ** 3, np.finfo(np.float64).tiny)
        u = uniforms(words[..., 2])
        accepted = np.log(u) < 0.5 * x * x + d - d * v + d * np.log(v)
        if accepted.any(-1).all():
            first = accepted.argmax(-1)[..., None]
            return d * np.take_along_axis(v, first, axis=-1)[..., 0]
        attempts *= 2


@dataclass(frozen=True)
class Sanitiser:
    """SanitizeUpdate for a stack of cells; every tensor float64 [cells, 1]."""

    noise_scale: Tensor
    """nu / n: times the radius it is 1/epsilon."""
    fixed_radius: Tensor | None
    """NaN in cells whose radius is adaptive; None where all are."""
    radius_floor: Tensor
    clip: Tensor | None
    """Infinite in cells that do not clip; None where none does."""

    def __call__(self, start: Tensor, updated: Tensor, unit_noise: Tensor) -> tuple[Tensor, Tensor]:
        """What leaves the clients, and the radius of each release.

        `start`, `updated`, `unit_noise`: float32 [cells, clients, n]: the hypothesis a client
        chose, what it made of it, and noise with epsilon = 1. Returns the uploads, float32, and
        the radii, float64 [cells, clients].
        """
        norm = norms(updated - start)
        radius = self.radii(norm)
        return self.release(start, updated, unit_noise, norm=norm, radius=radius), radius

    def radii(self, norm: Tensor) -> Tensor:
        """The radius of each release, float64 [cells, clients], from the norms of the updates."""
        if self.clip is not None:
            norm = torch.minimum(norm, self.clip)
        radius = torch.maximum(norm, self.radius_floor)
        if self.fixed_radius is not None:
            radius = torch.where(self.fixed_radius.isnan(), radius, self.fixed_radius)
        return radius

    def release(
        self, start: Tensor, updated: Tensor, unit_noise: Tensor, *, norm: Tensor, radius: Tensor
    ) -> Tensor:
        """The uploads, from the norms and radii of whole updates; the vectors may be parts."""
        if self.clip is not None:
            updated = clipped(start, updated, clip=self.clip, norm=norm)
        noise = unit_noise * (radius * self.noise_scale)[..., None]
        return (updated + noise).float()


def clipped(start: Tensor, updated: Tensor, *, clip: Tensor, norm: Tensor) -> Tensor:
    """`updated` [cells, clients, n] with updates of these norms [cells, clients] cut to `clip`.

    The vectors may be parts of those with these norms.
    """
    shrink = (clip / norm)[..., None]
    # A norm that is not finite compares false and stays, to be withheld.
    return torch.where(shrink < 1, start + (updated - start) * shrink, updated)


def norms(vectors: Tensor) -> Tensor:
    """Euclidean norms along the last axis, in float64."""
    wide = vectors.double()
    return (wide * wide).sum(-1).sqrt()
