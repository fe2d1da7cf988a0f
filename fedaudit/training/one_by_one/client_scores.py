"""Scores of hypotheses on clients, one client at a time and a few of its rows at once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.client_network import ClientNetwork
from fedaudit.networks.losses import Loss, predicted_class
from fedaudit.training.one_by_one.client_data import ClientData
from fedaudit.training.stacked.evaluation import Scores, score
from fedaudit.training.stacked.hypothesis_choice import without_nan

Tune = Callable[[int, NDArray[np.int64]], None]
"""Makes a client's own model of the network's parameters, from these of its rows."""


@dataclass(frozen=True, eq=False)
class ClientScores:
    """What hypotheses score on one held-out client, on the host; arrays are [rows]."""

    selection_loss: float
    validation_loss: float
    predictions: NDArray[np.generic]
    """The predicted target (scaled), or the predicted class."""
    values: NDArray[np.float64]
    """The training loss of each row, before any root."""
    hypotheses: NDArray[np.int64] | None
    """The hypothesis that made the prediction; None where there is only one."""


class ClientScorer:
    """Measures hypotheses on clients' rows."""

    def __init__(self, network: ClientNetwork, loss: Loss, data: ClientData) -> None:
        self._network = network
        self._loss = loss
        self._data = data

    def loss(self, theta: Tensor, client: int) -> Tensor:
        """The loss of parameters [n] on a client's rows: float64 []."""
        self._network.load(theta)
        values, _ = self._table(client)
        return self._loss.client_loss(values.mean()).to(theta.device)

    def best(self, theta: Tensor, clients: Sequence[int]) -> list[int]:
        """The hypothesis with the smallest loss on each client's rows, of theta [k, n]."""
        if len(theta) == 1:
            return [0] * len(clients)
        sums = torch.zeros(len(theta), len(clients), dtype=torch.float64, device=theta.device)
        for j, hypothesis in enumerate(theta):
            self._network.load(hypothesis)
            for place, client in enumerate(clients):
                for outputs, target, _ in self._outputs(client):
                    sums[j, place] += self._loss.values(outputs, target).double().sum()
        chosen: list[int] = without_nan(sums).min(0).indices.tolist()
        return chosen

    def score(
        self,
        theta: Tensor,
        clients: Sequence[int],
        *,
        largest: int,
        scored: Sequence[NDArray[np.bool_]] | None,
        tune: Tune | None,
    ) -> list[ClientScores]:
        """Scores of hypotheses theta [k, n] on each of these clients.

        `largest`: the hypothesis for clients with one row; `scored`: by client, which of its rows
        are [rows]. `tune`: where clients are scored by models of their own.
        """
        found = []
        for place, (values, guesses) in enumerate(self._tables(theta, clients)):
            own = None if scored is None else torch.from_numpy(scored[place])
            scores = score(
                self._loss,
                values[..., None, None],
                count=torch.full((1, 1), float(values.shape[1])),
                scored=None if own is None else own[:, None, None],
                largest=torch.tensor([largest]),
            )
            if tune is None or own is None:
                guessed = scores.of_chosen(guesses[..., None, None]).flatten()
                valued = scores.of_chosen(values[..., None, None]).flatten()
            else:
                chosen = 0 if scores.chosen is None else int(scores.chosen[0])
                self._network.load(theta[chosen])
                tune(clients[place], np.flatnonzero(~own.numpy()))
                valued, guessed = self._table(clients[place])
                scores = self._personal(scores, valued, own)
            found.append(
                ClientScores(
                    selection_loss=scores.selection_loss.item(),
                    validation_loss=scores.validation_loss.item(),
                    predictions=guessed.numpy(),
                    values=valued.numpy(),
                    hypotheses=None if scores.chosen is None else scores.chosen.flatten().numpy(),
                )
            )
        return found

    def _personal(self, scores: Scores, values: Tensor, scored: Tensor) -> Scores:
        """The scores of a client's own model by its rows' values; `scored` bool, both [rows]."""
        loss = self._loss.client_loss(values[scored].mean()).reshape(1, 1)
        return replace(scores, selection_loss=loss, validation_loss=loss)

    def _tables(self, theta: Tensor, clients: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        """By client, on the host: values of its rows, float64 [k, rows], and their predictions."""
        found = []
        for client in clients:
            shape = len(theta), self._data.rows(client)
            values = torch.zeros(shape, dtype=torch.float64)
            found.append((values, torch.from_numpy(np.zeros(shape, dtype=self._kind))))
        for j, hypothesis in enumerate(theta):
            self._network.load(hypothesis)
            for (values, guesses), client in zip(found, clients, strict=True):
                values[j], guesses[j] = self._table(client)
        return found

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

    @property
    def _kind(self) -> type[np.int64] | type[np.float32]:
        """What predictions are: class indices, or numbers."""
        return np.int64 if self._loss.classes else np.float32

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
