"""What the first process asks of its helpers, and what they answer, on one machine."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedaudit.training.base.cell import Cell


@dataclass(frozen=True, kw_only=True)
class Join:
    """Become rank `rank` of `size`."""

    device: str
    rank: int
    size: int
    backend: str
    store: str
    """The file by which the ranks find each other."""
    secret: bytes = field(repr=False)
    """By which they know each other."""


@dataclass(frozen=True)
class Take:
    """Compute clients of this cell from now on."""

    cell: Cell


@dataclass(frozen=True)
class StartFrom:
    """Take the hypotheses that are about to be broadcast."""


@dataclass(frozen=True)
class Choose:
    """Say which hypothesis fits each client; the answer is a list of them."""

    clients: list[int]


@dataclass(frozen=True)
class Learn:
    """Train the chosen hypotheses; for each client the answer is `Sent`, and then its vector."""

    clients: list[int]
    chosen: list[int]
    round_: int


@dataclass(frozen=True, eq=False)
class Score:
    """Score held-out clients; the answer is a list of `ClientScores`. As `ClientWork.score`."""

    clients: list[int]
    largest: int
    scored: list[NDArray[np.bool_]] | None
    tuned: bool


Order = Take | StartFrom | Choose | Learn | Score


@dataclass(frozen=True)
class Ready:
    """The helper has loaded its libraries, or joined the others."""


@dataclass(frozen=True)
class Sent:
    """A client's vector is on its way."""


@dataclass(frozen=True)
class Failed:
    """The helper ends, for this reason."""

    reason: str
