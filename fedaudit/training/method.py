"""The fixed parts of a round, from the cells' specs."""

from collections.abc import Sequence

import numpy as np
import torch

from fedaudit.networks.choose import choose_network
from fedaudit.networks.losses import Loss
from fedaudit.networks.shape import DenseShape
from fedaudit.networks.tiny import TinyNetwork
from fedaudit.spec.training import Reported
from fedaudit.training.cell import Cell
from fedaudit.training.clustering import Server
from fedaudit.training.cohort import Draws
from fedaudit.training.local_update import LocalUpdate, whole_data
from fedaudit.training.mechanism import build_mechanism
from fedaudit.training.rounds import Method


def build_method(cells: Sequence[Cell], device: torch.device) -> Method:
    """What the rounds of these cells have in common.

    Raises ValueError for a convolutional network, whose images are not padded.
    """
    first = cells[0]
    training = first.spec.training
    rows = first.federation.longest
    network = choose_network(_dense(first), rows=rows)
    loss = build_loss(first)
    return Method(
        network=network,
        loss=loss,
        local_update=LocalUpdate(network, loss, training.local, rows=rows),
        mechanism=build_mechanism(cells, device),
        server=build_server(first),
    )


def trims_lanes(cell: Cell) -> bool:
    """Whether lanes may be cut to their longest client without changing a bit of any figure."""
    rows = cell.federation.longest
    tiny = isinstance(choose_network(_dense(cell), rows=rows), TinyNetwork)
    return tiny and whole_data(cell.spec.training.local, rows)


def _dense(cell: Cell) -> DenseShape:
    shape = cell.shape
    if not isinstance(shape, DenseShape):
        raise ValueError(f"{cell.spec.model.kind} needs a federation of images")
    return shape


def build_loss(cell: Cell) -> Loss:
    """The loss that training descends and validation measures."""
    return Loss(kind=cell.spec.training.loss, classes=len(cell.federation.classes))


def build_server(cell: Cell) -> Server:
    """How uploads are brought together."""
    reported = isinstance(cell.spec.training.clustering, Reported)
    return Server(reported=reported, relocate=cell.spec.relocates)


def build_draws(cells: Sequence[Cell]) -> Draws:
    """Where the numbers of these cells come from."""
    return Draws(
        seeds=np.array([cell.spec.seed for cell in cells], dtype=np.uint64),
        secret=cells[0].spec.privacy.noise == "release",
    )
