"""Rounds computed length class by length class, for clients with very different numbers of rows.

A class is padded to its own longest client, so a round costs what its rows cost. Everything runs on
one thread: what a long sum adds up in which order depends on how many there are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.stacked_network import BatchedNetwork
from fedaudit.reproducible import one_thread
from fedaudit.training.base.cell import Cell, LengthClass, Splits, length_classes
from fedaudit.training.base.scored_rows import RowPlaces, ScoredRows
from fedaudit.training.methods import training_method
from fedaudit.training.stacked.clients import (
    Lanes,
    StackData,
    lane_rows,
    own_hypotheses,
    with_scored,
)
from fedaudit.training.stacked.stack_round import (
    Cohort,
    Engine,
    Learned,
    Learner,
    RoundResult,
    trims_lanes,
)
from fedaudit.training.stacked.validation import Figures, Measure, flat_figures, scored_rows

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
        self.learner = learner = Learner(own)
        personal = training_method(cell.spec.training).personal_steps
        self.measure = Measure(learner.network, learner.loss, personal)
        self._federation, self._device, self._trims = cell.federation, device, trims_lanes(own)
        self._data: StackData | None = None
        """Not kept where it is too large."""
        if not cell.federation.is_large:
            self._data = StackData([own], device, trims=self._trims)
        self.clients, self.rows = one.clients, one.rows
        numbers = own.federation.width + own.shape.activations * own.spec.training.hypotheses
        self._together = max(1, _NUMBERS_TOGETHER // (one.rows * numbers))
        if isinstance(learner.network, BatchedNetwork):
            learner.network.rows_at_once = max(1, _NUMBERS_TOGETHER // numbers)

    @property
    def keeps_lanes(self) -> bool:
        """Whether the lanes of clients may be kept from one round to the next."""
        return self._data is not None

    def lanes(self, places: NDArray[np.int64]) -> Lanes:
        """The rows of the clients at `places`, as those of one cell."""
        if self._data is not None:
            return self._data.lanes(places[None])
        federation, clients = self._federation, self.clients[places]
        counts, width = federation.counts[clients], federation.width
        rows = lane_rows(int(counts.max()), trims=True) if self._trims else self.rows
        packed = np.zeros((width + 2, rows, len(clients)), dtype=np.float32)
        place = federation.rows_of(clients)
        lane = np.repeat(np.arange(len(clients)), counts)
        turn = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        packed[:width, turn, lane] = federation.side_by_side[place].T
        packed[width, turn, lane] = federation.target[place]
        packed[width + 1, turn, lane] = 1
        taken = torch.from_numpy(packed).to(self._device)[:, :, None]
        count = torch.from_numpy(counts.astype(np.float32))[None].to(self._device)
        return Lanes(features=taken[:-2], target=taken[-2], mask=taken[-1], count=count)

    def chunks(self, members: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The members, as many at a time as are computed together."""
        for start in range(0, len(members), self._together):
            yield members[start : start + self._together]


@dataclass(frozen=True)
class _Chunk:
    """Some of the clients that are scored, computed together."""

    part: LengthPart
    places: NDArray[np.int64]
    """[clients]: in their length class."""
    members: NDArray[np.int64]
    """[clients]: their places among all that are scored."""
    rows: NDArray[np.int64]
    """The places of their rows among the rows of all, client after client."""
    scored: NDArray[np.bool_] | None
    """[1, clients, rows]: which of them are scored; None for all."""
    kept: Lanes | None

    def lanes(self) -> Lanes:
        """Their data, read anew where they are too large to be kept."""
        if self.kept is not None:
            return self.kept
        return with_scored(self.part.lanes(self.places), self.scored)


class ByLength(Engine):
    """Plays and scores the rounds of one cell, one round at a time."""

    def __init__(self, cells: Sequence[Cell], splits: Splits, device: torch.device) -> None:
        super().__init__(cells, splits, device)
        federation = cells[0].federation
        classes = length_classes(federation.counts)
        self._parts = [LengthPart(cells[0], one, device) for one in classes]
        self._part_of = np.zeros(federation.clients, dtype=np.int64)
        self._place_of = np.zeros(federation.clients, dtype=np.int64)
        for number, one in enumerate(classes):
            self._part_of[one.clients] = number
            self._place_of[one.clients] = np.arange(len(one.clients))
        self._kept: tuple[NDArray[np.int64], RowPlaces, list[_Chunk]] | None = None
        """The clients that were scored last: the next call often asks for the same."""

    def play(
        self,
        theta: Tensor,
        cohorts: Sequence[Cohort],
        clips: NDArray[np.float64] | None,
        moments: Tensor | None,
    ) -> list[RoundResult]:
        (cohort,) = cohorts
        with one_thread():
            found = self._collect(theta, cohort, self._learn(theta, cohort), clips)
            return [self._moved(found, moments)]

    def _learn(self, theta: Tensor, cohort: Cohort) -> Learned:
        """What the clients of a cohort make of the hypotheses.

        Those who may not take part, or only fill the places of a round with coins, learn nothing.
        """
        clients = cohort.clients[0]
        chosen = torch.zeros(1, len(clients), dtype=torch.int64, device=theta.device)
        updated = theta[:, :1].repeat(1, len(clients), 1)
        if self._parts[0].learner.weighting is not None:
            updated = torch.nn.functional.pad(updated, (0, 1))
        parts, batches = (
            np.where(cohort.allowed[0], self._part_of[clients], -1),
            self._draws.source(1),
        )
        for number, part in enumerate(self._parts):
            for own in part.chunks(np.flatnonzero(parts == number)):
                found = part.learner.learn(
                    theta,
                    part.lanes(self._place_of[clients[own]]),
                    batches=batches,
                    rounds=cohort.rounds,
                    clients=clients[own][None],
                )
                index = torch.from_numpy(own).to(theta.device)
                chosen[0, index], updated[0, index] = found.chosen[0], found.updated[0]
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
        (own,), k = clients, theta.shape[1]
        with one_thread():
            if self._kept is None or not np.array_equal(self._kept[0], own):
                rows = self._counter.rows(own)
                self._kept = own.copy(), rows, list(self._chunks(own, rows))
            _, places, chunks = self._kept
            losses, size = np.zeros((2, len(own))), len(places.place)
            predictions: NDArray[np.generic] = np.zeros(size)
            logits: NDArray[np.float32] | None = None
            values, hypotheses = np.zeros(size), np.zeros(size, dtype=np.int64)
            for number, chunk in enumerate(chunks):
                lanes = chunk.lanes()
                found = chunk.part.measure(theta, lanes, sizes.argmax(-1), tuned=tuned)
                of_clients = found.scores.selection_loss[0], found.scores.validation_loss[0]
                losses[:, chunk.members] = [loss.cpu().numpy() for loss in of_clients]
                scored = scored_rows(found, lanes)
                if not number:
                    predictions = np.zeros(size, dtype=scored.predictions.dtype)
                    if scored.logits is not None:
                        logits = np.zeros(size, dtype=scored.logits.dtype)
                if logits is not None:
                    logits[chunk.rows] = scored.logits
                predictions[chunk.rows], values[chunk.rows] = scored.predictions, scored.values
                if scored.hypotheses is not None:
                    hypotheses[chunk.rows] = scored.hypotheses
            of_rows = self._splits.scored_rows(own, 0)
            return flat_figures(
                self._counter,
                ScoredRows(predictions, logits, values, hypotheses if k > 1 else None, of_rows),
                places,
                selection_loss=np.array([losses[0].mean()]),
                validation_loss=np.array([losses[1].mean()]),
                per_client=per_client,
            )

    def _chunks(self, clients: NDArray[np.int64], rows: RowPlaces) -> Iterator[_Chunk]:
        of_clients, parts, places = rows.by_client, self._part_of[clients], self._place_of[clients]
        for number, part in enumerate(self._parts):
            for members in part.chunks(np.flatnonzero(parts == number)):
                scored = self._splits.scored(clients[members][None], [0], rows=part.rows)
                own = [
                    np.arange(one.start, one.stop) for one in map(of_clients.__getitem__, members)
                ]
                chunk = _Chunk(part, places[members], members, np.concatenate(own), scored, None)
                yield replace(chunk, kept=chunk.lanes()) if part.keeps_lanes else chunk
