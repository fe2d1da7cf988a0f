"""From a round's tensors to its records."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.training.evaluation import Evaluation
from fedaudit.training.records import Outcome, RoundRecord
from fedaudit.training.rounds import Cohort, Played
from fedaudit.training.state import CellState


@dataclass(frozen=True)
class Figures:
    """Validation figures of each cell, on the host."""

    selection_loss: NDArray[np.float64]
    validation_loss: NDArray[np.float64]
    accuracy: NDArray[np.float64] | None
    counts: dict[str, NDArray[np.int64]]
    """Attribute -> [cells, groups, 4]."""


def figures_of(evaluation: Evaluation, counts: dict[str, NDArray[np.int64]]) -> Figures:
    """The evaluation's figures as arrays."""
    accuracy = evaluation.accuracy
    return Figures(
        selection_loss=evaluation.selection_loss.cpu().numpy(),
        validation_loss=evaluation.validation_loss.cpu().numpy(),
        accuracy=None if accuracy is None else accuracy.cpu().numpy(),
        counts=counts,
    )


@dataclass(frozen=True)
class DrawnRound:
    """A round of a stack on the host; the first axis of every array is [cells]."""

    rounds: NDArray[np.int64]
    clients: NDArray[np.int64]
    outcomes: NDArray[np.uint8]
    radii: NDArray[np.float64]
    chosen: NDArray[np.int16]
    clusters: NDArray[np.int16]
    sizes: NDArray[np.int64]
    separation: NDArray[np.float64] | None

    def record(
        self, row: int, state: CellState, *, release: int, figures: Figures | None
    ) -> RoundRecord:
        """The record of the cell in `row`; books its releases on `state`."""
        clients, outcomes = self.clients[row], self.outcomes[row]
        released = outcomes == Outcome.RELEASED
        state.releases[clients[released]] += 1
        state.taken[clients[outcomes != Outcome.REFUSED]] += 1
        sizes = self.sizes[row]
        return RoundRecord(
            round=int(self.rounds[row]),
            release=release,
            subjects=clients.astype(np.int32),
            outcomes=outcomes,
            radii=self.radii[row],
            releases=state.releases[clients],
            chosen=self.chosen[row],
            clusters=self.clusters[row],
            selection_loss=None if figures is None else float(figures.selection_loss[row]),
            validation_loss=None if figures is None else float(figures.validation_loss[row]),
            accuracy=(
                None
                if figures is None or figures.accuracy is None
                else float(figures.accuracy[row])
            ),
            cluster_sizes=tuple(sizes.tolist()),
            separation=self._separation(row),
            collapsed=len(sizes) > 1 and int((sizes > 0).sum()) == 1,
            fairness=(
                {}
                if figures is None
                else {name: counts[row] for name, counts in figures.counts.items()}
            ),
        )

    def _separation(self, row: int) -> float | None:
        if self.separation is None or not np.isfinite(self.separation[row]):
            return None
        return float(self.separation[row])


def record_round(cohort: Cohort, played: Played) -> DrawnRound:
    """Brings a round to the host."""
    present = played.present.cpu().numpy()
    outcomes = np.where(present, Outcome.RELEASED, Outcome.WITHHELD).astype(np.uint8)
    outcomes[~cohort.allowed] = Outcome.REFUSED
    radii = np.full(present.shape, np.nan)
    if played.radii is not None:
        radii = np.where(present, played.radii.cpu().numpy(), np.nan)
    clusters = played.clusters
    return DrawnRound(
        rounds=cohort.rounds,
        clients=cohort.clients,
        outcomes=outcomes,
        radii=radii,
        chosen=np.where(cohort.allowed, played.chosen.cpu().numpy(), -1).astype(np.int16),
        clusters=np.where(present, clusters.assigned.cpu().numpy(), -1).astype(np.int16),
        sizes=clusters.sizes.cpu().numpy(),
        separation=None if played.separation is None else played.separation.cpu().numpy(),
    )
