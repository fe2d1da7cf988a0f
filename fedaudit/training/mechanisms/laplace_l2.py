"""`laplace-l2`: each client adds Laplace noise to its parameters (Galli et al., Algorithm 2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Floats, Ints
from fedaudit.networks.shape import layer_sizes
from fedaudit.privacy.noise.laplace import Sanitiser, unit_layers
from fedaudit.randomness import Source
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import Cell
from fedaudit.training.mechanisms.base import (
    ClientProtection,
    ProtectedUploads,
    UnitNoise,
    column,
    drawn,
    finite_uploads,
    privacy_of,
)


def laplace_uploads(cells: Sequence[Cell], device: torch.device) -> ClientProtection:
    """The uploads of cells that can be stacked. Raises ValueError for another mechanism."""
    privacy, shape = privacy_of(cells, LaplaceL2), cells[0].shape
    per_layer = privacy[0].per_layer
    fixed = [np.nan if part.radius == "adaptive" else part.radius for part in privacy]
    clips = [np.inf if part.clip is None else part.clip for part in privacy]
    return LaplaceUploads(
        Sanitiser(
            sizes=layer_sizes(shape) if per_layer else (shape.n,),
            noise_multiplier=column([part.noise_multiplier for part in privacy], device),
            fixed_radius=None if np.isnan(fixed).all() else column(fixed, device),
            radius_floor=column([part.radius_floor for part in privacy], device),
            clip=None if np.isinf(clips).all() else column(clips, device),
            per_layer=per_layer,
        )
    )


@dataclass(frozen=True)
class LaplaceUploads(ClientProtection):
    """A draw and a radius for the whole vector, or for each layer."""

    sanitise: Sanitiser

    def draw_cell(self, source: Source, rounds: Ints, clients: Ints) -> UnitNoise:
        sizes, each = self.sanitise.sizes, rounds[..., None]
        return UnitNoise(unit_layers(source, sizes=sizes, round_=each, counters=clients))

    def protect(self, start: Tensor, updated: Tensor, noise: Floats | None) -> ProtectedUploads:
        unit = drawn(noise)
        if not start.shape == updated.shape == unit.shape:  # A kernel would read past the shorter.
            raise ValueError("start, updates and noise need the same shape")
        sent = self._sanitised(start, updated, unit)
        if self.sanitise.covers_all is None or sent.finite.all():
            return sent
        # Whether an update is finite follows from data. Where a guarantee covers all updates, one
        # that is not counts as none, and its noise leaves like every other's.
        counts = torch.isfinite(updated - start).all(-1) | ~self.sanitise.covers_all
        return self._sanitised(start, torch.where(counts[..., None], updated, start), unit)

    def _sanitised(self, start: Tensor, updated: Tensor, unit: Floats) -> ProtectedUploads:
        found = self.sanitise.compiled(start, updated, unit)
        if found is not None:
            return ProtectedUploads(*found)
        uploads, radii = self.sanitise(start, updated, torch.from_numpy(unit).to(start.device))
        return ProtectedUploads(uploads, radii, finite=finite_uploads(uploads))
