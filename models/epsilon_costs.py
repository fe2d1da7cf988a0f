"""What an experiment asks of a budget, and why it is refused."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from models.values import Budget


@dataclass(frozen=True, eq=False, kw_only=True)
class EpsilonCost:
    """What an experiment may spend, at most, against one observer."""

    observer: str
    adjacency: str
    unit: str
    """`client` or `record`, whom the adjacency is about."""
    delta: float
    unit_key: str = ""
    """How these units are distinguished; '' matches any."""
    epsilon: float
    """Of the experiment by itself, at its own delta."""
    curve: NDArray[np.float64]
    """Renyi divergences of the whole run, at orders that are the same for all experiments."""
    step: NDArray[np.float64]
    """The same of one composition, at most."""
    compositions: int
    """Of the whole run, if nothing is repeated."""


Shortage = Literal["no-room", "other-adjacency", "other-observer", "other-unit", "other-clients"]


@dataclass(frozen=True)
class EpsilonRefusal:
    """Why a budget has no place for an experiment."""

    budget: Budget
    shortage: Shortage
    requested: float | None = None
    """Its own epsilon at the budget's delta; None where it cannot be counted, as below."""
    composed_total: float | None = None
    """The epsilon that all would come to with it."""
