"""`none`: updates are sent unchanged, as the spec explicitly asks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.randomness import Source
from fedaudit.spec.privacy import NoMechanism
from fedaudit.training.base.cell import Cell
from fedaudit.training.mechanisms.base import (
    ClientMechanism,
    ClientProtection,
    ProtectedUploads,
    finite_uploads,
    privacy_of,
)


@dataclass(frozen=True)
class NoMechanismTraining(ClientMechanism):
    """`none` in training."""

    privacy: NoMechanism
    name = "none"

    def protection(self, cells: Sequence[Cell], device: torch.device) -> ClientProtection:
        """See `ClientMechanism`."""
        privacy_of(cells, NoMechanism)
        return Unprotected()


class Unprotected(ClientProtection):
    """Uploads are sent unchanged, unless they are not finite."""

    def draw_cell(
        self, source: Source, rounds: NDArray[np.int64], clients: NDArray[np.int64]
    ) -> NDArray[np.float64] | None:
        """None: there is no noise."""
        return None

    def protect(
        self, start: Tensor, updated: Tensor, noise: NDArray[np.float64] | None
    ) -> ProtectedUploads:
        """See `ClientProtection`."""
        return ProtectedUploads(updated, radii=None, finite=finite_uploads(updated))

    def protect_in_place(
        self, upload: Tensor, start: Tensor, *, source: Source, round_: int, client: int
    ) -> Tensor | float:
        """See `ClientProtection`."""
        return float("nan")
