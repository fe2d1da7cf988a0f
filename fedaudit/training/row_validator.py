"""Scores of one model on the held-out rows of `record-personalised`."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Floats32, Ints
from fedaudit.networks.stacked_network import ClientNetwork
from fedaudit.reproducible import one_thread
from fedaudit.training.base.cell import Cell, length_classes
from fedaudit.training.base.record_steps import flat_features, flat_target
from fedaudit.training.base.records import ValidationRows
from fedaudit.training.base.scored_rows import GroupCounter, RowPlaces, ScoredRows
from fedaudit.training.stacked.stack_round import build_loss
from fedaudit.training.stacked.validation import Figures, flat_figures


class RowValidator:
    """Measures a model on the rows that are held out, a part of them at a time."""

    def __init__(self, cell: Cell, held_out: ValidationRows, device: torch.device) -> None:
        self._held_out = held_out
        self._loss = build_loss(cell)
        self._network = ClientNetwork(cell.shape, device)
        self._classes = length_classes(cell.federation.counts)
        self._counter = GroupCounter([cell.federation], cell.spec.fairness)
        self._features = flat_features(cell.federation, held_out.place, device)
        self._target = flat_target(cell.federation, held_out.place, device)

    def score(
        self, theta: Tensor, *, chosen: Ints | None = None, per_client: bool = False
    ) -> Figures:
        """Figures of the model theta [n], as those of a stack of one.

        `chosen`: places of some of the validation clients, ascending; all by default.
        """
        values, predictions, logits = self._tables(theta)
        held_out = self._held_out
        if chosen is None:
            chosen = np.arange(len(held_out.clients))
        rows = np.flatnonzero(np.isin(held_out.client_of, chosen))
        client = np.searchsorted(chosen, held_out.client_of[rows])
        places = RowPlaces(held_out.place[rows], client, len(chosen))
        values, scored = values[rows], held_out.scored[rows]
        clients = held_out.clients[chosen]
        every = np.ones(len(rows), dtype=np.bool_)
        return flat_figures(
            self._counter,
            ScoredRows(
                predictions[rows],
                None if logits is None else logits[rows],
                values,
                hypotheses=None,
                scored=scored,
            ),
            places,
            (
                np.array([self._mean(values, every, places, clients=clients)]),
                np.array([self._mean(values, scored, places, clients=clients)]),
            ),
            per_client=per_client,
        )

    def _mean(self, values: Floats, counted: Bools, places: RowPlaces, *, clients: Ints) -> float:
        """The loss over the counted rows [rows]: of clients, or of all rows alike."""
        if not self._held_out.by_client:
            return float(values[counted].mean())
        counts = np.bincount(places.client, minlength=places.clients)
        values, first = np.where(counted, values, 0.0), np.cumsum(counts) - counts
        sums = np.zeros(places.clients)
        for one in self._classes:
            own = np.flatnonzero(np.isin(clients, one.clients))
            number = np.arange(one.rows)
            index = np.minimum(first[own, None] + number, len(values) - 1)
            sums[own] = np.where(number < counts[own, None], values[index], 0.0).sum(1)
        return float((sums / np.bincount(places.client, weights=counted)).mean())

    def _tables(self, theta: Tensor) -> tuple[Floats, NDArray[np.generic], Floats32 | None]:
        """Value, prediction and, of two classes, logit of each held-out row, [rows] on the host."""
        values, answers = [], []
        with one_thread(), torch.no_grad():
            self._network.load(theta)
            for start in range(0, len(self._target), self._network.rows_at_once):
                part = slice(start, start + self._network.rows_at_once)
                outputs = self._network.outputs(self._features[part])
                values.append(self._loss.values(outputs, self._target[part]).double())
                answers.append(self._loss.answers(outputs))
        every = torch.cat(answers)
        return (
            torch.cat(values).cpu().numpy(),
            self._loss.predictions(every).cpu().numpy(),
            every.cpu().numpy() if self._loss.classes == 2 else None,
        )
