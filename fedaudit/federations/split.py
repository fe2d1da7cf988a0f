"""Which clients train and which are held out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.randomness import Purpose, permutation


@dataclass(frozen=True, eq=False)
class Split:
    """Client indices, each ascending; together they are every client once."""

    training: NDArray[np.int32]
    validation: NDArray[np.int32]


def validation_clients(clients: int, *, validation_fraction: float) -> int:
    """How many of the clients are held out: the nearest whole number, at least 1, never all.

    Raises ValueError below two clients.
    """
    if clients < 2:
        raise ValueError("a federation of fewer than two clients cannot be split")
    return min(clients - 1, max(1, int(clients * validation_fraction + 0.5)))


def split_clients(federation_clients: int, *, validation_fraction: float, seed: int) -> Split:
    """Split the clients at random by the experiment's seed. Raises ValueError below two clients."""
    held_out = validation_clients(federation_clients, validation_fraction=validation_fraction)
    order = permutation(federation_clients, seed=seed, purpose=Purpose.SPLIT).astype(np.int32)
    return Split(training=np.sort(order[held_out:]), validation=np.sort(order[:held_out]))
