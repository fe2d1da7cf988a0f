"""`laplace-l2`: each client adds Laplace noise to its parameters (Galli et al., Algorithm 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Floats, Ints
from fedaudit.networks.shape import layer_sizes
from fedaudit.privacy.noise.laplace import LayerSanitiser, Sanitiser, unit_laplace, unit_layers
from fedaudit.randomness import Source
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import Cell
from fedaudit.training.mechanisms.base import (
    ClientProtection,
    ProtectedUploads,
    column,
    drawn,
    finite_uploads,
    privacy_of,
)


def laplace_uploads(cells: Sequence[Cell], device: torch.device) -> ClientProtection:
    """The uploads of cells that can be stacked. Raises ValueError for another mechanism."""
    privacy, shape = privacy_of(cells, LaplaceL2), cells[0].shape
    if privacy[0].per_layer:
        return LayeredLaplace(_layer_sanitiser(privacy, layer_sizes(shape), device))
    return WholeVectorLaplace(_sanitiser(privacy, shape.n, device), n=shape.n)


@dataclass(frozen=True)
class WholeVectorLaplace(ClientProtection):
    """One draw, and one radius, for the whole vector of n parameters."""

    sanitise: Sanitiser
    n: int

    def draw_cell(self, source: Source, rounds: Ints, clients: Ints) -> Floats | None:
        return unit_laplace(source, n=self.n, round_=rounds[..., None], counters=clients)

    def protect(self, start: Tensor, updated: Tensor, noise: Floats | None) -> ProtectedUploads:
        found = self.sanitise.compiled(start, updated, drawn(noise))
        if found is not None:
            return ProtectedUploads(*found)
        unit = torch.from_numpy(drawn(noise)).to(start.device)
        uploads, radii = self.sanitise(start, updated, unit)
        return ProtectedUploads(uploads, radii, finite=finite_uploads(uploads))


@dataclass(frozen=True)
class LayeredLaplace(ClientProtection):
    """A draw of its own dimension, and a radius, for each layer."""

    sanitise: LayerSanitiser

    def draw_cell(self, source: Source, rounds: Ints, clients: Ints) -> Floats | None:
        sizes = self.sanitise.sizes
        return unit_layers(source, sizes=sizes, round_=rounds[..., None], counters=clients)

    def protect(self, start: Tensor, updated: Tensor, noise: Floats | None) -> ProtectedUploads:
        unit = torch.from_numpy(drawn(noise)).to(start.device)
        uploads, radii = self.sanitise(start, updated, unit)
        return ProtectedUploads(uploads, radii, finite=finite_uploads(uploads))

    def radii_shape(self, clients: int) -> tuple[int, ...]:
        """See `ClientProtection`: one for each layer."""
        return (clients, len(self.sanitise.sizes))


def _sanitiser(privacy: Sequence[LaplaceL2], n: int, device: torch.device) -> Sanitiser:
    fixed = [np.nan if part.radius == "adaptive" else part.radius for part in privacy]
    return Sanitiser(
        n=n,
        noise_scale=column([part.noise_multiplier / n for part in privacy], device),
        fixed_radius=None if np.isnan(fixed).all() else column(fixed, device),
        radius_floor=column([part.radius_floor for part in privacy], device),
        clip=_clips(privacy, device),
    )


def _layer_sanitiser(
    privacy: Sequence[LaplaceL2], sizes: tuple[int, ...], device: torch.device
) -> LayerSanitiser:
    layers = [replace(_sanitiser(privacy, size, device), clip=None) for size in sizes]
    return LayerSanitiser(sizes=sizes, parts=tuple(layers), clip=_clips(privacy, device))


def _clips(privacy: Sequence[LaplaceL2], device: torch.device) -> Tensor | None:
    """The bound on each cell's updates; None where no cell has one."""
    clips = [np.inf if part.clip is None else part.clip for part in privacy]
    return None if np.isinf(clips).all() else column(clips, device)
