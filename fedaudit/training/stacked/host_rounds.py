"""Convert a round's tensors to its records."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.ledger.entries import Outcome
from fedaudit.training.base.parameter_plot import PARAMETERS, round_plot
from fedaudit.training.base.round_records import RoundPlot, RoundRecord
from fedaudit.training.stacked.clustering import separation
from fedaudit.training.stacked.run_state import CellState
from fedaudit.training.stacked.stack_round import Cohort, RoundResult
from fedaudit.training.stacked.validation import Figures

_REFUSED = int(Outcome.REFUSED)  # an enumeration takes a microsecond to be asked


@dataclass(frozen=True)
class HostRound:
    """A round of a stack on the host; the first axis of every array is [cells]."""

    rounds: NDArray[np.int64]
    subjects: NDArray[np.int32]
    released: NDArray[np.bool_]
    outcomes: NDArray[np.uint8]
    radii: NDArray[np.float64]
    """[cells, subjects]; with noise for each layer, [cells, subjects, layers]."""
    chosen: NDArray[np.int16]
    clusters: NDArray[np.int16]
    sizes: NDArray[np.int64]
    """[cells, k]; [cells, 0] where they are secret."""
    separation: NDArray[np.float64]
    """NaN for one hypothesis, and where uploads are secret."""
    hypotheses: NDArray[np.float32] | None = None
    """[cells, k, 2], those that came of the round; of models of two parameters only."""
    uploads: NDArray[np.float32] | None = None
    """[cells, clients, 2]; likewise."""

    def record(
        self,
        row: int,
        state: CellState,
        *,
        release: int,
        figures: Figures | None,
        place: int,
        in_plane: bool,
    ) -> RoundRecord:
        """The record of the cell in `row`; books its releases on `state`.

        `place` is the round's position among the figures, None in a round without validation.
        `in_plane`: whether a validated round is shown in the plane of the cell's two parameters.
        """
        subjects = self.subjects[row]
        releases = state.releases[subjects] + self.released[row]
        state.releases[subjects] = releases
        state.budget_uses[subjects] += self.outcomes[row] != _REFUSED
        sizes = tuple(self.sizes[row].tolist())
        separated = float(self.separation[row])
        return RoundRecord(
            round=int(self.rounds[row]),
            release=release,
            subjects=subjects,
            outcomes=self.outcomes[row],
            radii=self.radii[row],
            releases=releases,
            chosen=self.chosen[row],
            clusters=self.clusters[row],
            selection_loss=_at(None if figures is None else figures.selection_loss, place),
            validation_loss=_at(None if figures is None else figures.validation_loss, place),
            accuracy=_at(None if figures is None else figures.accuracy, place),
            cluster_sizes=sizes,
            separation=separated if math.isfinite(separated) else None,
            collapsed=len(sizes) > 1 and sizes.count(0) == len(sizes) - 1,
            fairness={} if figures is None else figures.pooled(place),
            by_client={} if figures is None else figures.by_client(place),
            plane=self._plane(row) if in_plane and figures is not None else None,
        )

    def _plane(self, row: int) -> RoundPlot | None:
        if self.hypotheses is None or self.uploads is None:
            return None
        return round_plot(
            hypotheses=self.hypotheses[row],
            uploads=self.uploads[row],
            clusters=self.clusters[row],
        )


def _at(values: NDArray[np.float64] | None, place: int) -> float | None:
    return None if values is None else float(values[place])


def joined(parts: list[Tensor]) -> Tensor:
    """The parts one after the other; a single one is not copied, for it may be large."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def gather_to_host(cohorts: list[Cohort], played: list[RoundResult]) -> list[HostRound]:
    """Copies rounds to the host, and measures how well their hypotheses were separated."""
    sent = [part.sent for part in played if part.sent is not None]
    if not sent:
        return [_gather_population(cohort) for cohort in cohorts]
    rounds, k = len(played), played[0].before.shape[1]
    cells = played[0].before.shape[0]
    present = joined([part.present for part in sent])
    separated = torch.full((rounds * cells,), torch.nan)
    if k > 1:
        separated = separation(
            joined([part.before for part in played]),
            joined([part.uploads for part in sent]),
            present,
            joined([part.assigned for part in sent]),
        )
    released = present.cpu().numpy()
    allowed = np.concatenate([cohort.allowed for cohort in cohorts])
    radii = np.full(released.shape, np.nan)
    found = [part.radii for part in sent if part.radii is not None]
    if found:
        measured = joined(found).cpu().numpy()
        of_released = released.reshape(released.shape + (1,) * (measured.ndim - released.ndim))
        radii = np.where(of_released, measured, np.nan)
    chosen = joined([part.chosen for part in sent]).cpu().numpy()
    assigned = joined([part.assigned for part in sent]).cpu().numpy()
    fields = {
        "rounds": np.concatenate([cohort.rounds for cohort in cohorts]),
        "subjects": np.concatenate([cohort.clients for cohort in cohorts]).astype(np.int32),
        "released": released,
        "outcomes": np.where(
            allowed, np.where(released, Outcome.RELEASED, Outcome.WITHHELD), Outcome.REFUSED
        ).astype(np.uint8),
        "radii": radii,
        "chosen": np.where(allowed, chosen, -1).astype(np.int16),
        "clusters": np.where(released, assigned, -1).astype(np.int16),
        "sizes": joined([part.sizes for part in played]).cpu().numpy(),
        "separation": separated.cpu().numpy(),
    }
    if played[0].before.shape[-1] == PARAMETERS:
        fields["hypotheses"] = joined([part.hypotheses for part in played]).cpu().numpy()
        fields["uploads"] = joined([part.uploads for part in sent]).cpu().numpy()
    return [
        HostRound(**{name: values[start : start + cells] for name, values in fields.items()})
        for start in range(0, rounds * cells, cells)
    ]


def _gather_population(cohort: Cohort) -> HostRound:
    """A round that every subject is charged for alike. It reveals nothing about the participants,
    neither their number nor their choices: such figures would come without noise."""
    shape = (len(cohort.rounds), 1)
    return HostRound(
        rounds=cohort.rounds,
        subjects=np.zeros(shape, dtype=np.int32),
        released=np.ones(shape, dtype=np.bool_),
        outcomes=np.full(shape, Outcome.RELEASED, dtype=np.uint8),
        radii=np.full(shape, np.nan),
        chosen=np.full(shape, -1, dtype=np.int16),
        clusters=np.full(shape, -1, dtype=np.int16),
        sizes=np.zeros((len(cohort.rounds), 0), dtype=np.int64),
        separation=np.full(len(cohort.rounds), np.nan),
    )
