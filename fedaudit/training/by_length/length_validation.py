"""Scores on held-out clients, length class by length class."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.training.base.final_groups import ScoredRows
from fedaudit.training.base.group_counts import GroupCounter, RowPlaces
from fedaudit.training.base.splits import Splits
from fedaudit.training.by_length.length_part import LengthPart
from fedaudit.training.stacked.client_tensors import Lanes, with_scored
from fedaudit.training.stacked.flat_figures import flat_figures
from fedaudit.training.stacked.validation import Figures, scored_rows


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
