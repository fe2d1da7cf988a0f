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

from fedaudit.federations.federation import Federation
from fedaudit.networks.stacked_network import BatchedNetwork
from fedaudit.randomness import Source
from fedaudit.reproducible import one_thread
from fedaudit.training.base.cell import Cell, LengthClass, Splits, length_classes
from fedaudit.training.base.scored_rows import GroupCounter, RowPlaces, ScoredRows
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
from fedaudit.training.stacked.validation import (
    Evaluation,
    Figures,
    Measure,
    flat_figures,
    scored_rows,
)


class GatheredLanes:
    """The clients of a length class as `StackData` gives them; nothing of them is kept."""

    def __init__(
        self, federation: Federation, one: LengthClass, device: torch.device, *, trims: bool
    ) -> None:
        """With `trims`, lanes are cut to the rows that their longest client needs."""
        self._federation = federation
        self._class = one
        self._device = device
        self._trims = trims

    def lanes(self, places: NDArray[np.int64]) -> Lanes:
        """The data of the clients at places [1, clients] of the class."""
        federation, clients = self._federation, self._class.clients[places[0]]
        counts, width = federation.counts[clients], federation.width
        rows = lane_rows(int(counts.max()), trims=True) if self._trims else self._class.rows
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
        self._measure = Measure(learner.network, learner.loss, personal)
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
        if isinstance(learner.network, BatchedNetwork):
            learner.network.rows_at_once = max(1, _NUMBERS_TOGETHER // numbers)

    def learn(
        self,
        theta: Tensor,
        places: NDArray[np.int64],
        *,
        batches: Source,
        rounds: NDArray[np.int64],
    ) -> tuple[Tensor, Tensor]:
        """The hypotheses [1, k, n] that clients at `places` choose, int64 [clients], and what they
        make of them, [clients, n], or with a weighting [clients, n + 1].

        `rounds` [1]; `batches` is the source of a stack of one.
        """
        found = [
            self.learner.learn(
                theta,
                self.lanes(part),
                batches=batches,
                rounds=rounds,
                clients=self.clients[part][None],
            )
            for part in self.chunks(places)
        ]
        chosen, updated = [one.chosen for one in found], [one.updated for one in found]
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


@dataclass(frozen=True)
class _Scored:
    """Clients that are scored; kept for the next call, which often asks for the same."""

    clients: NDArray[np.int64]
    places: RowPlaces
    scored: NDArray[np.bool_] | None
    chunks: list[_Chunk]


class LengthValidator:
    """Measures hypotheses on the rows of one cell's clients."""

    def __init__(self, parts: Sequence[LengthPart], counter: GroupCounter, splits: Splits) -> None:
        self._parts = parts
        self._counter = counter
        self._splits = splits
        self._kept: _Scored | None = None

    def score(
        self,
        theta: Tensor,
        clients: NDArray[np.int64],
        *,
        parts: NDArray[np.int64],
        places: NDArray[np.int64],
        largest: Tensor,
        per_client: bool,
        tuned: bool,
    ) -> Figures:
        """Figures of hypotheses theta [k, n] on clients [clients].

        `parts` and `places` [clients]: the length class of each, and its place there. `largest`
        int64 [1]: the hypothesis for clients with one row; `tuned` as in `Measure`.
        """
        if self._kept is None or not np.array_equal(self._kept.clients, clients):
            self._kept = self._scored(clients, parts, places)
        kept = self._kept
        selection, validation = np.zeros(len(clients)), np.zeros(len(clients))
        size = len(kept.places.place)
        predictions: NDArray[np.generic] = np.zeros(size)
        values, hypotheses = np.zeros(size), np.zeros(size, dtype=np.int64)
        for number, chunk in enumerate(kept.chunks):
            lanes = chunk.lanes()
            evaluation = chunk.part.evaluate(theta, lanes, largest, tuned=tuned)
            selection[chunk.members] = evaluation.scores.selection_loss[0].cpu().numpy()
            validation[chunk.members] = evaluation.scores.validation_loss[0].cpu().numpy()
            rows = scored_rows(evaluation, lanes)
            if not number:
                predictions = np.zeros(size, dtype=rows.predictions.dtype)
            predictions[chunk.rows], values[chunk.rows] = rows.predictions, rows.values
            if rows.hypotheses is not None:
                hypotheses[chunk.rows] = rows.hypotheses
        return flat_figures(
            self._counter,
            ScoredRows(predictions, values, hypotheses if len(theta) > 1 else None, kept.scored),
            kept.places,
            selection_loss=np.array([selection.mean()]),
            validation_loss=np.array([validation.mean()]),
            k=len(theta),
            per_client=per_client,
        )

    def _scored(
        self, clients: NDArray[np.int64], parts: NDArray[np.int64], places: NDArray[np.int64]
    ) -> _Scored:
        rows = self._counter.rows(clients)
        chunks = list(self._chunks(clients, rows, parts, places))
        return _Scored(clients.copy(), rows, self._splits.scored_rows(clients, 0), chunks)

    def _chunks(
        self,
        clients: NDArray[np.int64],
        rows: RowPlaces,
        parts: NDArray[np.int64],
        places: NDArray[np.int64],
    ) -> Iterator[_Chunk]:
        of_clients = rows.by_client
        for number, part in enumerate(self._parts):
            for members in part.chunks(np.flatnonzero(parts == number)):
                scored = self._splits.scored(clients[members][None], [0], rows=part.rows)
                own = [
                    np.arange(rows.start, rows.stop)
                    for rows in map(of_clients.__getitem__, members)
                ]
                chunk = _Chunk(part, places[members], members, np.concatenate(own), scored, None)
                yield replace(chunk, kept=chunk.lanes()) if part.keeps_lanes else chunk


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
        self._validator = LengthValidator(self._parts, self._counter, splits)

    def play(
        self, theta: Tensor, cohorts: Sequence[Cohort], clips: NDArray[np.float64] | None
    ) -> list[RoundResult]:
        (cohort,) = cohorts
        with one_thread():
            return [self._collect(theta, cohort, self._learn(theta, cohort), clips)]

    def _learn(self, theta: Tensor, cohort: Cohort) -> Learned:
        """What the clients of a cohort make of the hypotheses.

        Those who may not take part, or only fill the places of a round with coins, learn nothing.
        """
        clients = cohort.clients[0]
        chosen = torch.zeros(1, len(clients), dtype=torch.int64, device=theta.device)
        updated = theta[:, :1].repeat(1, len(clients), 1)
        if self._parts[0].learner.weighting is not None:
            updated = torch.nn.functional.pad(updated, (0, 1))
        parts = np.where(cohort.allowed[0], self._part_of[clients], -1)
        for number, part in enumerate(self._parts):
            own = np.flatnonzero(parts == number)
            if len(own):
                index = torch.from_numpy(own).to(theta.device)
                chosen[0, index], updated[0, index] = part.learn(
                    theta,
                    self._place_of[clients[own]],
                    batches=self._draws.source(1),
                    rounds=cohort.rounds,
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
