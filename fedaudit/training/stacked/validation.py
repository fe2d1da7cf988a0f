"""Validation of several rounds at once.

Rounds are validated together because the work of one is too small to keep a processor busy: a
round takes the place of a cell on the tensors' axis, which changes no figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.losses import Loss
from fedaudit.networks.network_choice import Network
from fedaudit.training.base.final_groups import FinalGroups, ScoredRows, final_groups
from fedaudit.training.base.group_counts import GroupCounter
from fedaudit.training.stacked.client_tensors import Lanes, StackData, with_scored
from fedaudit.training.stacked.evaluation import Evaluation, evaluate

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
    """Of the only cell, per client, where it has sensitive attributes."""


class Validator:
    """Scores hypotheses on validation clients and counts outcomes per group."""

    def __init__(
        self, network: Network, loss: Loss, data: StackData, counter: GroupCounter
    ) -> None:
        self._network = network
        self._loss = loss
        self._data = data
        self._counter = counter
        self._kept: dict[int, tuple[NDArray[np.int64], Lanes]] = {}

    def score(
        self,
        theta: Tensor,
        columns: NDArray[np.int64],
        sizes: Tensor,
        *,
        scored: NDArray[np.bool_] | None = None,
        per_client: bool = False,
    ) -> Figures:
        """Figures of hypotheses theta [cells, k, n] on the clients at columns [cells, clients].

        With `per_client` there is one cell. `sizes` [cells, k]: uploads in each hypothesis's
        cluster. `scored` bool [cells, clients, rows]: the rows that are scored where others choose
        for them.
        """
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
                per_client,
            )
            for start in range(0, len(columns), step)
        ]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _score(
        self,
        theta: Tensor,
        columns: NDArray[np.int64],
        lanes: Lanes,
        sizes: Tensor,
        per_client: bool,
    ) -> Figures:
        evaluation = evaluate(self._network, theta, lanes, self._loss, sizes.argmax(-1))
        predictions = evaluation.predictions.permute(1, 2, 0).cpu().numpy()
        scored = None if lanes.scored is None else lanes.scored.permute(1, 2, 0).cpu().numpy()
        accuracy = evaluation.accuracy
        final = None
        if per_client and self._counter.attributes:
            rows = _scored_rows(evaluation, predictions[0], None if scored is None else scored[0])
            final = final_groups(self._counter, rows, columns[0], k=theta.shape[1])
        return Figures(
            selection_loss=evaluation.selection_loss.cpu().numpy(),
            validation_loss=evaluation.validation_loss.cpu().numpy(),
            accuracy=None if accuracy is None else accuracy.cpu().numpy(),
            counts=self._counter.count(predictions, columns, per_client=per_client, scored=scored),
            final=final,
        )

    def _lanes(self, columns: NDArray[np.int64], start: int) -> Lanes:
        """The clients' data; kept for the next call, which often asks for the same clients."""
        kept = self._kept.get(start)
        if kept is None or not np.array_equal(kept[0], columns):
            kept = self._kept[start] = columns, self._data.lanes(columns)
        return kept[1]


def _scored_rows(
    evaluation: Evaluation, predictions: NDArray[np.generic], scored: NDArray[np.bool_] | None
) -> ScoredRows:
    """The rows of the only cell, as [clients, rows] on the host."""
    chosen = evaluation.scores.chosen
    own = evaluation.scores.of_chosen(evaluation.values)
    return ScoredRows(
        predictions=predictions,
        values=own[:, 0].T.cpu().numpy(),
        hypotheses=None if chosen is None else chosen[:, 0].T.cpu().numpy(),
        scored=scored,
    )


def _joined(parts: Sequence[Figures]) -> Figures:
    accuracies = [part.accuracy for part in parts if part.accuracy is not None]
    return Figures(
        selection_loss=np.concatenate([part.selection_loss for part in parts]),
        validation_loss=np.concatenate([part.validation_loss for part in parts]),
        accuracy=np.concatenate(accuracies) if accuracies else None,
        counts={
            name: np.concatenate([part.counts[name] for part in parts]) for name in parts[0].counts
        },
    )
