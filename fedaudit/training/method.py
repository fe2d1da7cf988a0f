"""The fixed parts of a round, from the cells' specs."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedaudit.networks.choose import choose_network
from fedaudit.networks.losses import Loss
from fedaudit.privacy.laplace import Sanitiser
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.spec.training import Reported
from fedaudit.training.cell import Cell
from fedaudit.training.cohort import Draws
from fedaudit.training.local_update import LocalUpdate
from fedaudit.training.rounds import Method


def build_method(cells: Sequence[Cell], device: torch.device) -> Method:
    """What the rounds of these cells have in common."""
    first = cells[0]
    training = first.spec.training
    rows = first.federation.features.shape[1]
    network = choose_network(first.shape, rows=rows)
    loss = Loss(kind=training.loss, classes=len(first.federation.classes))
    return Method(
        network=network,
        loss=loss,
        local_update=LocalUpdate(network, loss, training.local, rows=rows),
        sanitise=_sanitiser(cells, device),
        reported=isinstance(training.clustering, Reported),
        relocate=first.spec.relocates,
    )


def _sanitiser(cells: Sequence[Cell], device: torch.device) -> Sanitiser | None:
    privacy = [cell.spec.privacy for cell in cells]
    mechanisms = [part for part in privacy if isinstance(part, LaplaceL2)]
    if not mechanisms:
        return None

    def column(values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=device)[:, None]

    radii = [np.nan if part.radius == "adaptive" else part.radius for part in mechanisms]
    return Sanitiser(
        n=cells[0].shape.n,
        noise_multiplier=column([part.noise_multiplier for part in mechanisms]),
        fixed_radius=column(radii),
        radius_floor=column([part.radius_floor for part in mechanisms]),
        clip=column([np.inf if part.clip is None else part.clip for part in mechanisms]),
    )


def build_draws(cells: Sequence[Cell]) -> Draws:
    """Where the numbers of these cells come from."""
    return Draws(
        seeds=np.array([cell.spec.seed for cell in cells], dtype=np.uint64),
        secret=cells[0].spec.privacy.noise == "release",
    )
