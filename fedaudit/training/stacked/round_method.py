"""The fixed parts of a round, from the cells' specs."""

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import torch

from fedaudit.networks.dense import DenseNetwork
from fedaudit.networks.losses import Loss
from fedaudit.networks.network_choice import choose_network
from fedaudit.networks.shape import ConvolutionalShape, DenseShape
from fedaudit.networks.small_dense import SmallDenseNetwork
from fedaudit.spec.training import KMeans, Reported
from fedaudit.training.base.cell import Cell, draws_in_secret
from fedaudit.training.base.cohort import Draws
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.stacked.clustering import Server
from fedaudit.training.stacked.local_update import LocalUpdate, whole_data
from fedaudit.training.stacked.stack_round import Method


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
        protection=build_protection(cells, device),
        server=build_server(first),
    )


def trims_lanes(cell: Cell) -> bool:
    """Whether lanes may be cut to their longest client without changing a bit of any figure."""
    rows = cell.federation.longest
    network = choose_network(_dense(cell), rows=rows)
    match network:
        case SmallDenseNetwork():
            return whole_data(cell.spec.training.local, rows)
        case DenseNetwork():
            return False
        case _:
            assert_never(network)


def _dense(cell: Cell) -> DenseShape:
    shape = cell.shape
    match shape:
        case DenseShape():
            return shape
        case ConvolutionalShape():
            raise ValueError(f"{cell.spec.model.kind} needs a federation of images")
        case _:
            assert_never(shape)


def build_loss(cell: Cell) -> Loss:
    """The loss that training descends and validation measures."""
    return Loss(kind=cell.spec.training.loss, classes=len(cell.federation.classes))


def build_server(cell: Cell) -> Server:
    """How uploads are brought together."""
    clustering = cell.spec.training.clustering
    match clustering:
        case Reported():
            return Server(reported=True, relocate=False)
        case KMeans():
            return Server(reported=False, relocate=_relocates(clustering))
        case _:
            assert_never(clustering)


def _relocates(clustering: KMeans) -> bool:
    """Whether an empty cluster is moved to the farthest upload."""
    match clustering.empty_cluster:
        case "keep":
            return False
        case "relocate":
            return True
        case _:
            assert_never(clustering.empty_cluster)


def build_draws(cells: Sequence[Cell]) -> Draws:
    """Where the numbers of these cells come from."""
    return Draws(
        seeds=np.array([cell.spec.seed for cell in cells], dtype=np.uint64),
        secret=draws_in_secret(cells[0]),
    )
