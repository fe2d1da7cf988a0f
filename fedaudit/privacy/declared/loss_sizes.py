"""How large the loss distributions of a history are, before anybody composes them.

The moments of a privacy loss are its Renyi divergences, so by Chernoff's bound it lies within
min over orders of (divergence + 50 / (order - 1)) of zero but for a mass of exp(-50) on either
side, which is where the library cuts its grid. Its arrays grow with that width over the step of the
grid, whatever noise and steps a trainer declares.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.pld import LOSS_STEP
from fedaudit.privacy.accounting.privacy_events import Adjacency, NonPrivate
from fedaudit.privacy.accounting.rdp import RDP_ORDERS
from fedaudit.privacy.declared.declared_releases import Charge

MAX_CELLS = 4e6
"""Of all arrays that one figure makes: seconds, and some hundred MiB."""
_CUT = 50.0
_BEYOND_ONE = np.array(RDP_ORDERS) - 1


def loss_cells(
    history: NDArray[np.int64], charges: Sequence[Charge], *, adjacency: Adjacency
) -> float:
    """Cells of all arrays on the way to one history's loss distribution; 0 without any event."""
    cells = composed = 0.0
    for charge, count in zip(charges, history.tolist(), strict=True):
        if not count or isinstance(charge.event, NonPrivate):
            continue
        curve = charge.curve(adjacency)
        # One event, so many of them, and all of the earlier events with these.
        own = _width(count * curve)
        composed += own
        cells += max(_width(curve), own) + composed
    return cells / LOSS_STEP


def _width(curve: NDArray[np.float64]) -> float:
    return 2 * float(np.min(curve + _CUT / _BEYOND_ONE))
