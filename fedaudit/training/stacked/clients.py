"""What the clients of all cells compute on their own rows (Algorithm 1, lines 5 and 6)."""

from collections.abc import Iterator, Sequence
from ctypes import CDLL
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Floats32, Ints
from fedaudit.federations.federation import Federation
from fedaudit.native.library import kernels, line
from fedaudit.native.tensors import call
from fedaudit.networks.stacked_network import BatchedNetwork, Loss, Network, SmallDenseNetwork
from fedaudit.randomness import Purpose, Source
from fedaudit.reproducible import fixed_order_sum, padded_rows
from fedaudit.spec.training import Local
from fedaudit.training.base.cell import Cell


@dataclass(frozen=True)
class Lanes:
    """Some clients of each cell: the last two axes are [cells, clients]."""

    features: Tensor
    """float32 [features, rows, cells, clients]."""
    target: Tensor
    """float32 [rows, cells, clients]; the class index for classification."""
    mask: Tensor
    """float32 [rows, cells, clients]: 1 for a row, 0 for padding."""
    count: Tensor
    """float32 [cells, clients]: rows of a client."""
    scored: Tensor | None = None
    """bool [rows, cells, clients]: the rows that are scored, where others choose for them."""

    @property
    def weight(self) -> Tensor:
        """float32 [rows, cells, clients]: each of a client's rows counts the same."""
        return self.mask / self.count


class StackData:
    """The federations behind a stack; cells that share one share its tensors."""

    def __init__(self, cells: Sequence[Cell], device: torch.device) -> None:
        federations = list({id(cell.federation): cell.federation for cell in cells}.values())
        before = accumulate((part.clients for part in federations), initial=0)
        offsets = {id(part): clients for part, clients in zip(federations, before, strict=False)}
        self.offsets = np.array([offsets[id(cell.federation)] for cell in cells], dtype=np.int64)
        self._rows_of = np.concatenate([part.counts for part in federations])
        # If all clients need as many rows, none has to be examined.
        ends = (self._rows_of.min(), self._rows_of.max())
        shortest, longest = (padded_rows(int(rows)) for rows in ends)
        self._trims = shortest < longest
        self._columns = torch.from_numpy(_packed(federations)).to(device)
        self._count = torch.from_numpy(self._rows_of.astype(np.float32)).to(device)
        self.device = device
        self.elements = self._columns.shape[0] * self._columns.shape[1]
        """Numbers held for one client."""
        self.rows = self._columns.shape[1]

    def columns(self, clients: Ints, positions: Sequence[int]) -> Ints:
        """Columns of the tensors for clients [..., cells, clients] of the cells at `positions`."""
        return clients + self.offsets[positions, None]

    def rows_needed(self, columns: Ints) -> int:
        """The rows to compute for the clients at columns, padding included."""
        if not self._trims:
            return self._columns.shape[1]
        return padded_rows(int(self._rows_of[columns].max()))

    def by_client(self) -> tuple[Floats32, Floats32]:
        """Features, target and mask, client by client, [clients, features + 2, rows], and each
        client's rows [clients]: on the host, in one piece."""
        packed = self._columns.cpu().numpy().transpose(2, 0, 1)
        return np.ascontiguousarray(packed), self._count.cpu().numpy()

    def lanes(self, columns: Ints) -> Lanes:
        """The data of the clients at columns [cells, clients]."""
        packed = self._columns[:, : self.rows_needed(columns)]
        index = torch.from_numpy(columns.ravel()).to(self.device)
        taken = torch.unflatten(packed.index_select(-1, index), -1, columns.shape)
        count = torch.unflatten(self._count.index_select(0, index), 0, columns.shape)
        return Lanes(features=taken[:-2], target=taken[-2], mask=taken[-1], count=count)


def with_scored(lanes: Lanes, scored: Bools | None) -> Lanes:
    """The lanes with their scored rows [cells, clients, rows], however far the lanes are padded."""
    if scored is None:
        return lanes
    rows = min(scored.shape[-1], len(lanes.mask))
    padded = torch.zeros_like(lanes.mask, dtype=torch.bool)
    padded[:rows] = torch.from_numpy(scored[..., :rows]).to(padded.device).permute(2, 0, 1)
    return replace(lanes, scored=padded)


def _packed(federations: Sequence[Federation]) -> Floats32:
    """Features, target and mask of all clients, [features + 2, rows, clients].

    One array, so that a cohort is taken out in one go.
    """
    rows = padded_rows(federations[0].longest)
    parts = [packed_rows(part, np.arange(part.clients), rows=rows) for part in federations]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def packed_rows(federation: Federation, clients: Ints, *, rows: int) -> Floats32:
    """Features, target and mask of some clients padded to so many rows: [features + 2, rows,
    clients]."""
    counts, place = federation.counts[clients], federation.rows_of(clients)
    packed = np.zeros((federation.width + 2, rows, len(clients)), dtype=np.float32)
    lane = np.repeat(np.arange(len(clients)), counts)
    turn = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
    packed[:-2, turn, lane] = federation.side_by_side[place].T
    packed[-2, turn, lane] = federation.target[place]
    packed[-1, turn, lane] = 1
    return packed


def choose_hypotheses(network: Network, theta: Tensor, lanes: Lanes, loss: Loss) -> Tensor:
    """The hypothesis with the smallest loss on each client's data: int64 [cells, clients].

    `theta`: [cells, k, n].
    """
    if theta.shape[1] == 1:
        return torch.zeros(lanes.count.shape, dtype=torch.int64, device=theta.device)
    values = loss.values(network.forward(theta, lanes.features), lanes.target)
    # The indices of `min`, because `argmin` over a leading axis is many times slower.
    return (totals(real_rows(values, lanes)) / lanes.count).min(0).indices


def real_rows(values: Tensor, lanes: Lanes) -> Tensor:
    """Rows' values [k, rows, cells, clients] with 0 on padding, whatever was computed there."""
    return torch.where(lanes.mask > 0, values, 0.0)


def totals(values: Tensor) -> Tensor:
    """The sum over rows, [k, cells, clients]; infinite where a hypothesis has overflowed."""
    return without_nan(fixed_order_sum(values, 1))


def without_nan(losses: Tensor) -> Tensor:
    """Infinity, in place, for NaN, which `min` would take for the smallest loss."""
    return losses.nan_to_num_(nan=torch.inf, posinf=torch.inf)


def own_hypotheses(theta: Tensor, chosen: Tensor) -> Tensor:
    """The chosen parameters: [cells, clients, n]."""
    return theta.gather(1, chosen[..., None].expand(-1, -1, theta.shape[2]))


def batches_of(
    lanes: Lanes, local: Local, source: Source, *, rounds: Ints, clients: Ints
) -> Iterator[Lanes]:
    """The rows of each local step of every client, all clients at once.

    `rounds` [cells] and `clients` [cells, clients] key the order of their rows, which follows from
    each one's own number of rows.
    """
    counts = lanes.count.cpu().numpy().astype(np.int64)
    size = local.batch_size
    if size is None or whole_data(local, int(counts.max())):
        for _ in range(local.whole_steps):
            yield lanes
        return
    batches = -(-counts // size)
    steps = local.steps or (local.epochs or 1) * int(batches.max())
    if local.steps is None:  # All begin an epoch together.
        batches = np.full(counts.shape, batches.max())
    epochs = -(-steps // batches)
    words = source.words(
        purpose=Purpose.BATCHES,
        round_=rounds[:, None],
        counters=clients,
        count=int((epochs * counts).max()),
    )
    drawn: Ints | None = None
    for step in range(steps):
        # A client whose rows are used up starts over, so that all take as many steps.
        epoch = step // batches
        if drawn is None or not np.array_equal(epoch, drawn):
            drawn = epoch
            places = (epoch * counts)[..., None] + np.arange(len(lanes.mask))
            keys = np.take_along_axis(words, np.minimum(places, words.shape[-1] - 1), axis=-1)
            keys[counts <= size] = 0  # All rows in their order, as where everyone's fit a batch.
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


def _rows_of_batch(lanes: Lanes, order: Tensor, *, first: Ints, size: int) -> Lanes:
    """`size` rows of each client's order [cells, clients, rows], from place `first` [cells,
    clients] on, padded as all lanes are.

    A client whose rows are used up has an empty batch: weights 0 and no step.
    """
    device = lanes.mask.device
    turn = torch.arange(padded_rows(size), device=device)
    places = torch.from_numpy(first).to(device)[..., None] + turn
    rows = order.gather(-1, places.clamp_max(order.shape[-1] - 1)).permute(2, 0, 1)
    taken = ((places < lanes.count[..., None]) & (turn < size)).permute(2, 0, 1)
    mask = taken.to(lanes.mask.dtype)
    features = lanes.features.gather(1, rows.expand(lanes.features.shape[0], *rows.shape))
    return Lanes(
        features=torch.where(taken, features, 0.0),
        target=torch.where(taken, lanes.target.gather(0, rows), 0.0),
        mask=mask,
        count=mask.sum(0).clamp_min(1),
    )


_KERNEL_ROWS, _KERNEL_WIDTH = 64, 16  # MAX_ROWS and MAX_WIDTH of `native/kernels.h`


class CompiledClients:
    """The rows of a stack's clients as the kernels take them; see `compiled_clients`."""

    def __init__(
        self, library: CDLL, network: SmallDenseNetwork, loss: Loss, data: StackData
    ) -> None:
        self._library = library
        self._data = data
        self._root_mean = loss.root_mean
        packed, count, sizes = *data.by_client(), line(network.shape.sizes, np.int64)
        self._fixed = (
            *(len(network.shape.layers), sizes, network.shape.intercept, network.n),
            *(packed, count, packed.shape[2]),
        )

    def learn(self, theta: Tensor, columns: Ints, local: Local) -> tuple[Tensor, Tensor, Tensor]:
        """The hypotheses that clients choose, int64 [cells, clients], their parameters, and what
        the clients make of them, both [cells, clients, n].

        `theta` [cells, k, n]; `columns` [cells, clients] of the stack's data.
        """
        theta, columns = theta.contiguous(), line(columns, np.int64)
        chosen = torch.empty(columns.shape, dtype=torch.int64)
        start = torch.empty((*columns.shape, theta.shape[2]))
        updated = torch.empty_like(start)
        call(
            self._library.fedaudit_learn,
            *(*self._fixed, self._data.rows_needed(columns), theta, theta.shape[1]),
            *(columns, *columns.shape, self._root_mean, local.whole_steps, local.step_size),
            *(chosen, start, updated),
        )
        return chosen, start, updated

    def evaluate(
        self, theta: Tensor, columns: Ints, largest: Tensor, *, predicts: bool
    ) -> tuple[Floats, Floats, Floats32 | None]:
        """Selection losses and validation losses, [cells] each, and predictions [cells, clients,
        rows], None without `predicts`; as of `Evaluation`.

        `theta` and `columns` as for `learn`; `largest` [cells].
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
        call(
            self._library.fedaudit_evaluate,
            *(*self._fixed, rows, theta, theta.shape[1], columns, cells, clients),
            *(self._root_mean, largest, *of_clients, *losses, predictions),
        )
        return losses[0], losses[1], predictions


def compiled_clients(network: Network, loss: Loss, data: StackData) -> CompiledClients | None:
    """The clients of a stack; None where there are no kernels, or none for this model.

    Exponentials and logarithms, which classification needs, have no result that all libraries
    agree on.
    """
    library = kernels()
    if library is None or data.device.type != "cpu" or loss.classes or data.rows > _KERNEL_ROWS:
        return None
    match network:
        case SmallDenseNetwork() if max(network.shape.sizes) <= _KERNEL_WIDTH:
            return CompiledClients(library, network, loss, data)
        case SmallDenseNetwork() | BatchedNetwork():
            return None
        case _:
            assert_never(network)
