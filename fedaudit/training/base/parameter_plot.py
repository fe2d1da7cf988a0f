"""The plot of a run of two parameters in their plane (Galli et al., Figure 1). No torch.

For synthetic data only: uploads of real clients are never shown.
"""

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.methods.method_kinds import QFfl
from fedaudit.spec.model.kinds import Linear
from fedaudit.training.base.cell import Cell

PARAMETERS = 2
_REAL = "the data are not synthetic: what real clients sent is never shown"
_NOT_LINEAR = "the model is not the linear one that generated the data"
_UNSEEN = "the mechanism shows the server no client's upload by itself"
_WEIGHTED = "what clients send with q-ffl is weighted and lies elsewhere than the parameters"
_RECORDS = "the run protects records, and what silos sent is not kept"


def plot_unavailable_reason(cell: Cell) -> str | None:
    """Why a run has no parameter plot; None where it has one."""
    if cell.federation.truth is None:
        return _REAL
    if not isinstance(cell.spec.model, Linear):
        return _NOT_LINEAR
    if cell.shape.n != PARAMETERS:
        return f"the model has {cell.shape.n} parameters, and a plane has two"
    role = mechanism_of(cell.spec).facts.applied_by
    match role:
        case "clients":
            return _WEIGHTED if isinstance(cell.spec.training.method, QFfl) else None
        case "server":
            return _UNSEEN
        case "local-steps":
            return _RECORDS
        case _:
            assert_never(role)


def axis_names(cell: Cell) -> tuple[str, str]:
    """The names of the two parameters, in the vector's order."""
    weights = [f"weight of {name}" for name in cell.federation.feature_names]
    first, second = [*weights, "intercept"][:PARAMETERS]
    return first, second


def truth_points(cell: Cell) -> NDArray[np.float64]:
    """The parameters that generated the data: [distributions, 2]. Raises ValueError for real
    data."""
    truth = cell.federation.truth
    if truth is None:
        raise ValueError("nobody knows what generated real data")
    if truth.thetas.shape[1] == PARAMETERS:
        return truth.thetas
    return np.column_stack([truth.thetas, truth.intercepts])
