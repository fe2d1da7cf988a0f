"""Scores on held-out clients, one client at a time and a few of its rows at once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.client_network import ClientNetwork
from fedaudit.networks.losses import Loss, predicted_class
from fedaudit.training.base.final_groups import ScoredRows
from fedaudit.training.base.group_counts import GroupCounter
from fedaudit.training.one_by_one.client_data import ClientData
from fedaudit.training.stacked.evaluation import Scores, score
from fedaudit.training.stacked.flat_figures import flat_figures
from fedaudit.training.stacked.hypothesis_choice import without_nan
from fedaudit.training.stacked.validation import Figures

Tune = Callable[[int, NDArray[np.int64]], None]
"""Makes a client's own model of the network's parameters, from these of its rows."""


class ClientValidator:
    """Measures hypotheses on clients' rows."""

    def __init__(
        self, network: ClientNetwork, loss: Loss, data: ClientData, counter: GroupCounter
    ) -> None:
        self._network = network
        self._loss = loss
        self._data = data
        self._counter = counter

    def loss(self, theta: Tensor, client: int) -> Tensor:
        """The loss of parameters [n] on a client's rows: float64 []."""
        self._network.load(theta)
        values, _ = self._table(client)
        return self._loss.client_loss(values.mean()).to(theta.device)

    def best(self, theta: Tensor, clients: Sequence[int]) -> Tensor:
        """The hypothesis with the smallest loss on each client's rows: int64 [clients].

        `theta` [k, n].
        """
        if len(theta) == 1:
            return torch.zeros(len(clients), dtype=torch.int64, device=theta.device)
        sums = torch.zeros(len(theta), len(clients), dtype=torch.float64, device=theta.device)
        for j, hypothesis in enumerate(theta):
            self._network.load(hypothesis)
            for place, client in enumerate(clients):
                for outputs, target, _ in self._outputs(client):
                    sums[j, place] += self._loss.values(outputs, target).double().sum()
        return without_nan(sums).min(0).indices

    def score(
        self,
        theta: Tensor,
        clients: NDArray[np.int64],
        largest: Tensor,
        *,
        scored: NDArray[np.bool_] | None,
        per_client: bool,
        tune: Tune | None,
    ) -> Figures:
        """Figures of hypotheses theta [k, n] on clients [clients].

        `largest` int64 []: the hypothesis for clients with one row; `scored` bool [rows of the
        clients, end to end]. `tune`: where clients are scored by models of their own.
        """
        values, guesses = self._tables(theta, clients)
        places = self._counter.rows(clients)
        selection, validation = [], []
        predictions = np.zeros(len(places.place), self._kind)
        own_values, hypotheses = np.zeros(len(predictions)), np.zeros(len(predictions), np.int64)
        for place, rows in enumerate(places.by_client):
            own = None if scored is None else torch.from_numpy(scored[rows])
            scores = score(
                self._loss,
                values[place][..., None, None],
                count=torch.full((1, 1), float(values[place].shape[1])),
                scored=None if own is None else own[:, None, None],
                largest=largest.reshape(1),
            )
            if tune is None or own is None:
                guessed = scores.of_chosen(guesses[place][..., None, None]).flatten()
                valued = scores.of_chosen(values[place][..., None, None]).flatten()
            else:
                chosen = 0 if scores.chosen is None else int(scores.chosen[0])
                self._network.load(theta[chosen])
                tune(int(clients[place]), np.flatnonzero(~own.numpy()))
                valued, guessed = self._table(int(clients[place]))
                scores = self._personal(scores, valued, own)
            selection.append(scores.selection_loss)
            validation.append(scores.validation_loss)
            predictions[rows], own_values[rows] = guessed, valued
            if scores.chosen is not None:
                hypotheses[rows] = scores.chosen.flatten()
        return flat_figures(
            self._counter,
            ScoredRows(predictions, own_values, hypotheses, scored),
            places,
            selection_loss=torch.cat(selection).mean(0).numpy(),
            validation_loss=torch.cat(validation).mean(0).numpy(),
            k=len(theta),
            per_client=per_client,
        )

    def _personal(self, scores: Scores, values: Tensor, scored: Tensor) -> Scores:
        """The scores of a client's own model by its rows' values; `scored` bool, both [rows]."""
        loss = self._loss.client_loss(values[scored].mean()).reshape(1, 1)
        return replace(scores, selection_loss=loss, validation_loss=loss)

    @property
    def _kind(self) -> type[np.int64] | type[np.float32]:
        """What predictions are: class indices, or numbers."""
        return np.int64 if self._loss.classes else np.float32

    def _tables(
        self, theta: Tensor, clients: NDArray[np.int64]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """By client, on the host: values of its rows, float64 [k, rows], and their predictions."""
        values, guesses = [], []
        for client in clients.tolist():
            shape = len(theta), self._data.rows(client)
            values.append(torch.zeros(shape, dtype=torch.float64))
            guesses.append(torch.from_numpy(np.zeros(shape, dtype=self._kind)))
        for j, hypothesis in enumerate(theta):
            self._network.load(hypothesis)
            for place, client in enumerate(clients.tolist()):
                values[place][j], guesses[place][j] = self._table(client)
        return values, guesses

    def _table(self, client: int) -> tuple[Tensor, Tensor]:
        """Values float64 [rows] and predictions [rows] of a client's rows, on the host, by the
        network as it is."""
        rows = self._data.rows(client)
        values = torch.zeros(rows, dtype=torch.float64)
        guesses = torch.from_numpy(np.zeros(rows, dtype=self._kind))
        for outputs, target, part in self._outputs(client):
            values[part] = self._loss.values(outputs, target).double().cpu()
            guesses[part] = self._guess(outputs).cpu()
        return values, guesses

    def _guess(self, outputs: Tensor) -> Tensor:
        classes = self._loss.classes
        return predicted_class(outputs, classes) if classes else outputs[0]

    def _outputs(self, client: int) -> Iterator[tuple[Tensor, Tensor, slice]]:
        """Outputs [out, rows] and targets of a client's rows, some rows at a time."""
        count, step = self._data.rows(client), self._network.rows_at_once
        for start in range(0, count, step):
            rows = slice(start, min(start + step, count))
            with torch.no_grad():
                outputs = self._network.outputs(self._data.features(client, rows))
            yield outputs, self._data.target(client, rows), rows
