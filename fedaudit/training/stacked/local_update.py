"""The clients' updates of the hypotheses they chose (Algorithm 1, line 6)."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.losses import Loss
from fedaudit.networks.network_choice import Network
from fedaudit.randomness import Purpose, Source
from fedaudit.spec.training import Local
from fedaudit.training.stacked.client_tensors import Lanes


class LocalUpdate:
    """Gradient descent on every client's own rows, all clients at once."""

    def __init__(self, network: Network, loss: Loss, local: Local, *, rows: int) -> None:
        self._network = network
        self._loss = loss
        self._local = local
        self._rows = rows

    @property
    def steps(self) -> int:
        """Steps of clients who see all of their rows in each."""
        return self._local.steps or self._local.epochs or 1

    @property
    def step_size(self) -> float:
        """What a step multiplies the gradient by."""
        return self._local.step_size

    def __call__(
        self,
        start: Tensor,
        lanes: Lanes,
        *,
        source: Source,
        rounds: NDArray[np.int64],
        clients: NDArray[np.int64],
    ) -> Tensor:
        """Updated parameters [cells, clients, n] from start [cells, clients, n].

        `rounds` [cells] and `clients` [cells, clients] key the order of the batches.
        """
        theta = start.permute(2, 0, 1).contiguous()
        for batch in self._batches(lanes, source, rounds, clients):
            gradient = self._network.gradient(
                theta, batch.features, batch.target, batch.weight, self._loss
            )
            theta = theta - self._local.step_size * gradient
        return theta.permute(1, 2, 0).contiguous()

    def _batches(
        self, lanes: Lanes, source: Source, rounds: NDArray[np.int64], clients: NDArray[np.int64]
    ) -> Iterator[Lanes]:
        size = self._local.batch_size
        if size is None or whole_data(self._local, self._rows):
            for _ in range(self.steps):
                yield lanes
            return
        per_epoch = -(-self._rows // size)
        steps = self._local.steps or (self._local.epochs or 1) * per_epoch
        epochs = -(-steps // per_epoch)
        words = source.words(
            purpose=Purpose.BATCHES,
            round_=rounds[:, None],
            counters=clients,
            count=epochs * self._rows,
        )
        words = words.reshape(*clients.shape, epochs, self._rows)
        batches = np.full(clients.shape, per_epoch)
        if self._local.steps is not None:
            # A client whose rows are used up starts over, so that all take as many steps.
            batches = -(-lanes.count.cpu().numpy().astype(np.int64) // size)
        drawn: NDArray[np.int64] | None = None
        for step in range(steps):
            epoch = step // batches % epochs
            if drawn is None or not np.array_equal(epoch, drawn):
                drawn = epoch
                keys = np.take_along_axis(words, epoch[..., None, None], axis=2)[:, :, 0]
                order = _order(lanes, keys)
            yield _rows_of_batch(lanes, order, first=step % batches * size, size=size)


def whole_data(local: Local, rows: int) -> bool:
    """Whether every local step sees all of a client's rows (at most `rows`)."""
    return local.batch_size is None or local.batch_size >= rows


def _order(lanes: Lanes, keys: NDArray[np.uint32]) -> Tensor:
    """Each client's rows by their keys [cells, clients, rows], padding last: int64 of that
    shape."""
    padding = ((1 - lanes.mask.permute(1, 2, 0)) * 2**33).long()
    drawn = torch.from_numpy(keys.astype(np.int64)).to(padding.device)
    return (drawn + padding).argsort(dim=-1, stable=True)


def _rows_of_batch(lanes: Lanes, order: Tensor, *, first: NDArray[np.int64], size: int) -> Lanes:
    """`size` rows of each client's order [cells, clients, rows], from place `first` [cells,
    clients] on.

    A client whose rows are used up has an empty batch: weights 0 and no step.
    """
    device = lanes.mask.device
    places = torch.from_numpy(first).to(device)[..., None] + torch.arange(size, device=device)
    rows = order.gather(-1, places.clamp_max(order.shape[-1] - 1)).permute(2, 0, 1)
    mask = (places < lanes.count[..., None]).permute(2, 0, 1).to(lanes.mask.dtype)
    return Lanes(
        features=lanes.features.gather(1, rows.expand(lanes.features.shape[0], *rows.shape)),
        target=lanes.target.gather(0, rows),
        mask=mask,
        count=mask.sum(0).clamp_min(1),
    )
