"""Poisson sampling of clients: each tosses a coin of its own in every round. No torch."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.randomness import Purpose, Source

_WORDS = 2.0**32


def client_coins(
    source: Source, *, round_: ArrayLike, clients: NDArray[np.int64], rate: float
) -> NDArray[np.bool_]:
    """Whether the clients' coins fall: bool of shape broadcast(seeds, round_, clients).

    The rate is rounded down to a multiple of 2**-32, so that no client takes part more often than
    it is charged for.
    """
    words = source.words(purpose=Purpose.CLIENT_COINS, round_=round_, counters=clients, count=1)
    fallen: NDArray[np.bool_] = words[..., 0] < np.uint64(np.floor(rate * _WORDS))
    return fallen


def drawn_clients(
    source: Source, *, round_: int, clients: NDArray[np.int64], rate: float
) -> NDArray[np.int64]:
    """The clients whose coins fall for this round; possibly none.

    `source` is that of one experiment.
    """
    fallen = client_coins(source, round_=round_, clients=clients, rate=rate)
    return clients[fallen.reshape(len(clients))]
