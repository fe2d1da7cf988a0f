"""What clients compute by themselves, one after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.client_network import ClientNetwork
from fedaudit.training.base.cell import Cell
from fedaudit.training.methods.method_choice import training_method
from fedaudit.training.one_by_one.client_data import ClientData
from fedaudit.training.one_by_one.client_scores import ClientScorer, ClientScores
from fedaudit.training.one_by_one.client_update import ClientUpdate
from fedaudit.training.stacked.round_method import build_draws, build_loss, personal_steps


class OwnClients:
    """Computes clients, each from the hypotheses that were given last; on one thread."""

    def __init__(self, cell: Cell, device: torch.device) -> None:
        loss, data = build_loss(cell), ClientData(cell.federation, device)
        self._network = ClientNetwork(cell.shape, device)
        self._update = ClientUpdate(self._network, loss, cell.spec.training.local, data)
        self._scorer = ClientScorer(self._network, loss, data)
        self._draws = build_draws([cell])
        self._weighting = training_method(cell.spec.training).weighting
        self._personal = personal_steps(cell)
        self._theta: Tensor

    def start_from(self, theta: Tensor) -> None:
        """Takes hypotheses [k, n], which do not change until the next are given."""
        self._theta = theta

    def choose(self, clients: Sequence[int]) -> list[int]:
        """The hypothesis with the smallest loss on each client's rows."""
        return self._scorer.best(self._theta, clients)

    def learn(
        self, clients: Sequence[int], chosen: Sequence[int], *, round_: int
    ) -> Iterator[Tensor]:
        """What each client makes of the hypothesis that it chose, in their order.

        [n], or [n + 1] where clients weight what they send; good until the next.
        """
        for client, hypothesis in zip(clients, chosen, strict=True):
            start = self._theta[hypothesis]
            self._network.load(start)
            self._update(client, source=self._draws.source(), round_=round_)
            yield self._learned(client, start)

    def _learned(self, client: int, start: Tensor) -> Tensor:
        """What the client makes of its update of `start` [n], which the network holds, to send."""
        updated = self._network.theta
        if self._weighting is None:
            return updated
        updated = updated.clone()
        loss = self._scorer.loss(start, client)
        return self._weighting.weigh(start[None, None], updated[None, None], loss[None, None])[0, 0]

    def score(
        self,
        clients: Sequence[int],
        *,
        largest: int,
        scored: Sequence[NDArray[np.bool_]] | None,
        tuned: bool,
    ) -> list[ClientScores]:
        """Scores on held-out clients, in their order.

        `largest` and `scored` as in `ClientScorer.score`; `tuned` as in `Measure`.
        """
        personal = self._personal
        if personal is not None and not tuned:
            personal = replace(personal, steps=0)
        tune = None if personal is None else partial(self._update.tune, personal=personal)
        return self._scorer.score(self._theta, clients, largest=largest, scored=scored, tune=tune)
