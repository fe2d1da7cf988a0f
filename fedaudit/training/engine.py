"""The ordinary engine, that of uneven clients, the choice of one, and what identifies the machine.

Clients with very different numbers of rows are computed length class by length class. A class is
padded to its own longest client, so a round costs what its rows cost. Everything runs on one
thread: what a long sum adds up in which order depends on how many there are.
"""

import math
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.native.library import kernels
from fedaudit.networks.stacked_network import SmallDenseNetwork
from fedaudit.reproducible import fixed_order_sum, one_thread, padded_rows
from fedaudit.spec.models import DEFAULT_SCHEDULE
from fedaudit.training.base.cell import (
    Cell,
    LengthClass,
    Splits,
    cells_apart,
    expected_cohort,
    is_by_length,
    is_client_by_client,
    length_classes,
    stands_alone,
)
from fedaudit.training.base.cohort import rounds_together
from fedaudit.training.base.scored_rows import RowPlaces, ScoredRows
from fedaudit.training.one_by_one import ClientByClient
from fedaudit.training.personalised import RecordByRecord
from fedaudit.training.stacked.clients import (
    Lanes,
    StackData,
    compiled_clients,
    own_hypotheses,
    packed_rows,
    whole_data,
    with_scored,
)
from fedaudit.training.stacked.stack_round import (
    Cohort,
    Engine,
    Learned,
    Learner,
    RoundResult,
    Scoring,
)
from fedaudit.training.stacked.validation import (
    Evaluation,
    Figures,
    flat_figures,
    joined_figures,
    scored_rows,
)

_NUMBERS_TOGETHER = 1 << 21
"""Numbers of as many clients as are computed at once: beyond, temporaries leave the cache."""


class LengthPart:
    """Clients of about the same length, side by side and padded to the longest of them.

    A client's place is its place in the class. How many are computed at once follows from the spec
    and the data alone, so a round's figures are the same wherever and whenever it is played.
    """

    def __init__(self, cell: Cell, one: LengthClass, device: torch.device) -> None:
        # The features of large data stay where they are.
        known = replace(cell.federation, is_outline=cell.federation.is_large)
        own = replace(cell, federation=known.of_rows(known.rows_of(one.clients)))
        self.learner = Learner(own)
        self._federation, self._device = cell.federation, device
        self.data: StackData | None = None
        """Not kept where it is too large, and so are no lanes from one round to the next."""
        if not cell.federation.is_large:
            self.data = StackData([own], device)
        self.clients, self.rows = one.clients, one.rows
        numbers = own.federation.width + own.shape.activations * own.spec.training.hypotheses
        if isinstance(self.learner.network, SmallDenseNetwork):
            numbers = max(numbers, own.shape.n)  # A product for each parameter and row.
        self._together = max(1, _NUMBERS_TOGETHER // (one.rows * numbers))

    def lanes(self, places: Ints) -> Lanes:
        """The rows of the clients at `places`, as those of one cell."""
        if self.data is not None:
            return self.data.lanes(places[None])
        federation, clients = self._federation, self.clients[places]
        counts = federation.counts[clients]
        packed = packed_rows(federation, clients, rows=padded_rows(int(counts.max())))
        taken = torch.from_numpy(packed).to(self._device)[:, :, None]
        count = torch.from_numpy(counts.astype(np.float32))[None].to(self._device)
        return Lanes(features=taken[:-2], target=taken[-2], mask=taken[-1], count=count)

    def chunks(self, members: Ints) -> Iterator[Ints]:
        """The members, as many at a time as are computed together."""
        for start in range(0, len(members), self._together):
            yield members[start : start + self._together]


@dataclass(frozen=True)
class _Chunk:
    """Some of the clients that are scored, computed together."""

    part: LengthPart
    places: Ints
    """[clients]: in their length class."""
    members: Ints
    """[clients]: their places among all that are scored."""
    rows: Ints
    """The places of their rows among the rows of all, client after client."""
    scored: Bools | None
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
        self._kept: tuple[Ints, RowPlaces, list[_Chunk]] | None = None
        """The clients that were scored last: the next call often asks for the same."""

    def play(
        self, theta: Tensor, cohorts: Sequence[Cohort], clips: Floats | None, moments: Tensor | None
    ) -> list[RoundResult]:
        (cohort,) = cohorts
        with one_thread():
            found = self._collect(theta, cohort, [self._learn(theta, cohort)], clips)
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
        parts = np.where(cohort.allowed[0], self._part_of[clients], -1)
        batches = self._draws.source(1)
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

    def score(self, asked: Scoring, *, per_client: bool = False) -> Figures:
        (own,), theta = asked.clients, asked.theta
        with one_thread():
            if self._kept is None or not np.array_equal(self._kept[0], own):
                rows = self._counter.rows(own)
                self._kept = own.copy(), rows, list(self._chunks(own, rows))
            _, places, chunks = self._kept
            losses, parts = np.zeros((2, len(own))), list[ScoredRows]()
            for chunk in chunks:
                lanes, largest = chunk.lanes(), asked.sizes.argmax(-1)
                found = chunk.part.learner.measure(theta, lanes, largest, tuned=asked.tuned)
                of_clients = found.scores.selection_loss[0], found.scores.validation_loss[0]
                losses[:, chunk.members] = [loss.cpu().numpy() for loss in of_clients]
                parts.append(scored_rows(found, lanes, self._loss))
            order = np.argsort(np.concatenate([chunk.rows for chunk in chunks]))
            selection, validation = _means(torch.from_numpy(losses)[:, None]).numpy()
            return flat_figures(
                self._counter,
                replace(_joined(parts, order), scored=self._splits.scored_rows(own, 0)),
                places,
                (selection, validation),
                per_client=per_client,
            )

    def _chunks(self, clients: Ints, rows: RowPlaces) -> Iterator[_Chunk]:
        of_clients, parts, places = rows.by_client, self._part_of[clients], self._place_of[clients]
        for number, part in enumerate(self._parts):
            for members in part.chunks(np.flatnonzero(parts == number)):
                scored = self._splits.scored(clients[members][None], [0], rows=part.rows)
                own = [
                    np.arange(one.start, one.stop) for one in map(of_clients.__getitem__, members)
                ]
                chunk = _Chunk(part, places[members], members, np.concatenate(own), scored, None)
                yield replace(chunk, kept=chunk.lanes()) if part.data is not None else chunk


def _joined(parts: Sequence[ScoredRows], order: Ints) -> ScoredRows:
    """The rows of all parts in this order."""
    joined: dict[str, Any] = {}
    for name in vars(parts[0]):
        found = [getattr(part, name) for part in parts]
        joined[name] = None if found[0] is None else np.concatenate(found)[order]
    return ScoredRows(**joined)


def _means(losses: Tensor) -> Tensor:
    """Means over clients, the last axis, with the same digits in all layouts."""
    return fixed_order_sum(losses, -1) / losses.shape[-1]


_MAX_ELEMENTS = 1 << 18  # outputs at a time: beyond, temporaries leave the cache


class SideBySide(Engine):
    """The ordinary engine: all clients of all cells at once, on padded lanes."""

    def __init__(self, cells: Sequence[Cell], splits: Splits, device: torch.device) -> None:
        super().__init__(cells, splits, device)
        first = cells[0]
        self._longest = first.federation.longest
        self._data = StackData(cells, device)
        self._learner = learner = Learner(first)
        self._compiled = compiled_clients(learner.network, learner.loss, self._data)
        local = first.spec.training.local
        # Kernels take plain steps, as long in every round, each on all of a client's rows.
        plainly = local.descends_plainly and local.schedule == DEFAULT_SCHEDULE
        self._has_kernel = plainly and whole_data(local, self._longest)
        self._kept: dict[int, tuple[Ints, Lanes]] = {}
        """The data of the clients that were scored last: the next call often asks for the same."""

    def rounds_together(self, cells: int) -> int:
        one = self._cells[0]
        rows = math.ceil(expected_cohort(one)) * self._longest
        return rounds_together(cells=cells, elements=cells * rows * one.federation.width)

    def play(
        self, theta: Tensor, cohorts: Sequence[Cohort], clips: Floats | None, moments: Tensor | None
    ) -> list[RoundResult]:
        columns = [self._data.columns(cohort.clients, self._positions) for cohort in cohorts]
        learns, played = self._learns(columns), []
        for step, cohort in enumerate(cohorts):
            found = self._collect(theta, cohort, [learns(step, theta, cohort)], clips)
            played.append(self._moved(found, moments))
            theta, clips, moments = played[-1].hypotheses, played[-1].clips, played[-1].moments
        return played

    def _learns(self, columns: Sequence[Ints]) -> Callable[[int, Tensor, Cohort], Learned]:
        """What clients learn in a step of the rounds whose cohorts are at these columns."""
        learner, compiled = self._learner, self._compiled
        if compiled is not None and self._has_kernel and learner.weighting is None:
            local = self._cells[0].spec.training.local
            return lambda step, theta, _: Learned(*compiled.learn(theta, columns[step], local))
        # All of them before the first round: one kind of work at a time stays in the cache.
        lanes, batches = [self._data.lanes(own) for own in columns], self._draws.source(1)
        return lambda step, theta, cohort: learner.learn(
            theta, lanes[step], batches=batches, rounds=cohort.rounds, clients=cohort.clients
        )

    def score(self, asked: Scoring, *, per_client: bool = False) -> Figures:
        columns = self._data.columns(asked.clients, asked.positions)
        scored = self._splits.scored(asked.clients, asked.positions, rows=self._longest)
        plain = self._personal is None and scored is None and not per_client
        if plain and self._compiled is not None:
            # The kernels keep to the cache by themselves.
            selection, validation, predictions = self._compiled.evaluate(
                asked.theta, columns, asked.sizes.argmax(-1), predicts=self._counter.counts_rows
            )
            if predictions is None:
                counts = self._counter.nothing(len(columns))
            else:
                counts = self._counter.count(predictions, columns)
            return Figures(selection, validation, None, counts)
        size = self._data.elements * columns.shape[1] * asked.theta.shape[1]
        step, parts = max(1, _MAX_ELEMENTS // size), []
        for start in range(0, len(columns), step):
            part = slice(start, start + step)
            lanes = self._lanes(columns[part], start)
            if scored is not None:
                lanes = with_scored(lanes, scored[part])
            largest = asked.sizes[part].argmax(-1)
            found = self._learner.measure(asked.theta[part], lanes, largest, tuned=asked.tuned)
            parts.append(self._figures(found, lanes, columns[part], per_client))
        return parts[0] if len(parts) == 1 else joined_figures(parts)

    def _figures(self, found: Evaluation, lanes: Lanes, columns: Ints, per_client: bool) -> Figures:
        of_clients = found.scores.selection_loss, found.scores.validation_loss
        selection, validation = _means(torch.stack(of_clients)).cpu().numpy()
        if per_client:
            rows, places = scored_rows(found, lanes, self._loss), self._counter.rows(columns[0])
            losses = selection, validation
            return flat_figures(self._counter, rows, places, losses, per_client=True)
        predictions, accuracy = self._loss.predictions(found.answers), None
        if self._loss.classes:
            counted, rows_of_cells = lanes.mask > 0, lanes.count.double().sum(-1)
            if lanes.scored is not None:
                counted, rows_of_cells = lanes.scored, lanes.scored.sum((0, 2)).double()
            right = ((predictions == lanes.target) & counted).sum((0, 2)).double()
            accuracy = (right / rows_of_cells).cpu().numpy()
        counts = self._counter.count(
            predictions.permute(1, 2, 0).cpu().numpy(),
            columns,
            scored=None if lanes.scored is None else lanes.scored.permute(1, 2, 0).cpu().numpy(),
        )
        return Figures(selection, validation, accuracy, counts)

    def _lanes(self, columns: Ints, start: int) -> Lanes:
        kept = self._kept.get(start)
        if kept is None or not np.array_equal(kept[0], columns):
            kept = self._kept[start] = columns, self._data.lanes(columns)
        return kept[1]


def build_engines(
    cells: Sequence[Cell], splits: Splits, device: torch.device
) -> tuple[Engine, Engine]:
    """The engine that plays rounds and that which scores them: one and the same, unless rows are
    held out of clients whose updates are protected.

    Record by record where these have budgets, client by client where rows are wide, by length where
    they are uneven, otherwise side by side. Raises ValueError for several cells of the first three
    kinds.
    """
    if len(cells) > 1 and stands_alone(cells[0]):
        raise ValueError("a cell whose clients are not side by side is trained in a stack of one")
    if cells[0].spec.privacy.draws_by_record:
        by_record = RecordByRecord(cells, splits, device)
        return by_record, by_record
    kind: type[Engine] = SideBySide
    if is_client_by_client(cells[0]):
        kind = ClientByClient
    elif is_by_length(cells[0]):
        kind = ByLength
    taught, scored = cells_apart(cells)
    player = kind(taught, splits, device)
    same = not cells[0].spec.federation.holds_out_rows
    return player, player if same else kind(scored, splits, device)


def backend(device: str = "cpu") -> dict[str, str]:
    """The torch build, the device, the processor's vector instructions, and whether the compiled
    kernels or the fallback did what either can."""
    name = platform.machine()
    if torch.device(device).type == "cuda":
        name = torch.cuda.get_device_name(torch.device(device))
    return {
        "torch": torch.__version__,
        "device_type": torch.device(device).type,
        "device_name": name,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "kernels": "fallback" if kernels() is None else "compiled",
    }
