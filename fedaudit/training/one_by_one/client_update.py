"""One client's update of the hypothesis it chose (Algorithm 1, line 6)."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.client_network import ClientNetwork
from fedaudit.networks.losses import Loss
from fedaudit.randomness import Purpose, Source
from fedaudit.spec.training import Local
from fedaudit.training.base.length_classes import class_rows
from fedaudit.training.methods.training_method import PersonalSteps
from fedaudit.training.one_by_one.client_data import ClientData, Rows
from fedaudit.training.stacked.local_update import whole_data


class ClientUpdate:
    """Gradient descent on a client's rows, in the same order as in `LocalUpdate`."""

    def __init__(self, network: ClientNetwork, loss: Loss, local: Local, data: ClientData) -> None:
        self._network = network
        self._loss = loss
        self._local = local
        self._data = data
        self._rows_of_class = class_rows(data.federation.counts)

    def __call__(self, client: int, *, source: Source, round_: int) -> None:
        """Moves the network's parameters; `source` is that of a stack of one."""
        for batch in self._batches(client, source, round_):
            self._step(client, batch, step_size=self._local.step_size)

    def tune(self, client: int, rows: NDArray[np.int64], personal: PersonalSteps) -> None:
        """Makes the client's own model of the network's parameters, from these of its rows."""
        common = self._network.theta.clone()
        for _ in range(personal.steps if len(rows) else 0):
            pull = personal.pull(self._network.theta, common)
            self._step(client, rows, step_size=personal.step_size)
            if pull is not None:
                self._network.load(self._network.theta - pull)

    def _step(self, client: int, batch: NDArray[np.int64], *, step_size: float) -> None:
        """One step on the mean over the batch, whose gradient is added up part by part."""
        total, gradient = torch.zeros((), device=self._data.device), None
        for rows in parts(batch, self._network.rows_at_once):
            features, target = self._data.features(client, rows), self._data.target(client, rows)
            value, slopes = self._network.gradient(features, target, self._loss)
            total += value
            gradient = slopes if gradient is None else _added(gradient, slopes)
        if gradient is not None:
            factor = self._loss.client_slope(total / len(batch)).item()
            self._network.descend(gradient, step_size * factor / len(batch))

    def _batches(self, client: int, source: Source, round_: int) -> Iterator[NDArray[np.int64]]:
        """The rows of each local step."""
        local, rows = self._local, self._data.rows(client)
        longest = int(self._rows_of_class[client])
        if local.batch_size is None or whole_data(local, longest):
            for _ in range(local.steps or local.epochs or 1):
                yield np.arange(rows)
            return
        size = local.batch_size
        # As many orders as the longest client of about this length needs.
        per_epoch = -(-longest // size)
        epochs = local.epochs or -(-(local.steps or 1) // per_epoch)
        words = source.words(
            purpose=Purpose.BATCHES, round_=round_, counters=client, count=epochs * longest
        )
        orders = words.reshape(epochs, longest)[:, :rows].argsort(-1, kind="stable")
        batches = -(-rows // size)
        # A client whose rows are used up starts over where every client takes as many steps.
        for step in range(local.steps or epochs * batches):
            first = step % batches * size
            yield orders[step // batches % epochs, first : first + size]


def parts(rows: NDArray[np.int64], size: int) -> Iterator[Rows]:
    """The rows, at most `size` at a time."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _added(gradient: list[Tensor], slopes: list[Tensor]) -> list[Tensor]:
    for total, part in zip(gradient, slopes, strict=True):
        total.add_(part)
    return gradient
