"""Rounds computed length class by length class, for clients with very different numbers of rows.

A class is padded to its own longest client, so a round costs what its rows cost. Everything runs on
one thread: what a long sum adds up in which order depends on how many there are.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.reproducible import one_thread
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.cohort import Block
from fedaudit.training.base.group_counts import GroupCounter
from fedaudit.training.base.length_classes import length_classes
from fedaudit.training.base.planted import of_updates
from fedaudit.training.base.splits import Splits
from fedaudit.training.by_length.length_part import LengthPart
from fedaudit.training.by_length.length_validation import LengthValidator
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.methods.method_choice import training_method
from fedaudit.training.stacked.hypothesis_choice import own_hypotheses
from fedaudit.training.stacked.round_method import build_draws, build_server, rounds_worth_drawing
from fedaudit.training.stacked.stack_round import Cohort, Learned, RoundResult, collect
from fedaudit.training.stacked.validation import Figures


class ByLength:
    """Plays and scores the rounds of one cell; an `Engine`."""

    def __init__(self, cell: Cell, splits: Splits, device: torch.device) -> None:
        federation = cell.federation
        classes = length_classes(federation.counts)
        self._cell = cell
        self._parts = [LengthPart(cell, one, device) for one in classes]
        self._part_of = np.zeros(federation.clients, dtype=np.int64)
        self._place_of = np.zeros(federation.clients, dtype=np.int64)
        for number, one in enumerate(classes):
            self._part_of[one.clients] = number
            self._place_of[one.clients] = np.arange(len(one.clients))
        counter = GroupCounter([federation], cell.spec.fairness)
        self._validator = LengthValidator(self._parts, counter, splits)
        self._protection = build_protection([cell], device)
        self._server = build_server(cell)
        self._weighting = training_method(cell.spec.training).weighting
        self._draws = build_draws([cell])
        self._planted = of_updates(cell.planted)

    def arrange(self, positions: Sequence[int]) -> None:
        """Nothing: there is one cell."""

    def rounds_ahead(self, cells: int) -> int:
        """Rounds worth drawing at once."""
        n = self._cell.shape.n
        return rounds_worth_drawing(self._protection, self._cell, n=n, cells=cells)

    def rounds_together(self, cells: int) -> int:
        """One: validation of a round is work enough."""
        return 1

    def draw_noise(self, block: Block) -> None:
        """Draws the noise of all rounds of a block, once."""
        self._protection.draw_noise(self._draws, block)

    def play(
        self, theta: Tensor, cohorts: Sequence[Cohort], clips: NDArray[np.float64] | None
    ) -> list[RoundResult]:
        """One round from hypotheses theta [1, k, n]; `clips` [1] of a trusted server."""
        (cohort,) = cohorts
        with one_thread():
            learned = self._learn(theta, cohort)
            found = collect(
                self._protection,
                self._server,
                theta,
                cohort,
                learned,
                clips=clips,
                planted=self._planted,
            )
            return [found]

    def _learn(self, theta: Tensor, cohort: Cohort) -> Learned:
        """What the clients of a cohort make of the hypotheses.

        Those who may not take part, or only fill the places of a round with coins, learn nothing.
        """
        clients = cohort.clients[0]
        chosen = torch.zeros(1, len(clients), dtype=torch.int64, device=theta.device)
        updated = theta[:, :1].repeat(1, len(clients), 1)
        if self._weighting is not None:
            updated = torch.nn.functional.pad(updated, (0, 1))
        parts = np.where(cohort.allowed[0], self._part_of[clients], -1)
        for number, part in enumerate(self._parts):
            own = np.flatnonzero(parts == number)
            if len(own):
                index = torch.from_numpy(own).to(theta.device)
                chosen[0, index], updated[0, index] = part.learn(
                    theta[0],
                    self._place_of[clients[own]],
                    source=self._draws.source(1),
                    rounds=cohort.rounds,
                    weighting=self._weighting,
                )
        return Learned(chosen, own_hypotheses(theta, chosen), updated)

    def score(
        self,
        theta: Tensor,
        clients: NDArray[np.int64],
        positions: Sequence[int],
        sizes: Tensor,
        *,
        per_client: bool = False,
        tuned: bool = True,
    ) -> Figures:
        """Figures of hypotheses theta [1, k, n] on validation clients [1, clients].

        `sizes` [1, k]: uploads in each cluster; `tuned` as in `Measure`.
        """
        own = clients[0]
        with one_thread():
            return self._validator.score(
                theta[0],
                own,
                parts=self._part_of[own],
                places=self._place_of[own],
                largest=sizes.argmax(-1),
                per_client=per_client,
                tuned=tuned,
            )
