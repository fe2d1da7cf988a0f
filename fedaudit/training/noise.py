"""The noise of rounds, before it is scaled.

A client's noise depends on the seed, the round and the client; that of a trusted server on the
seed, the round and the hypothesis.
"""

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.gaussian import LocalGaussian, unit_gaussian
from fedaudit.privacy.laplace import unit_laplace, unit_layers
from fedaudit.privacy.layers import LayerSanitiser
from fedaudit.training.central import Central
from fedaudit.training.cohort import Block, Draws
from fedaudit.training.mechanism import Mechanism


def draw_noise(draws: Draws, block: Block, mechanism: Mechanism, *, n: int, k: int) -> None:
    """Puts the noise of a block's rounds into it, for vectors of n numbers and k hypotheses."""
    source, rounds = draws.source(1), block.rounds[..., None]
    if isinstance(mechanism, Central):
        block.noise = server_noise(draws, block.rounds, n=n, k=k)
        if mechanism.moves:
            block.count_noise = count_noise(draws, block.rounds, k=k)
    elif isinstance(mechanism, LocalGaussian):
        block.noise = unit_gaussian(source, n=n, round_=rounds, counters=block.cohort)
    elif isinstance(mechanism, LayerSanitiser):
        block.noise = unit_layers(
            source, sizes=mechanism.sizes, round_=rounds, counters=block.cohort
        )
    else:
        block.noise = unit_laplace(source, n=n, round_=rounds, counters=block.cohort)


def server_noise(draws: Draws, rounds: NDArray[np.int64], *, n: int, k: int) -> NDArray[np.float32]:
    """For the sums of updates: float32 [..., cells, k, n] for rounds [..., cells]."""
    return unit_gaussian(draws.source(1), n=n, round_=rounds[..., None], counters=np.arange(k))


def count_noise(draws: Draws, rounds: NDArray[np.int64], *, k: int) -> NDArray[np.float32]:
    """For the number of updates within the clip: float32 [..., cells] for rounds [..., cells]."""
    # Counters below k are the hypotheses'.
    return unit_gaussian(draws.source(), n=1, round_=rounds, counters=k)[..., 0]
