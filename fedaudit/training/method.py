"""The fixed parts of a round, from the cells' specs."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedaudit.networks.choose import choose_network
from fedaudit.networks.losses import Loss
from fedaudit.networks.tiny import TinyNetwork
from fedaudit.privacy.laplace import Sanitiser
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.spec.training import Reported
from fedaudit.training.cell import Cell
from fedaudit.training.cohort import Draws
from fedaudit.training.local_update import LocalUpdate, whole_data
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


def trims_lanes(cell: Cell) -> bool:
    """Whether lanes may be cut to their longest client without changing a bit of any figure."""
    rows = cell.federation.features.shape[1]
    tiny = isinstance(choose_network(cell.shape, rows=rows), TinyNetwork)
    return tiny and whole_data(cell.spec.training.local, rows)


def _sanitiser(cells: Sequence[Cell], device: torch.device) -> Sanitiser | None:
    privacy = [cell.spec.privacy for cell in cells]
    mechanisms = [part for part in privacy if isinstance(part, LaplaceL2)]
    if not mechanisms:
        return None

    def column(values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=device)[:, None]

    n = cells[0].shape.n
    fixed = [np.nan if part.radius == "adaptive" else part.radius for part in mechanisms]
    clips = [np.inf if part.clip is None else part.clip for part in mechanisms]
    return Sanitiser(
        noise_scale=column([part.noise_multiplier / n for part in mechanisms]),
        fixed_radius=None if np.isnan(fixed).all() else column(fixed),
        radius_floor=column([part.radius_floor for part in mechanisms]),
        clip=None if np.isinf(clips).all() else column(clips),
    )


def build_draws(cells: Sequence[Cell]) -> Draws:
    """Where the numbers of these cells come from."""
    return Draws(
        seeds=np.array([cell.spec.seed for cell in cells], dtype=np.uint64),
        secret=cells[0].spec.privacy.noise == "release",
    )
