"""What clients do with their own rows, by the compiled kernels.

For regression by small dense networks, where every local step sees all of a client's rows. The
bits are those of `hypothesis_choice`, `local_update` and `evaluation`. A client's rows lie in one
piece here, so that taking a cohort out of all clients needs no copy of it.
"""

from ctypes import CDLL
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.native.library import done, kernels, line, place_of
from fedaudit.native.tensors import address
from fedaudit.networks.dense import DenseNetwork
from fedaudit.networks.layered import LayeredNetwork
from fedaudit.networks.losses import Loss
from fedaudit.networks.network_choice import Network
from fedaudit.networks.small_dense import SmallDenseNetwork
from fedaudit.training.stacked.client_tensors import StackData


@dataclass(frozen=True)
class CompiledEvaluation:
    """Figures of each cell on its validation clients, as of `Evaluation`."""

    selection_loss: NDArray[np.float64]
    validation_loss: NDArray[np.float64]
    predictions: NDArray[np.float32] | None
    """[cells, clients, rows]."""


class CompiledClients:
    """The rows of a stack's clients as the kernels take them; see `compiled_clients`."""

    def __init__(
        self, library: CDLL, network: SmallDenseNetwork, loss: Loss, data: StackData
    ) -> None:
        self._library = library
        self._data = data
        self._root_mean = loss.root_mean
        # Kept, because the kernels are given only where they lie.
        self._arrays = packed, count, sizes = (
            *data.by_client(),
            line(network.shape.sizes, np.int64),
        )
        self._fixed = (
            len(network.shape.layers),
            place_of(sizes),
            network.shape.intercept,
            network.n,
            place_of(packed),
            place_of(count),
            packed.shape[2],
        )

    def learn(
        self, theta: Tensor, columns: NDArray[np.int64], *, steps: int, step_size: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The hypotheses that clients choose, int64 [cells, clients], their parameters, and what
        the clients make of them, both [cells, clients, n].

        `theta` [cells, k, n]; `columns` [cells, clients] of the stack's data.
        """
        theta, columns = theta.contiguous(), line(columns, np.int64)
        chosen = torch.empty(columns.shape, dtype=torch.int64)
        start = torch.empty((*columns.shape, theta.shape[2]))
        updated = torch.empty_like(start)
        done(
            self._library.fedaudit_learn(
                *self._fixed,
                self._data.rows_needed(columns),
                address(theta),
                theta.shape[1],
                place_of(columns),
                *columns.shape,
                self._root_mean,
                steps,
                step_size,
                address(chosen),
                address(start),
                address(updated),
            )
        )
        return chosen, start, updated

    def evaluate(
        self, theta: Tensor, columns: NDArray[np.int64], largest: Tensor, *, predicts: bool
    ) -> CompiledEvaluation:
        """As `evaluation.evaluate`; `theta` and `columns` as for `learn`, `largest` [cells].

        Without `predicts` there are no predictions.
        """
        theta, columns = theta.contiguous(), line(columns, np.int64)
        largest = largest.contiguous()
        cells, clients = columns.shape
        rows = self._data.rows_needed(columns)
        of_clients = np.empty((2, cells, clients))
        losses = np.empty((2, cells))
        predictions = None
        if predicts:
            predictions = np.empty((cells, clients, rows), dtype=np.float32)
        done(
            self._library.fedaudit_evaluate(
                *self._fixed,
                rows,
                address(theta),
                theta.shape[1],
                place_of(columns),
                cells,
                clients,
                self._root_mean,
                address(largest),
                place_of(of_clients[0]),
                place_of(of_clients[1]),
                place_of(losses[0]),
                place_of(losses[1]),
                None if predictions is None else place_of(predictions),
            )
        )
        return CompiledEvaluation(losses[0], losses[1], predictions)


def compiled_clients(network: Network, loss: Loss, data: StackData) -> CompiledClients | None:
    """The clients of a stack; None where there are no kernels, or none for this model.

    Exponentials and logarithms, which classification needs, have no result that all libraries
    agree on.
    """
    library = kernels()
    if library is None or data.device.type != "cpu" or loss.classes:
        return None
    match network:
        case SmallDenseNetwork():
            return CompiledClients(library, network, loss, data)
        case DenseNetwork() | LayeredNetwork():
            return None
        case _:
            assert_never(network)
