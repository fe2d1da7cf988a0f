"""The hypotheses before the first round."""

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.networks.initial import initial_hypotheses
from fedaudit.spec.model.starts import ArtifactStart
from fedaudit.training.base.cell import Cell


def first_hypotheses(cell: Cell) -> NDArray[np.float32]:
    """float32 [hypotheses, n], as the spec asks for.

    Raises ValueError where the spec starts from an artifact and the cell does not have it.
    """
    start = cell.spec.model.start
    match start:
        case ArtifactStart():
            if cell.start is None:
                raise ValueError("the artifact that training starts from was not loaded")
            return cell.start.copy()
        case "zeros" | "normal" | "uniform":
            return initial_hypotheses(
                cell.shape,
                start=start,
                hypotheses=cell.spec.training.hypotheses,
                seed=cell.spec.seed,
            )
        case _:
            assert_never(start)
