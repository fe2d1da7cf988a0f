"""What an attacker who has the hypotheses sees of rows: their loss, and how sure the model is.

A row is looked at under the hypothesis that its client would choose: the one with the smallest loss
on the client's *other* rows, members and non-members alike, so the row has no say in it. A client
with one row has no others, and its row is looked at under the hypothesis that fits it best, which
is what such a client chooses in training.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.attacks.membership.attacked_rows import AttackedRows
from fedaudit.networks.client_network import ClientNetwork
from fedaudit.reproducible import one_thread
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.record_steps import flat_features, flat_target
from fedaudit.training.stacked.stack_round import build_loss


@dataclass(frozen=True, eq=False)
class Observations:
    """Of the attacked rows; both [rows]. Not finite where a model has overflowed."""

    loss: NDArray[np.float64]
    """The row's loss, as training has it."""
    statistic: NDArray[np.float64]
    """For classes the logit of the true class's probability, log(p / (1 - p)) (Carlini et al. 2022,
    section V-A); for a number the residual, prediction less target."""


class RowObserver:
    """Looks at the attacked rows under one model after the other."""

    def __init__(self, cell: Cell, rows: AttackedRows, device: torch.device) -> None:
        federation = cell.federation
        self._network = ClientNetwork(cell.shape, device)
        self._loss = build_loss(cell)
        clients = np.unique(rows.client)
        # All rows of these clients: the others choose the hypothesis.
        place = federation.rows_of(clients)
        self._features = flat_features(federation, place, device)
        self._target = flat_target(federation, place, device)
        counts = federation.counts[clients]
        self._first = np.cumsum(counts) - counts
        self._own = np.searchsorted(place, rows.place)
        self._client = np.searchsorted(clients, rows.client)
        self._alone = counts[self._client] == 1

    def observe(self, hypotheses: NDArray[np.float32]) -> Observations:
        """Of a model of hypotheses [k, n]."""
        values, statistics = [], []
        with one_thread(), torch.no_grad():
            for theta in torch.from_numpy(hypotheses):
                value, statistic = self._of_hypothesis(theta)
                values.append(value)
                statistics.append(statistic)
        losses = np.stack(values)
        chosen = self._chosen(losses)[None]
        return Observations(
            loss=np.take_along_axis(losses[:, self._own], chosen, axis=0)[0],
            statistic=np.take_along_axis(np.stack(statistics), chosen, axis=0)[0],
        )

    def _chosen(self, losses: NDArray[np.float64]) -> NDArray[np.int64]:
        """The hypothesis of each attacked row, from the losses of all rows [k, rows]."""
        own = losses[:, self._own]
        if len(losses) == 1:
            return np.zeros(own.shape[1], dtype=np.int64)
        with np.errstate(invalid="ignore", over="ignore"):
            totals = np.add.reduceat(losses, self._first, axis=1)[:, self._client]
            others = np.where(self._alone, own, totals - own)
        return np.asarray(np.nan_to_num(others, nan=np.inf, posinf=np.inf).argmin(0))

    def _of_hypothesis(self, theta: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Losses of all rows, and statistics of the attacked ones."""
        self._network.load(theta.to(self._features.device))
        losses, statistics = [], []
        for start in range(0, len(self._target), self._network.rows_at_once):
            part = slice(start, start + self._network.rows_at_once)
            outputs, target = self._network.outputs(self._features[part]), self._target[part]
            losses.append(self._loss.values(outputs, target).double().cpu())
            statistics.append(_statistic(outputs.double(), target, self._loss.classes).cpu())
        return torch.cat(losses).numpy(), torch.cat(statistics).numpy()[self._own]


def _statistic(outputs: Tensor, target: Tensor, classes: int) -> Tensor:
    """As in `Observations`, from float64 outputs [out, rows] and targets [rows].

    The logit is taken from the outputs, where a probability would have been rounded to 1.
    """
    if classes == 0:
        return outputs[0] - target
    if classes == 2:
        return torch.where(target > 0, outputs[0], -outputs[0])
    own = target.long()[None]
    others = outputs.scatter(0, own, -torch.inf)
    return outputs.gather(0, own)[0] - others.logsumexp(0)
