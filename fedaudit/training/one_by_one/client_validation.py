"""Scores on held-out clients, one client at a time and a few of its rows at once."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.client_network import ClientNetwork
from fedaudit.networks.losses import Loss, predicted_class
from fedaudit.training.base.final_groups import ScoredRows, final_groups
from fedaudit.training.base.group_counts import GroupCounter
from fedaudit.training.one_by_one.client_data import ClientData
from fedaudit.training.stacked.evaluation import score
from fedaudit.training.stacked.hypothesis_choice import without_nan
from fedaudit.training.stacked.validation import Figures


class ClientValidator:
    """Measures hypotheses on clients' rows."""

    def __init__(
        self, network: ClientNetwork, loss: Loss, data: ClientData, counter: GroupCounter
    ) -> None:
        self._network = network
        self._loss = loss
        self._data = data
        self._counter = counter

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
    ) -> Figures:
        """Figures of hypotheses theta [k, n] on clients [clients].

        `largest` int64 []: the hypothesis for clients with one row; `scored` bool [clients, rows].
        """
        values, guesses = self._tables(theta, clients)
        selection, validation, right, rows = [], [], 0, 0
        shape = len(clients), self._data.federation.longest
        predictions = np.zeros(shape, self._kind)
        own_values, hypotheses = np.zeros(shape), np.zeros(shape, dtype=np.int64)
        for place, client in enumerate(clients.tolist()):
            count = values[place].shape[1]
            own = None if scored is None else torch.from_numpy(scored[place, :count])
            scores = score(
                self._loss,
                values[place][..., None, None],
                count=torch.full((1, 1), float(count)),
                scored=None if own is None else own[:, None, None],
                largest=largest.reshape(1),
            )
            selection.append(scores.selection_loss)
            validation.append(scores.validation_loss)
            found = scores.of_chosen(guesses[place][..., None, None]).flatten().numpy()
            predictions[place, :count] = found
            own_values[place, :count] = scores.of_chosen(values[place][..., None, None]).flatten()
            if scores.chosen is not None:
                hypotheses[place, :count] = scores.chosen.flatten()
            hits = found == self._data.federation.target[client, :count]
            right += int(hits.sum() if own is None else hits[own.numpy()].sum())
            rows += count if own is None else int(own.sum())
        final = None
        if per_client and self._counter.attributes:
            scored_rows = ScoredRows(predictions, own_values, hypotheses, scored)
            final = final_groups(self._counter, scored_rows, clients, k=len(theta))
        return Figures(
            selection_loss=torch.cat(selection).mean(0).numpy(),
            validation_loss=torch.cat(validation).mean(0).numpy(),
            accuracy=np.array([right / rows]) if self._loss.classes else None,
            counts=self._counter.count(
                predictions[None],
                clients[None],
                per_client=per_client,
                scored=None if scored is None else scored[None],
            ),
            final=final,
        )

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
                for outputs, target, rows in self._outputs(client):
                    values[place][j, rows] = self._loss.values(outputs, target).double().cpu()
                    guesses[place][j, rows] = self._guess(outputs).cpu()
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
