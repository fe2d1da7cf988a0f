"""Who takes part, and the numbers a block of rounds needs, drawn ahead of the rounds. No torch.

Nothing here depends on what training computes, so many rounds can be drawn in one call; a round's
numbers are the same however the blocks are cut.
"""

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.randomness import (
    CounterSource,
    EntropySource,
    Purpose,
    Source,
    sample_without_replacement,
)
from fedaudit.spec.training import AllocationCohort, DrawnCohort, FixedCohort, PoissonCohort

_WORDS = 2.0**32


def client_coins(source: Source, *, round_: ArrayLike, clients: Ints, rate: float) -> Bools:
    """Whether the clients' coins fall: bool of shape broadcast(seeds, round_, clients).

    The rate is rounded down to a multiple of 2**-32, so that no client takes part more often than
    it is charged for.
    """
    words = source.words(purpose=Purpose.CLIENT_COINS, round_=round_, counters=clients, count=1)
    return words[..., 0] < np.uint64(np.floor(rate * _WORDS))


_BLOCK_ROUNDS = 64
_STRIDE_ROUNDS = 16
_LEAST_ROUNDS = 8
"""Fewest rounds of a stack, where they fit: so many share the fixed cost of a call."""
_BLOCK_ELEMENTS = 1 << 21


def rounds_ahead(*, cells: int, elements: int) -> int:
    """Rounds to draw at once for this many cells and noise elements per round."""
    return _bounded(max(_BLOCK_ROUNDS // cells, _LEAST_ROUNDS), elements)


def rounds_together(*, cells: int, elements: int) -> int:
    """Rounds to play and validate at once, for this many numbers in the rows of a cohort."""
    alone = _STRIDE_ROUNDS // cells
    return max(alone, _bounded(_LEAST_ROUNDS, elements))


def _bounded(rounds: int, elements: int) -> int:
    """How many of the rounds, of so many elements each, a block holds; at least one."""
    return max(1, min(rounds, _BLOCK_ELEMENTS // max(1, elements)))


@dataclass(frozen=True)
class Draws:
    """The source of a stack's random numbers."""

    seeds: NDArray[np.uint64]
    """[cells]."""
    secret: bool
    """Whether to draw from the operating system's entropy instead of the seeds."""

    def source(self, *trailing: int) -> Source:
        """A source whose seeds have shape [cells] + trailing."""
        seeds = self.seeds.reshape(-1, *trailing)
        return EntropySource(seeds) if self.secret else CounterSource(seeds)

    def of_cell(self, cell: int) -> Source:
        """The source of one cell alone: nothing that is drawn from it is drawn for another."""
        seed = self.seeds[cell]
        return EntropySource(seed) if self.secret else CounterSource(seed)


@dataclass
class Block:
    """The draws of some consecutive rounds; the first two axes are [rounds, cells]."""

    rounds: Ints
    """Round numbers."""
    cohort: Ints
    """[rounds, cells, clients]: client indices, ascending."""
    drawn: Bools | None
    """[rounds, cells, clients]: who takes part, where coins decide; other clients only pad the
    axis, after those who do. None where all take part."""
    validation: Ints | None
    """[rounds, cells, clients]: client indices; None where every validation client is used."""
    noise: Floats | None = None
    """[rounds, cells, vectors, n], unscaled: a vector for each client, or for each hypothesis of a
    trusted server; drawn by `draw_noise`."""
    count_noise: Floats | None = None
    """[rounds, cells], unscaled: for the number of updates within a clip that moves."""
    position: int = 0

    @property
    def left(self) -> int:
        """Rounds that have not been run yet."""
        return len(self.rounds) - self.position


def draw_block(
    draws: Draws,
    *,
    first_rounds: Ints,
    rounds: int,
    training: Ints,
    cohort: DrawnCohort,
    validation: Ints,
    validation_size: int | None,
) -> Block:
    """Cohorts and validation samples of the next rounds; training, validation [cells, clients]."""
    numbers = first_rounds[None, :] + np.arange(rounds)[:, None]
    source = draws.source()
    drawn = None
    match cohort:
        case FixedCohort():
            clients = _sample(source, Purpose.COHORT, numbers, training, cohort.clients)
        case PoissonCohort():
            fallen = client_coins(
                draws.source(1), round_=numbers[..., None], clients=training, rate=cohort.rate
            )
            clients, drawn = _taking_part(training, fallen)
        case AllocationCohort():
            whole = not ((numbers[0] - 1) % cohort.every).any() and rounds % cohort.every == 0
            if draws.secret and not whole:
                raise ValueError(
                    f"secret noise charges whole blocks of {cohort.every} rounds; {rounds} rounds "
                    f"from {numbers[0].tolist()} on are no such blocks"
                )
            fallen = _allocated(draws.source(1), numbers, training, cohort.every)
            clients, drawn = _taking_part(training, fallen)
        case _:
            assert_never(cohort)
    sample = None
    if validation_size is not None and validation_size < validation.shape[1]:
        # Repeatable even where the rest is secret: it protects no one.
        public = CounterSource(draws.seeds)
        sample = _sample(public, Purpose.VALIDATION, numbers, validation, validation_size)
    return Block(rounds=numbers, cohort=clients, drawn=drawn, validation=sample)


def _sample(source: Source, purpose: Purpose, rounds: Ints, clients: Ints, size: int) -> Ints:
    """`size` of each cell's clients [cells, clients], without replacement, in each round."""
    chosen = sample_without_replacement(
        source, purpose=purpose, round_=rounds, population=clients.shape[1], count=size
    )
    return np.take_along_axis(clients[None], chosen, axis=-1)


def _allocated(source: Source, rounds: Ints, clients: Ints, every: int) -> Bools:
    """Whether consecutive rounds are those that the clients are allocated to in their blocks of
    `every`: bool [rounds, cells, clients]."""
    block, place = np.divmod(rounds - 1, every)
    within = block - block[0]  # [rounds, cells]
    blocks = block[0] + np.arange(int(within.max()) + 1)[:, None]
    words = source.wide_words(
        purpose=Purpose.CLIENT_ROUNDS, round_=blocks[..., None], counters=clients, count=1
    )[..., 0]
    # A remainder is uneven by every/2**64, less than what an accountant's floats resolve.
    chosen = (words % np.uint64(every)).astype(np.int64)
    own = np.take_along_axis(chosen, within[..., None], axis=0)
    entered: Bools = own == place[..., None]
    return entered


def _taking_part(clients: Ints, fallen: Bools) -> tuple[Ints, Bools]:
    """The clients of each cell [cells, clients] who take part in each round [rounds, cells,
    clients], and a mask of who they are.

    Every round has as many places as the fullest needs, at least one: clients that pad the rest are
    marked False. An empty cohort is processed like any other.
    """
    places = max(1, int(fallen.sum(-1).max()))
    order = np.argsort(~fallen, axis=-1, kind="stable")[..., :places]
    drawn = np.take_along_axis(fallen, order, axis=-1)
    return np.take_along_axis(clients[None], order, axis=-1), drawn
