"""The ordinary engine, the choice of an engine, and what identifies the machine."""

import math
import platform
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.native.library import kernels
from fedaudit.training.base.cell import (
    Cell,
    Splits,
    expected_cohort,
    is_by_length,
    is_client_by_client,
    stands_alone,
)
from fedaudit.training.base.cohort import rounds_together
from fedaudit.training.base.scored_rows import final_groups
from fedaudit.training.by_length import ByLength
from fedaudit.training.one_by_one import ClientByClient
from fedaudit.training.stacked.clients import (
    CompiledClients,
    Lanes,
    StackData,
    compiled_clients,
    has_kernel,
    whole_data,
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
    joined_figures,
    scored_rows,
)

_MAX_ELEMENTS = 1 << 18  # outputs at a time: beyond, temporaries leave the cache


class SideBySide(Engine):
    """The ordinary engine: all clients of all cells at once, on padded lanes."""

    def __init__(self, cells: Sequence[Cell], splits: Splits, device: torch.device) -> None:
        super().__init__(cells, splits, device)
        first = cells[0]
        self._longest = first.federation.longest
        self._data = StackData(cells, device, trims=trims_lanes(first))
        self._learner = learner = Learner(first)
        self._compiled = compiled_clients(learner.network, learner.loss, self._data)
        local = first.spec.training.local
        self._has_kernel = whole_data(local, self._longest) and has_kernel(local)
        self._measure = Measure(learner.network, learner.loss, self._personal)
        self._kept: dict[int, tuple[NDArray[np.int64], Lanes]] = {}
        """The data of the clients that were scored last: the next call often asks for the same."""

    def rounds_together(self, cells: int) -> int:
        one = self._cells[0]
        rows = math.ceil(expected_cohort(one)) * self._longest
        return rounds_together(cells=cells, elements=cells * rows * one.federation.width)

    def play(
        self,
        theta: Tensor,
        cohorts: Sequence[Cohort],
        clips: NDArray[np.float64] | None,
        moments: Tensor | None,
    ) -> list[RoundResult]:
        columns = [self._data.columns(cohort.clients, self._positions) for cohort in cohorts]
        learns, played = self._learns(columns), []
        for step, cohort in enumerate(cohorts):
            found = self._collect(theta, cohort, learns(step, theta, cohort), clips)
            played.append(self._moved(found, moments))
            theta, clips, moments = played[-1].hypotheses, played[-1].clips, played[-1].moments
        return played

    def _learns(
        self, columns: Sequence[NDArray[np.int64]]
    ) -> Callable[[int, Tensor, Cohort], Learned]:
        """What clients learn in a step of the rounds whose cohorts are at these columns."""
        learner, compiled = self._learner, self._compiled
        if compiled is not None and self._has_kernel and learner.weighting is None:
            steps, size = learner.update.steps, self._cells[0].spec.training.local.step_size
            return lambda step, theta, _: Learned(
                *compiled.learn(theta, columns[step], steps=steps, step_size=size)
            )
        # All of them before the first round: one kind of work at a time stays in the cache.
        lanes, batches = [self._data.lanes(own) for own in columns], self._draws.source(1)
        return lambda step, theta, cohort: learner.learn(
            theta, lanes[step], batches=batches, rounds=cohort.rounds, clients=cohort.clients
        )

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
        columns = self._data.columns(clients, positions)
        scored = self._splits.scored(clients, positions, rows=self._longest)
        plain = self._personal is None and scored is None and not per_client
        if plain and self._compiled is not None:
            return self._compiled_score(self._compiled, theta, columns, sizes)
        size = self._data.elements * columns.shape[1] * theta.shape[1]
        step, parts = max(1, _MAX_ELEMENTS // size), []
        for start in range(0, len(columns), step):
            part = slice(start, start + step)
            lanes = self._lanes(columns[part], start)
            if scored is not None:
                lanes = with_scored(lanes, scored[part])
            found = self._measure(theta[part], lanes, sizes[part].argmax(-1), tuned=tuned)
            parts.append(self._figures(found, lanes, columns[part], per_client))
        return parts[0] if len(parts) == 1 else joined_figures(parts)

    def _compiled_score(
        self, clients: CompiledClients, theta: Tensor, columns: NDArray[np.int64], sizes: Tensor
    ) -> Figures:
        """The same by the compiled kernels, which keep to the cache by themselves."""
        counter = self._counter
        selection_loss, validation_loss, predictions = clients.evaluate(
            theta, columns, sizes.argmax(-1), predicts=counter.counts_rows
        )
        if predictions is None:
            counts = counter.nothing(len(columns))
        else:
            counts = counter.count(predictions, columns)
        return Figures(selection_loss, validation_loss, None, counts)

    def _figures(
        self, found: Evaluation, lanes: Lanes, columns: NDArray[np.int64], per_client: bool
    ) -> Figures:
        final, accuracy = None, found.accuracy
        if per_client:
            rows, places = scored_rows(found, lanes), self._counter.rows(columns[0])
            final = final_groups(self._counter, rows, places)
            counts = self._counter.count_clients(rows.predictions, places, scored=rows.scored)
        else:
            predictions = found.predictions.permute(1, 2, 0).cpu().numpy()
            scored = None if lanes.scored is None else lanes.scored.permute(1, 2, 0).cpu().numpy()
            counts = self._counter.count(predictions, columns, scored=scored)
        return Figures(
            selection_loss=found.selection_loss.cpu().numpy(),
            validation_loss=found.validation_loss.cpu().numpy(),
            accuracy=None if accuracy is None else accuracy.cpu().numpy(),
            counts=counts,
            final=final,
        )

    def _lanes(self, columns: NDArray[np.int64], start: int) -> Lanes:
        kept = self._kept.get(start)
        if kept is None or not np.array_equal(kept[0], columns):
            kept = self._kept[start] = columns, self._data.lanes(columns)
        return kept[1]


def score_rounds(
    engine: Engine,
    theta: Tensor,
    clients: NDArray[np.int64],
    positions: Sequence[int],
    sizes: Tensor,
    *,
    by_client: bool,
) -> Figures:
    """`Engine.score` of several rounds, counted over all clients of a round or by client.

    By client an engine counts one round at a time.
    """
    if not by_client:
        return engine.score(theta, clients, positions, sizes)
    rows = [slice(row, row + 1) for row in range(len(positions))]
    return joined_figures(
        [
            engine.score(theta[row], clients[row], positions[row], sizes[row], per_client=True)
            for row in rows
        ]
    )


def build_engine(cells: Sequence[Cell], splits: Splits, device: torch.device) -> Engine:
    """Client by client where rows are wide, by length where they are uneven, otherwise side by
    side.

    Raises ValueError for several cells of the first two kinds.
    """
    if len(cells) > 1 and stands_alone(cells[0]):
        raise ValueError("a cell whose clients are not side by side is trained in a stack of one")
    if is_client_by_client(cells[0]):
        return ClientByClient(cells, splits, device)
    if is_by_length(cells[0]):
        return ByLength(cells, splits, device)
    return SideBySide(cells, splits, device)


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
