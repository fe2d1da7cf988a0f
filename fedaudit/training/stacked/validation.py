"""Validation of several rounds at once.

Rounds are validated together because the work of one is too small to keep a processor busy: a
round takes the place of a cell on the tensors' axis, which changes no figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.losses import Loss
from fedaudit.networks.network_choice import Network
from fedaudit.training.base.final_groups import FinalGroups, ScoredRows, final_groups
from fedaudit.training.base.group_counts import GroupCounter
from fedaudit.training.methods.training_method import PersonalSteps
from fedaudit.training.stacked.client_tensors import Lanes, StackData, with_scored
from fedaudit.training.stacked.compiled_clients import CompiledClients
from fedaudit.training.stacked.evaluation import Evaluation, evaluate
from fedaudit.training.stacked.personal_evaluation import evaluate_personal

_POOLED = 2
"""Axes of one cell's counts over all clients: groups and the four counts."""
_MAX_ELEMENTS = 1 << 18  # outputs at a time: beyond, temporaries leave the cache


@dataclass(frozen=True)
class Figures:
    """Validation figures on the host, one a cell of the evaluated stack."""

    selection_loss: NDArray[np.float64]
    validation_loss: NDArray[np.float64]
    accuracy: NDArray[np.float64] | None
    counts: dict[str, NDArray[np.int64]]
    """Attribute -> [cells, groups, 4], or [cells, clients, groups, 4] per client."""
    final: FinalGroups | None = None
    """Of the only cell, per client."""

    def pooled(self, place: int) -> dict[str, NDArray[np.int64]]:
        """The counts of one cell over all clients: [groups, 4]."""
        found = {name: counts[place] for name, counts in self.counts.items()}
        return {
            name: counts if counts.ndim == _POOLED else counts.sum(axis=0)
            for name, counts in found.items()
        }

    def by_client(self, place: int) -> dict[str, NDArray[np.int64]]:
        """The counts of one cell by client, [clients, groups, 4]; empty where they are pooled."""
        found = {name: counts[place] for name, counts in self.counts.items()}
        return {name: counts for name, counts in found.items() if counts.ndim > _POOLED}


@dataclass(frozen=True)
class Measure:
    """How hypotheses are scored on the clients of some lanes: by themselves, or by what each
    client makes of them."""

    network: Network
    loss: Loss
    personal: PersonalSteps | None

    def __call__(self, theta: Tensor, lanes: Lanes, largest: Tensor, *, tuned: bool) -> Evaluation:
        """Scores hypotheses theta [cells, k, n]; `largest` as in `evaluate`.

        Where clients make models of their own: not `tuned` is before their first step.
        """
        if self.personal is None:
            return evaluate(self.network, theta, lanes, self.loss, largest)
        personal = self.personal if tuned else replace(self.personal, steps=0)
        return evaluate_personal(self.network, theta, lanes, self.loss, largest, personal=personal)


class Validator:
    """Scores hypotheses on validation clients and counts outcomes per group."""

    def __init__(
        self,
        measure: Measure,
        data: StackData,
        counter: GroupCounter,
        compiled: CompiledClients | None,
    ) -> None:
        self._measure = measure
        self._data = data
        self._counter = counter
        self._compiled = compiled
        self._kept: dict[int, tuple[NDArray[np.int64], Lanes]] = {}

    def score(
        self,
        theta: Tensor,
        columns: NDArray[np.int64],
        sizes: Tensor,
        *,
        scored: NDArray[np.bool_] | None = None,
        per_client: bool = False,
        tuned: bool = True,
    ) -> Figures:
        """Figures of hypotheses theta [cells, k, n] on the clients at columns [cells, clients].

        With `per_client` there is one cell; `tuned` as in `Measure`. `sizes` [cells, k]: uploads
        in each hypothesis's cluster. `scored` bool [cells, clients, rows]: the rows that are
        scored where others choose for them.
        """
        plain = self._measure.personal is None and scored is None and not per_client
        if plain and self._compiled is not None:
            return self._compiled_score(self._compiled, theta, columns, sizes)
        size = self._data.elements * columns.shape[1] * theta.shape[1]
        step = max(1, _MAX_ELEMENTS // size)
        parts = [
            self._score(
                theta[start : start + step],
                columns[start : start + step],
                with_scored(
                    self._lanes(columns[start : start + step], start),
                    None if scored is None else scored[start : start + step],
                ),
                sizes[start : start + step],
                per_client=per_client,
                tuned=tuned,
            )
            for start in range(0, len(columns), step)
        ]
        return parts[0] if len(parts) == 1 else joined_figures(parts)

    def _compiled_score(
        self, clients: CompiledClients, theta: Tensor, columns: NDArray[np.int64], sizes: Tensor
    ) -> Figures:
        """The same by the compiled kernels, which keep to the cache by themselves."""
        counter = self._counter
        found = clients.evaluate(theta, columns, sizes.argmax(-1), predicts=counter.counts_rows)
        if found.predictions is None:
            counts = counter.nothing(len(columns))
        else:
            counts = counter.count(found.predictions, columns)
        return Figures(
            selection_loss=found.selection_loss,
            validation_loss=found.validation_loss,
            accuracy=None,
            counts=counts,
        )

    def _score(
        self,
        theta: Tensor,
        columns: NDArray[np.int64],
        lanes: Lanes,
        sizes: Tensor,
        *,
        per_client: bool,
        tuned: bool,
    ) -> Figures:
        evaluation = self._measure(theta, lanes, sizes.argmax(-1), tuned=tuned)
        accuracy = evaluation.accuracy
        final = None
        if per_client:
            rows, places = scored_rows(evaluation, lanes), self._counter.rows(columns[0])
            final = final_groups(self._counter, rows, places, k=theta.shape[1])
            counts = self._counter.count_clients(rows.predictions, places, scored=rows.scored)
        else:
            predictions = evaluation.predictions.permute(1, 2, 0).cpu().numpy()
            scored = None if lanes.scored is None else lanes.scored.permute(1, 2, 0).cpu().numpy()
            counts = self._counter.count(predictions, columns, scored=scored)
        return Figures(
            selection_loss=evaluation.selection_loss.cpu().numpy(),
            validation_loss=evaluation.validation_loss.cpu().numpy(),
            accuracy=None if accuracy is None else accuracy.cpu().numpy(),
            counts=counts,
            final=final,
        )

    def _lanes(self, columns: NDArray[np.int64], start: int) -> Lanes:
        """The clients' data; kept for the next call, which often asks for the same clients."""
        kept = self._kept.get(start)
        if kept is None or not np.array_equal(kept[0], columns):
            kept = self._kept[start] = columns, self._data.lanes(columns)
        return kept[1]


def scored_rows(evaluation: Evaluation, lanes: Lanes) -> ScoredRows:
    """The rows of the only cell, client after client on the host, without padding."""
    within = lanes.mask[:, 0].T.cpu().numpy() > 0

    def flat(values: Tensor) -> NDArray[Any]:
        """Of values [rows, 1, clients]: [the clients' rows]."""
        found: NDArray[Any] = values[:, 0].T.cpu().numpy()[within]
        return found

    chosen = evaluation.scores.chosen
    return ScoredRows(
        predictions=flat(evaluation.predictions),
        values=flat(evaluation.scores.of_chosen(evaluation.values)),
        hypotheses=None if chosen is None else flat(chosen),
        scored=None if lanes.scored is None else flat(lanes.scored),
    )


def joined_figures(parts: Sequence[Figures]) -> Figures:
    """The figures of several cells or rounds, one after the other."""
    accuracies = [part.accuracy for part in parts if part.accuracy is not None]
    return Figures(
        selection_loss=np.concatenate([part.selection_loss for part in parts]),
        validation_loss=np.concatenate([part.validation_loss for part in parts]),
        accuracy=np.concatenate(accuracies) if accuracies else None,
        counts={
            name: np.concatenate([part.counts[name] for part in parts]) for name in parts[0].counts
        },
    )
