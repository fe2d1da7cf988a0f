"""What the checks of a replay look at."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.replay.neighbour_pair import NeighbourPair
from fedaudit.attacks.replay.watched_run import WatchedRun
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.experiment import ExperimentSpec


@dataclass(frozen=True, eq=False)
class Replayed:
    """A run, the run of its neighbour, and one in which a held-out unit differs; the latter two
    release what the first did."""

    pair: NeighbourPair
    base: WatchedRun
    neighbour: WatchedRun
    held_out: WatchedRun

    @property
    def spec(self) -> ExperimentSpec:
        """What was asked for."""
        return self.base.cell.spec

    @property
    def charged(self) -> MechanismParameters:
        """The mechanism that the ledger states."""
        return self.base.ledger_context.inputs

    @property
    def sensitivity(self) -> float:
        """How many clips apart neighbouring sums may lie, by the adjacency charged."""
        return 1.0 if self.charged.adjacency == "add-or-remove-one" else 2.0

    @cached_property
    def role(self) -> str:
        """Where the mechanism is applied: clients, server or local-steps."""
        return mechanism_of(self.spec).facts.applied_by

    @property
    def laplace_sizes(self) -> tuple[int, ...] | None:
        """Parameters of each part that has Laplace noise of its own; None of Gaussian noise.

        Raises ValueError where the mechanism draws no noise.
        """
        law = mechanism_of(self.spec).facts.noise_law
        match law:
            case "laplace":
                return self.charged.noised_sizes
            case "gaussian":
                return None
            case "none":
                raise ValueError(f"{self.charged.mechanism} draws no noise")
            case _:
                assert_never(law)

    @property
    def together(self) -> range:
        """Rounds that both runs played from one transcript."""
        last = min(self.base.rounds, self.neighbour.rounds)
        for round_ in range(1, last + 1):
            before = self.base.hypotheses[round_ - 1], self.neighbour.hypotheses[round_ - 1]
            if not np.array_equal(*before, equal_nan=True):
                return range(1, round_)
        return range(1, last + 1)

    def clip(self, round_: int) -> float | None:
        """What updates of a round may be clipped to: the ledger's number, or the clip that was
        released the round before."""
        released = self.base.clips[round_ - 1]
        return self.charged.clip if self.charged.clip is not None else released

    def charged_clients(self, round_: int) -> NDArray[np.int64]:
        """Who was asked to take part in a round, by the ledger."""
        entries = [entry for entry in self.base.entries if entry.round == round_]
        return entries[0].subjects.astype(np.int64) if entries else np.zeros(0, dtype=np.int64)

    def clients_of_uploads(self, round_: int) -> Iterator[NDArray[np.int64]]:
        """The clients of each part of a round's uploads, in the order in which they passed."""
        cohort = self.base.passed.cohort(round_)
        for part in self.base.passed.uploads[round_]:
            known = part.clients if part.clients is not None else cohort
            yield self.charged_clients(round_) if known is None else known
