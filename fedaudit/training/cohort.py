"""Who takes part, and the numbers a block of rounds needs, drawn ahead of the rounds.

Nothing here depends on what training computes, so many rounds can be drawn in one call; a round's
numbers are the same however the blocks are cut.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.laplace import unit_laplace
from fedaudit.randomness import (
    CounterSource,
    EntropySource,
    Purpose,
    Source,
    sample_without_replacement,
)

_BLOCK_ROUNDS = 64
_STRIDE_ROUNDS = 16
_BLOCK_ELEMENTS = 1 << 21


def rounds_ahead(*, cells: int, elements: int) -> int:
    """Rounds to draw at once for so many cells and noise elements a round."""
    return max(1, min(_BLOCK_ROUNDS // cells, _BLOCK_ELEMENTS // max(1, elements)))


def rounds_together(*, cells: int) -> int:
    """Rounds to validate at once: a stack of many cells keeps the processor busy by itself."""
    return max(1, _STRIDE_ROUNDS // cells)


@dataclass(frozen=True)
class Draws:
    """Where a stack's numbers come from."""

    seeds: NDArray[np.uint64]
    """[cells]."""
    secret: bool
    """Whether to draw from the operating system's entropy instead of the seeds."""

    def source(self, *trailing: int) -> Source:
        """A source whose seeds have shape [cells] + trailing."""
        seeds = self.seeds.reshape(-1, *trailing)
        return EntropySource(seeds) if self.secret else CounterSource(seeds)

    def public(self) -> Source:
        """Repeatable even where the rest is secret: for what protects nobody."""
        return CounterSource(self.seeds)


@dataclass
class Block:
    """The draws of some consecutive rounds; the first two axes are [rounds, cells]."""

    rounds: NDArray[np.int64]
    """Round numbers."""
    cohort: NDArray[np.int64]
    """[rounds, cells, clients]: client indices, ascending."""
    validation: NDArray[np.int64] | None
    """[rounds, cells, clients]: client indices; None where every validation client is used."""
    noise: NDArray[np.float32] | None = None
    """[rounds, cells, clients, n], epsilon = 1; drawn by `draw_noise`."""
    position: int = 0

    @property
    def left(self) -> int:
        """Rounds not yet played."""
        return len(self.rounds) - self.position


def draw_block(
    draws: Draws,
    *,
    first_rounds: NDArray[np.int64],
    rounds: int,
    training: NDArray[np.int64],
    cohort_size: int,
    validation: NDArray[np.int64],
    validation_size: int | None,
) -> Block:
    """Cohorts and validation samples of the next rounds; training, validation [cells, clients]."""
    numbers = first_rounds[None, :] + np.arange(rounds)[:, None]
    source = draws.source()
    cohort = _sample(source, Purpose.COHORT, numbers, training, cohort_size)
    sample = None
    if validation_size is not None and validation_size < validation.shape[1]:
        sample = _sample(draws.public(), Purpose.VALIDATION, numbers, validation, validation_size)
    return Block(rounds=numbers, cohort=cohort, validation=sample)


def _sample(
    source: Source,
    purpose: Purpose,
    rounds: NDArray[np.int64],
    clients: NDArray[np.int64],
    size: int,
) -> NDArray[np.int64]:
    """`size` of each cell's clients [cells, clients], without replacement, in each round."""
    chosen = sample_without_replacement(
        source, purpose=purpose, round_=rounds, population=clients.shape[1], count=size
    )
    return np.take_along_axis(clients[None], chosen, axis=-1)


def draw_noise(draws: Draws, block: Block, *, n: int) -> None:
    """Draws the block's noise; a client's noise depends on the seed, the round and the client."""
    block.noise = unit_laplace(
        draws.source(1), n=n, round_=block.rounds[..., None], counters=block.cohort
    )
