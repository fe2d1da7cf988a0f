"""A training beside the run, of the same spec, in which canaries take part."""

from dataclasses import replace

import numpy as np

from fedaudit.attacks.attack import Progress
from fedaudit.randomness import CounterSource, EntropySource, Source
from fedaudit.training.base.cell import Cell, draws_in_secret
from fedaudit.training.base.rounds import Trainer
from fedaudit.training.stack import open_stack

ROUNDS_AT_ONCE = 16


def source_of(cell: Cell) -> Source:
    """Where coins and directions come from: the run's seed, or the operating system's entropy where
    the run's noise does."""
    return EntropySource() if draws_in_secret(cell) else CounterSource(cell.spec.seed)


def companion_of(cell: Cell) -> Cell:
    """The cell with all of its rounds and a validation at the end alone.

    No loss may end it before its last round: the claim is that of all rounds. The seed stays, since
    it decides who trains and with which budgets; where noise is `release`, none of it is drawn by
    the seed.
    """
    training = cell.spec.training
    stopping = training.stopping.model_copy(
        update={"patience": None, "validate_every": training.rounds, "validation_clients": 1}
    )
    whole = training.model_copy(update={"stopping": stopping})
    spec = cell.spec.model_copy(update={"training": whole})
    return replace(cell, spec=spec)


def train(cell: Cell, *, device: str, progress: Progress) -> tuple[int, Trainer]:
    """Trains the cell to its end, and returns how many rounds were played, and by what."""
    trainer, rounds = open_stack([cell], device=device), cell.spec.training.rounds
    played = 0
    progress(0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        while trainer.active:
            trainer.plan(ROUNDS_AT_ONCE)
            played += len(trainer.advance(ROUNDS_AT_ONCE)[0])
            progress(min(1.0, played / rounds))
    return played, trainer
