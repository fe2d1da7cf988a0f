"""The fixed parts of a round, from the cells' specs."""

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import torch

from fedaudit.networks.dense import DenseNetwork
from fedaudit.networks.layered import LayeredNetwork
from fedaudit.networks.layered_shape import LayeredShape
from fedaudit.networks.losses import Loss
from fedaudit.networks.network_choice import Network, choose_network
from fedaudit.networks.shape import ConvolutionalShape, DenseShape
from fedaudit.networks.small_dense import SmallDenseNetwork
from fedaudit.spec.training import KMeans, Reported
from fedaudit.training.base.cell import Cell, draws_in_secret, expected_cohort
from fedaudit.training.base.cohort import Draws, rounds_ahead
from fedaudit.training.base.planted import of_updates
from fedaudit.training.mechanisms.base import ClientProtection, Protection, TrustedServer
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.methods.method_choice import training_method
from fedaudit.training.methods.training_method import PersonalSteps
from fedaudit.training.stacked.clustering import Server
from fedaudit.training.stacked.local_update import LocalUpdate, whole_data
from fedaudit.training.stacked.stack_round import AnyServer, Method
from fedaudit.training.stacked.weighted_server import WeightedServer


def build_method(cells: Sequence[Cell], device: torch.device) -> Method:
    """What the rounds of these cells have in common.

    Raises ValueError for a convolutional network, whose images are not padded.
    """
    first = cells[0]
    training = first.spec.training
    network, loss = build_network(first), build_loss(first)
    rows = first.federation.longest
    return Method(
        network=network,
        loss=loss,
        local_update=LocalUpdate(network, loss, training.local, rows=rows),
        protection=build_protection(cells, device),
        server=build_server(first),
        weighting=training_method(training).weighting,
        planted=of_updates(first.planted),
    )


def build_network(cell: Cell) -> Network:
    """What computes the cell's model for clients of its longest client's rows."""
    return choose_network(_stacked(cell), rows=cell.federation.longest)


def rounds_worth_drawing(protection: Protection, cell: Cell, *, n: int, cells: int) -> int:
    """Rounds whose noise is worth drawing at once for so many cells like this one."""
    match protection:
        case TrustedServer():
            # Every client tosses a coin.
            elements = cell.spec.training.hypotheses * n + cell.federation.clients
        case ClientProtection():
            elements = int(expected_cohort(cell)) * n
        case _:
            assert_never(protection)
    return rounds_ahead(cells=cells, elements=cells * elements)


def trims_lanes(cell: Cell) -> bool:
    """Whether lanes may be cut to their longest client without changing a bit of any figure."""
    network = build_network(cell)
    match network:
        case SmallDenseNetwork():
            return whole_data(cell.spec.training.local, cell.federation.longest)
        case DenseNetwork() | LayeredNetwork():
            return False
        case _:
            assert_never(network)


def _stacked(cell: Cell) -> DenseShape | LayeredShape:
    shape = cell.shape
    match shape:
        case DenseShape() | LayeredShape():
            return shape
        case ConvolutionalShape():
            raise ValueError(f"{cell.spec.model.kind} needs a federation of images")
        case _:
            assert_never(shape)


def build_loss(cell: Cell) -> Loss:
    """The loss that training descends and validation measures."""
    return Loss(kind=cell.spec.training.loss, classes=len(cell.federation.classes))


def personal_steps(cell: Cell) -> PersonalSteps | None:
    """How held-out clients make models of their own; None where they do not."""
    return training_method(cell.spec.training).personal_steps


def build_server(cell: Cell) -> AnyServer:
    """How uploads are brought together."""
    weighting = training_method(cell.spec.training).weighting
    if weighting is not None:
        return WeightedServer(weighting)
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
