"""What the report of a run in this process says of its hypotheses."""

from collections.abc import Sequence

import numpy as np

from fedaudit.cli.local_ledger import LocalLedger
from fedaudit.ledger.entries import RELEASED
from fedaudit.networks.initial import initial_hypotheses
from fedaudit.reports.hypotheses_document import Plane
from fedaudit.reports.material import HypothesesFacts
from fedaudit.reports.plane import NOT_KEPT, NOT_VALIDATED, plane_section, rounds_to_draw
from fedaudit.training.cell import Cell
from fedaudit.training.plane import axis_names, truth_points, why_no_plane
from fedaudit.training.records import FinalResult, RoundRecord


def local_hypotheses(ledger: LocalLedger, result: FinalResult) -> HypothesesFacts:
    """The hypotheses, and the radii of the round that they came of."""
    inputs = ledger.account.inputs
    radii = [
        entry.radii.reshape(-1, len(inputs.noised_sizes))[entry.outcomes == RELEASED]
        for entry in ledger.entries
        if entry.round == result.best_round and inputs.radius_floor is not None
    ]
    return HypothesesFacts(
        hypotheses=result.hypotheses,
        parts=inputs.noised_sizes,
        radii=np.concatenate(radii) if radii else None,
    )


def local_plane(cell: Cell, records: Sequence[RoundRecord], result: FinalResult) -> Plane | str:
    """The plane of the run's two parameters, or why there is none."""
    why = why_no_plane(cell)
    if why is not None:
        return why
    if result.best_round == 0:
        return NOT_VALIDATED
    planes = {record.round: record.plane for record in records if record.plane is not None}
    rounds = rounds_to_draw(list(planes), best_round=result.best_round)
    if not rounds:
        return NOT_KEPT
    hypotheses = cell.spec.training.hypotheses
    return plane_section(
        {number: planes[number].as_dict() for number in rounds},
        best_round=result.best_round,
        start=initial_hypotheses(cell.shape, hypotheses=hypotheses, seed=cell.spec.seed),
        truth=truth_points(cell),
        parameters=axis_names(cell),
    )
