"""What a run's report says of its hypotheses: from the stored rounds, whoever played them."""

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from fedaudit.ledger.entries import RELEASED
from fedaudit.networks.initial import initial_hypotheses
from fedaudit.reports.hypotheses_document import Plane
from fedaudit.reports.material import HypothesesFacts
from fedaudit.reports.plane import NOT_KEPT, NOT_VALIDATED, plane_section, rounds_to_draw
from fedaudit.training.plane import axis_names, truth_points, why_no_plane
from fedaudit.training.records import FinalResult
from models.repositories import LedgerRepository, RoundRepository
from workers.experiment import RunningExperiment


def hypotheses_of(
    session: Session, experiment: RunningExperiment, result: FinalResult
) -> HypothesesFacts:
    """The hypotheses, and the radii of the round that they came of."""
    return HypothesesFacts(
        hypotheses=result.hypotheses,
        parts=experiment.book.inputs.noised_sizes,
        radii=_radii(session, experiment, result.best_round),
    )


def plane_of(session: Session, experiment: RunningExperiment, result: FinalResult) -> Plane | str:
    """The plane of the run's two parameters, or why there is none."""
    cell, best = experiment.cell, result.best_round
    why = why_no_plane(cell)
    if why is not None:
        return why
    if best == 0:
        return NOT_VALIDATED
    stored = RoundRepository(session, experiment.project_id)
    rounds = rounds_to_draw(stored.drawn_rounds(experiment.id, up_to=best), best_round=best)
    if not rounds:
        return NOT_KEPT
    hypotheses = cell.spec.training.hypotheses
    return plane_section(
        stored.planes(experiment.id, rounds),
        best_round=best,
        start=initial_hypotheses(cell.shape, hypotheses=hypotheses, seed=cell.spec.seed),
        truth=truth_points(cell),
        parameters=axis_names(cell),
    )


def _radii(
    session: Session, experiment: RunningExperiment, round_: int
) -> NDArray[np.float64] | None:
    """Of the releases of a round, [releases, parts]; None where no radius is secret."""
    inputs = experiment.book.inputs
    if inputs.radius_floor is None:
        return None
    rows = LedgerRepository(session, experiment.project_id).rows_after(
        experiment.id, round_from=round_, round_to=round_
    )
    # Of a round that was lost and repeated, only the repeat has radii.
    found = [
        row.radii.reshape(-1, len(inputs.noised_sizes))[np.asarray(row.outcomes) == RELEASED]
        for row in rows
        if not row.interrupted
    ]
    return np.concatenate(found) if found else None
