"""The Laplace mechanism under Euclidean distance in R^n (Galli et al., Lemma 4.1, Algorithm 2).

Its density is K exp(-epsilon ||x||). A draw is a norm from Gamma(shape n, scale 1/epsilon) times a
direction uniform on the sphere (section 4.2). Noise is drawn here for epsilon = 1 and scaled by
1/epsilon = nu * radius / n where it is added, so it can be drawn before the radius is known. All of
that is float64, and what has its noise is rounded once, onto the public grid (`noise.gaussian`).

Layer by layer, each layer's part of the vector has a draw of its own dimension and radius. Layer l,
n_l of the n parameters, has the rate epsilon_l = n_l / (nu * radius_l). The layers' noises
are independent, so that their densities multiply: between uploads that lie d_l apart in layer l,
no output gets likelier by more than exp of the sum of epsilon_l * d_l (Galli et al., Lemma 4.1,
once for each layer). Within every layer's radius that is the sum of n_l / nu, which is n / nu.

SanitizeUpdate is done by a compiled kernel where there is one, with the same bits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fedaudit.arrays import Floats
from fedaudit.native.library import kernels
from fedaudit.native.tensors import call
from fedaudit.privacy.noise.gaussian import grid_spacing, round_to_grid, unit_gaussian, wide_normals
from fedaudit.randomness import Purpose, Source, wide_uniforms
from fedaudit.reproducible import fixed_order_sum, one_thread, square_root

_PART = 1 << 16
SHORT = 256
"""Numbers of a vector up to which the order of its sum is ours, and not the library's."""


def squared_distances(vectors: Tensor, point: Tensor) -> Tensor:
    """Squared Euclidean distances of vectors [m, n] from a point [n]: float64 [m]."""
    total = torch.zeros(len(vectors), dtype=torch.float64, device=vectors.device)
    size = max(1, _PART // max(1, len(vectors)))
    with one_thread():
        for first in range(0, vectors.shape[1], size):
            part = slice(first, first + size)
            apart = (vectors[:, part] - point[part]).double()
            total += sum_of_squares(apart)
    return total


def sum_of_squares(vectors: Tensor) -> Tensor:
    """Along the last axis of vectors, float64 [..., n]."""
    squares = vectors * vectors
    if vectors.shape[-1] > SHORT:
        return squares.sum(-1)
    return fixed_order_sum(squares, -1)


# Up to this shape a gamma number is minus the logarithm of a product of uniforms.
_MAX_PRODUCT_SHAPE = 16
_ATTEMPT_WORDS = 4
# Norms and products round upwards too, by less than this even for millions of numbers.
_SHORTENED = 1 - 2.0**-30


def unit_layers(
    source: Source, *, sizes: Sequence[int], round_: ArrayLike, counters: ArrayLike
) -> Floats:
    """Draws with epsilon = 1 for each of the layers, which have these sizes, or for a whole vector
    as the only one: float64 [..., n] over broadcast(seeds, round_, counters)."""
    noise = unit_gaussian(
        source, purpose=Purpose.DIRECTION, n=sum(sizes), round_=round_, counters=counters
    )
    for layer, part in enumerate(layer_slices(sizes)):
        norm = layer_gamma(source, sizes=sizes, layer=layer, round_=round_, counters=counters)
        length = np.sqrt(_squared_length(noise[..., part]))
        noise[..., part] *= (norm / length)[..., None]
    return noise


def _squared_length(vectors: Floats) -> Floats:
    """Compute `np.square(vectors).sum(-1)`, by halves of these sizes, with little memory."""
    size = vectors.shape[-1]
    if size <= _PART:
        found: Floats = np.square(vectors).sum(-1)
        return found
    half = size // 2 - size // 2 % 8
    return _squared_length(vectors[..., :half]) + _squared_length(vectors[..., half:])


def layer_slices(sizes: Sequence[int]) -> list[slice]:
    """Where each of the layers is in the vector that they make up end to end."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def layer_gamma(
    source: Source, *, sizes: Sequence[int], layer: int, round_: ArrayLike, counters: ArrayLike
) -> Floats:
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
) -> Floats:
    """Gamma(shape, 1) numbers in float64 over broadcast(seeds, round_, counters)."""
    if shape <= _MAX_PRODUCT_SHAPE:
        words = source.wide_words(purpose=purpose, round_=round_, counters=counters, count=shape)
        product: Floats = wide_uniforms(words).prod(-1)
        return -np.log(product)
    return _marsaglia_tsang(source, shape=shape, round_=round_, counters=counters, purpose=purpose)


def _marsaglia_tsang(
    source: Source, *, shape: int, round_: ArrayLike, counters: ArrayLike, purpose: Purpose
) -> Floats:
    """Rejection for large shapes (Marsaglia and Tsang 2000); attempt a reads the a-th four words.

    An attempt fails with probability below 2e-3 for these shapes, so two are drawn at first.
    """
    d = shape - 1 / 3
    c = 1 / np.sqrt(9 * d)
    attempts = 2
    while True:
        words = source.wide_words(
            purpose=purpose, round_=round_, counters=counters, count=attempts * _ATTEMPT_WORDS
        )
        words = words.reshape(*words.shape[:-1], attempts, _ATTEMPT_WORDS)
        x = wide_normals(words[..., :2])[..., 0]
        v = np.maximum((1 + c * x) ** 3, np.finfo(np.float64).tiny)
        u = wide_uniforms(words[..., 2])
        accepted = np.log(u) < 0.5 * x * x + d - d * v + d * np.log(v)
        if accepted.any(-1).all():
            first = accepted.argmax(-1)[..., None]
            return d * np.take_along_axis(v, first, axis=-1)[..., 0]
        attempts *= 2


@dataclass(frozen=True)
class Sanitiser:
    """SanitizeUpdate for a stack of cells; every tensor float64 [cells, 1]."""

    sizes: tuple[int, ...]
    """Parameters of each part of a vector with its own noise and radius: of the whole vector alone,
    or of each layer, end to end."""
    noise_multiplier: Tensor
    """nu: times a part's radius, over the part's size, it is 1/epsilon."""
    fixed_radius: Tensor | None
    """NaN in cells whose radius is adaptive; None where all are."""
    radius_floor: Tensor
    clip: Tensor | None
    """Bound on the norm of a whole update, before it is taken apart. Infinite in cells that do not
    clip; None where none does."""
    per_layer: bool = False

    @cached_property
    def slices(self) -> list[slice]:
        """Where each part is in a vector."""
        return layer_slices(self.sizes)

    @cached_property
    def scales(self) -> tuple[Tensor, ...]:
        """nu / n of each part: times the radius it is 1/epsilon."""
        return tuple(self.noise_multiplier / size for size in self.sizes)

    @cached_property
    def spacings(self) -> tuple[Tensor, ...]:
        """Spacing of the grid of uploads in each part: float64 [cells, 1, 1].

        By the standard deviation of a component, which is sqrt(n + 1) / epsilon, at the fixed
        radius. An adaptive one follows from the update, and so would its grid: there it is the
        floor's, the least that the noise can be.
        """
        radius = self.radius_floor
        if self.fixed_radius is not None:
            radius = torch.where(self.fixed_radius.isnan(), radius, self.fixed_radius)
        parts = zip(self.scales, self.sizes, strict=True)
        return tuple(
            grid_spacing(radius * scale * math.sqrt(size + 1))[..., None] for scale, size in parts
        )

    def __call__(self, start: Tensor, updated: Tensor, unit_noise: Tensor) -> tuple[Tensor, Tensor]:
        """What leaves the clients, and the radius of each release.

        `start`, `updated`: float32, `unit_noise`: float64, all [cells, clients, n]: the hypothesis
        a client chose, what it made of it, and noise with epsilon = 1, from `unit_layers`. Returns
        the uploads, float32, and the radii, float64, of layers or of the whole vector.
        """
        each = [lengths_of_updates(start[..., own], updated[..., own]) for own in self.slices]
        lengths = torch.stack(each, dim=-1)
        radii, kept = self.radii(lengths), kept_share(whole_norm(lengths), self.clip)
        released = [
            self.release(
                start[..., own],
                updated[..., own],
                unit_noise[..., own],
                part=part,
                radius=radii[..., part],
                kept=kept,
            )
            for part, own in enumerate(self.slices)
        ]
        # A whole vector, which can be long, is not copied.
        uploads = torch.cat(released, dim=-1) if self.per_layer else released[0]
        return uploads, radii if self.per_layer else radii[..., 0]

    def compiled(
        self, start: Tensor, updated: Tensor, unit_noise: Floats
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Do what a call does, by the compiled kernel, and say whether an upload is finite, bool
        [cells, clients]; None where there is no kernel, or none for vectors as long or in parts."""
        library = kernels()
        cells, clients, n = updated.shape
        unknown = self.per_layer or updated.device.type != "cpu" or n > SHORT
        if library is None or unknown:
            return None
        # Vectors of noise are filled up to an even length: a view leaves out the last number.
        width = unit_noise.strides[1] // unit_noise.itemsize
        if unit_noise.strides != (8 * width * clients, 8 * width, 8):
            unit_noise, width = np.ascontiguousarray(unit_noise), n
        uploads = torch.empty_like(updated, memory_format=torch.contiguous_format)
        radii = torch.empty((cells, clients), dtype=torch.float64)
        finite = torch.empty((cells, clients), dtype=torch.bool)
        noise = unit_noise.__array_interface__["data"][0]
        call(
            library.fedaudit_sanitise,
            *(start.contiguous(), updated.contiguous(), noise, width, cells, clients, n),
            *(*self._numbers, uploads, radii, finite),
        )
        return uploads, radii, finite

    @cached_property
    def covers_all(self) -> Tensor | None:
        """Whether clip and radius are public, so that a bound holds between any two updates: bool
        [cells, 1]; None where no cell has both."""
        if self.clip is None or self.fixed_radius is None:
            return None
        return self.clip.isfinite() & ~self.fixed_radius.isnan()

    @cached_property
    def _numbers(self) -> tuple[Floats | bool | int, ...]:
        """The cells' own, for the kernel: the scale of noise, the fixed radius, which is NaN for an
        adaptive one, its floor, whether there is a clip, it and its shortened bound, the grid."""
        [scale], [spacing], fixed = self.scales, self.spacings, self.fixed_radius
        if fixed is None:
            fixed = torch.full_like(self.radius_floor, torch.nan)
        lines = map(host_line, (scale, fixed, self.radius_floor))
        if self.clip is None:
            return *lines, False, 0, 0, host_line(spacing)
        clips = host_line(self.clip), host_line(self.clip * _SHORTENED)
        return *lines, True, *clips, host_line(spacing)

    def radii(self, lengths: Tensor) -> Tensor:
        """The radius of each part's release, from the norms of the parts' updates before the clip:
        both float64 [cells, clients, parts]. An adaptive one is the norm of the part, the whole
        being clipped."""
        if self.clip is not None and self.per_layer:
            lengths = lengths * (self.clip / whole_norm(lengths)).clamp(max=1.0)[..., None]
        elif self.clip is not None:
            lengths = torch.minimum(lengths, self.clip[..., None])
        radii = torch.maximum(lengths, self.radius_floor[..., None])
        if self.fixed_radius is not None:
            fixed = self.fixed_radius[..., None]
            radii = torch.where(fixed.isnan(), radii, fixed)
        return radii

    def release(
        self,
        start: Tensor,
        updated: Tensor,
        unit_noise: Tensor,
        *,
        part: int,
        radius: Tensor,
        kept: Tensor | None,
    ) -> Tensor:
        """The uploads of a part, float32, from its radii and what the clip keeps of whole updates.

        `start`, `updated`, `unit_noise`: of the part alone.
        """
        library, scale, spacing = kernels(), radius * self.scales[part], self.spacings[part]
        if library is not None and updated.device.type == "cpu" and is_single(updated):
            share, uploads = 1.0 if kept is None else kept.item(), updated.clone()
            numbers = scale.item(), share, spacing.item()
            call(library.fedaudit_release, start, unit_noise, updated.numel(), *numbers, uploads)
            return uploads
        update = updated - start
        if kept is not None:
            update = update * kept[..., None]
        # The start comes last: next to large parameters an update would be rounded while it is
        # still bare, and could be longer than the clip.
        noised = (unit_noise * scale[..., None]).add_(update).add_(start)
        return round_to_grid(noised, spacing).float()


def kept_share(norm: Tensor, clip: Tensor | None) -> Tensor | None:
    """What updates of these norms [cells, clients] are multiplied by, so that none is longer than
    `clip` [cells, 1]; None without a clip.

    An update whose norm is not finite keeps numbers that are not, and is withheld.
    """
    return None if clip is None else (clip * _SHORTENED / norm).clamp_(max=1.0)


def host_line(column: Tensor) -> Floats:
    """A column's numbers on the host, in one piece: [cells]."""
    return np.ascontiguousarray(column.cpu().numpy().ravel())


def is_single(vectors: Tensor) -> bool:
    """Whether vectors [cells, clients, n] are those of one client alone."""
    return vectors.shape[:2] == (1, 1)


def lengths_of_updates(start: Tensor, updated: Tensor) -> Tensor:
    """Norms of updates of `start`, both [cells, clients, n]: float64 [cells, clients].

    That of a single client, whose vector may be very long, is summed in parts that fit the cache.
    """
    if is_single(updated):
        return square_root(squared_distances(updated[0], start[0, 0]))[None]
    return norms(updated - start)


def norms(vectors: Tensor) -> Tensor:
    """Euclidean norms along the last axis, in float64."""
    return square_root(sum_of_squares(vectors.double()))


def whole_norm(lengths: Tensor) -> Tensor:
    """The norm of a vector [...] from those of its parts [..., parts]."""
    return square_root((lengths * lengths).sum(-1))
