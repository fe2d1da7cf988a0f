"""What a finished run's report needs of the scored rows, whoever trained it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.gaps import GroupScores
from fedaudit.fairness.joint_disclosure import PredictedRows
from fedaudit.training.base.against_constant import against_constant
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.final_groups import FinalGroups
from fedaudit.training.base.predicted_rows import predicted_rows, predicting_hypotheses
from fedaudit.utility import ConstantComparison


@dataclass(frozen=True)
class RowFigures:
    """See the fields of the same names of `FinalResult`."""

    scores: Mapping[str, GroupScores]
    by_hypothesis: Mapping[str, NDArray[np.int64]]
    predicted: Mapping[str, PredictedRows]
    predicting: NDArray[np.int64] | None
    against_constant: ConstantComparison


def row_figures(
    cell: Cell, final: FinalGroups, place: NDArray[np.int64], *, by_client: bool
) -> RowFigures:
    """The figures of the rows at `place` [rows] of the cell's federation; `by_client` as in
    `against_constant`."""
    grouped = bool(cell.spec.fairness.attributes)
    of_rows = cell.federation, cell.spec.fairness, final.rows, place
    return RowFigures(
        scores=final.scores,
        by_hypothesis=final.by_hypothesis,
        predicted=predicted_rows(*of_rows) if grouped else {},
        predicting=predicting_hypotheses(*of_rows) if grouped else None,
        against_constant=against_constant(cell, final.rows, place, by_client=by_client),
    )
