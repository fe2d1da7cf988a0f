"""The clients of one length class: what they learn, and how hypotheses do on their rows."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.cell_by_cell import CellByCell
from fedaudit.randomness import Source
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.length_classes import LengthClass
from fedaudit.training.by_length.gathered_lanes import GatheredLanes
from fedaudit.training.methods.training_method import LossWeighting
from fedaudit.training.stacked.client_tensors import Lanes, StackData
from fedaudit.training.stacked.evaluation import Evaluation
from fedaudit.training.stacked.hypothesis_choice import (
    choose_hypotheses,
    client_losses,
    own_hypotheses,
)
from fedaudit.training.stacked.local_update import LocalUpdate
from fedaudit.training.stacked.round_method import (
    build_loss,
    build_network,
    personal_steps,
    trims_lanes,
)
from fedaudit.training.stacked.validation import Measure

_NUMBERS_TOGETHER = 1 << 19
"""Inputs and activations that are computed at once, of as many clients or of some rows of one:
beyond, temporaries leave the cache."""


class LengthPart:
    """Clients of about the same length, side by side and padded to the longest of them.

    A client's place is its place in the class. How many are computed at once follows from the spec
    and the data alone, so a round's figures are the same wherever and whenever it is played.
    """

    def __init__(self, cell: Cell, one: LengthClass, device: torch.device) -> None:
        own = replace(cell, federation=cell.federation.of_clients(one.clients))
        self._network, self._loss = build_network(own), build_loss(own)
        self._measure = Measure(self._network, self._loss, personal_steps(cell))
        self._update = LocalUpdate(
            self._network, self._loss, own.spec.training.local, rows=one.rows
        )
        trims = trims_lanes(own)
        self._data: StackData | GatheredLanes = (
            GatheredLanes(cell.federation, one, device, trims=trims)
            if cell.federation.is_large
            else StackData([own], device, trims=trims)
        )
        self.keeps_lanes = not cell.federation.is_large
        """Whether the lanes of clients may be kept from one round to the next."""
        self.clients, self.rows = one.clients, one.rows
        numbers = own.federation.width + own.shape.activations * own.spec.training.hypotheses
        self._together = max(1, _NUMBERS_TOGETHER // (one.rows * numbers))
        if isinstance(self._network, CellByCell):
            self._network.rows_at_once = max(1, _NUMBERS_TOGETHER // numbers)

    def learn(
        self,
        theta: Tensor,
        places: NDArray[np.int64],
        *,
        source: Source,
        rounds: NDArray[np.int64],
        weighting: LossWeighting | None,
    ) -> tuple[Tensor, Tensor]:
        """The hypotheses [k, n] that clients at `places` choose, int64 [clients], and what they
        make of them, [clients, n], or with a weighting [clients, n + 1].

        `rounds` [1]; `source` is that of a stack of one.
        """
        chosen, updated = [], []
        for part in self.chunks(places):
            lanes = self.lanes(part)
            chosen.append(choose_hypotheses(self._network, theta[None], lanes, self._loss))
            start = own_hypotheses(theta[None], chosen[-1])
            clients = self.clients[part][None]
            own = self._update(start, lanes, source=source, rounds=rounds, clients=clients)
            if weighting is not None:
                losses = client_losses(self._network, theta[None], lanes, self._loss)[0]
                own = weighting.weigh(start, own, losses)
            updated.append(own)
        return torch.cat(chosen, 1)[0], torch.cat(updated, 1)[0]

    def lanes(self, places: NDArray[np.int64]) -> Lanes:
        """The rows of the clients at `places`, as those of one cell."""
        return self._data.lanes(places[None])

    def evaluate(self, theta: Tensor, lanes: Lanes, largest: Tensor, *, tuned: bool) -> Evaluation:
        """Scores hypotheses theta [k, n]; `largest` [1] and `tuned` as in `Measure`."""
        return self._measure(theta[None], lanes, largest, tuned=tuned)

    def chunks(self, places: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The places, as many at a time as are computed together."""
        for start in range(0, len(places), self._together):
            yield places[start : start + self._together]
