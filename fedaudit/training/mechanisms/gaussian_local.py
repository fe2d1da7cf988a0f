"""`gaussian-local`: each client clips its update and adds Gaussian noise before it leaves."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.privacy.noise.gaussian import LocalGaussian, unit_gaussian
from fedaudit.randomness import Source
from fedaudit.spec.privacy import GaussianLocal
from fedaudit.training.base.cell import Cell
from fedaudit.training.mechanisms.base import (
    ClientMechanism,
    ClientProtection,
    ProtectedUploads,
    column,
    drawn,
    privacy_of,
)


@dataclass(frozen=True)
class GaussianLocalTraining(ClientMechanism):
    """`gaussian-local` in training."""

    privacy: GaussianLocal
    name = "gaussian-local"

    def protection(self, cells: Sequence[Cell], device: torch.device) -> ClientProtection:
        """See `ClientMechanism`."""
        privacy = privacy_of(cells, GaussianLocal)
        gaussian = LocalGaussian(
            clip=column([part.clip for part in privacy], device),
            noise_multiplier=column([part.noise_multiplier for part in privacy], device),
        )
        return GaussianUploads(gaussian, n=cells[0].shape.n)


@dataclass(frozen=True)
class GaussianUploads(ClientProtection):
    """Clipped updates of n parameters, and Gaussian noise, on top of the hypothesis."""

    gaussian: LocalGaussian
    n: int

    def draw_cell(
        self, source: Source, rounds: NDArray[np.int64], clients: NDArray[np.int64]
    ) -> NDArray[np.float64] | None:
        """See `ClientProtection`."""
        return unit_gaussian(source, n=self.n, round_=rounds[..., None], counters=clients)

    def protect(
        self, start: Tensor, updated: Tensor, noise: NDArray[np.float64] | None
    ) -> ProtectedUploads:
        """See `ClientProtection`."""
        unit = torch.from_numpy(drawn(noise)).to(start.device)
        uploads, finite = self.gaussian(start, updated, unit)
        return ProtectedUploads(uploads, radii=None, finite=finite)

    def protect_in_place(
        self, upload: Tensor, start: Tensor, *, source: Source, round_: int, client: int
    ) -> Tensor | float:
        """See `ClientProtection`."""
        unit = unit_gaussian(source, n=self.n, round_=round_, counters=client)
        noised, finite = self.gaussian(
            start, upload[None, None], torch.from_numpy(unit[None]).to(upload.device)
        )
        upload.copy_(torch.where(finite[0, 0], noised[0, 0], torch.nan))
        return float("nan")
