"""Scores of one model on some rows, whoever's they are."""

from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.client_network import ClientNetwork
from fedaudit.networks.losses import predicted_class
from fedaudit.one_thread import one_thread
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.final_groups import ScoredRows, final_groups
from fedaudit.training.base.flat_rows import flat_features, flat_target
from fedaudit.training.base.group_counts import GroupCounter
from fedaudit.training.base.record_sources import ValidationRows
from fedaudit.training.stacked.round_method import build_loss
from fedaudit.training.stacked.validation import Figures

Number = TypeVar("Number", bound=np.generic)


class RowValidator:
    """Measures a model on the rows that are held out, a part of them at a time."""

    def __init__(self, cell: Cell, held_out: ValidationRows, device: torch.device) -> None:
        self._held_out = held_out
        self._loss = build_loss(cell)
        self._network = ClientNetwork(cell.shape, device)
        self._counter = GroupCounter([cell.federation], cell.spec.fairness)
        own, row = np.nonzero(held_out.rows)
        place = held_out.clients[own], row
        self._features = flat_features(cell.federation, place, device)
        self._target = flat_target(cell.federation, place, device)

    def score(
        self, theta: Tensor, *, chosen: NDArray[np.int64] | None = None, per_client: bool = False
    ) -> Figures:
        """Figures of the model theta [n], as those of a stack of one.

        `chosen`: places of some of the validation clients, ascending; all by default.
        """
        every, guesses = self._tables(theta)
        if chosen is None:
            chosen = np.arange(len(every))
        rows, scored = self._held_out.rows[chosen], self._held_out.scored[chosen]
        values, predictions = every[chosen], guesses[chosen]
        accuracy = None
        if self._loss.classes:
            target = self._padded(self._target.cpu().numpy())[chosen]
            accuracy = np.array([(predictions == target)[scored].mean()])
        clients, final = self._held_out.clients[chosen], None
        if per_client and self._counter.attributes:
            own = ScoredRows(predictions, values, hypotheses=None, scored=scored)
            final = final_groups(self._counter, own, clients, k=1)
        return Figures(
            selection_loss=np.array([self._mean(values, rows)]),
            validation_loss=np.array([self._mean(values, scored)]),
            accuracy=accuracy,
            counts=self._counter.count(
                predictions[None],
                clients[None],
                per_client=per_client,
                scored=scored[None],
            ),
            final=final,
        )

    def _mean(self, values: NDArray[np.float64], counted: NDArray[np.bool_]) -> float:
        """The loss over the counted rows [clients, rows]: of clients, or of all rows alike."""
        if not self._held_out.by_client:
            return float(values[counted].mean())
        sums = np.where(counted, values, 0.0).sum(1)
        return float((sums / counted.sum(1)).mean())

    def _tables(self, theta: Tensor) -> tuple[NDArray[np.float64], NDArray[np.generic]]:
        """Each row's value and prediction, both [clients, rows] on the host."""
        values, predictions = [], []
        with one_thread(), torch.no_grad():
            self._network.load(theta)
            for start in range(0, len(self._target), self._network.rows_at_once):
                part = slice(start, start + self._network.rows_at_once)
                outputs = self._network.outputs(self._features[part])
                values.append(self._loss.values(outputs, self._target[part]).double())
                predictions.append(
                    predicted_class(outputs, self._loss.classes)
                    if self._loss.classes
                    else outputs[0]
                )
        return (
            self._padded(torch.cat(values).cpu().numpy()),
            self._padded(torch.cat(predictions).cpu().numpy()),
        )

    def _padded(self, values: NDArray[Number]) -> NDArray[Number]:
        """Values [all rows] at their places [clients, rows]."""
        padded = np.zeros(self._held_out.rows.shape, dtype=values.dtype)
        padded[self._held_out.rows] = values
        return padded
