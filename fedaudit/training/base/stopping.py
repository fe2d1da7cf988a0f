"""Early stopping: when training ends, and which of its rounds was the best. No torch."""

import math
from dataclasses import dataclass
from typing import Literal, Protocol, assert_never

from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.training import StoppedBy, is_validated

Observation = Literal["diverged", "improved", "not-improved"]
"""What a validated loss means: not finite, lower than every earlier one, or neither."""
StopReason = Literal["patience", "rounds", "budget"]
"""Why a run ends where it stands, of a loss that is finite."""
RunEnd = Literal["patience", "rounds", "budget", "diverged", "cancelled", "running"]
"""How a run stands: ended for one of the reasons that a report may name (`StoppedBy`), taken out by
its caller, or not ended."""


def reported_end(end: RunEnd) -> StoppedBy:
    """Why a run ended, for its report. Raises ValueError for a run that did not end by itself."""
    match end:
        case "patience" | "rounds" | "budget" | "diverged":
            return end
        case "cancelled" | "running":
            raise ValueError(f"a run that is {end} has no report")
        case _:
            assert_never(end)


def has_diverged(end: RunEnd) -> bool:
    """Whether a loss that is not finite ended the run."""
    match end:
        case "diverged":
            return True
        case "patience" | "rounds" | "budget" | "cancelled" | "running":
            return False
        case _:
            assert_never(end)


class Progress(Protocol):
    """The progress in the state of every run."""

    round: int
    """Rounds done."""
    release: int
    release_until: int
    """Rounds up to this one repeat a round that was already charged, under its `release` number."""
    best_loss: float
    best_round: int
    without_improvement: int
    """Consecutive validations without a lower selection loss."""


@dataclass(frozen=True)
class EarlyStopping:
    """The rule that decides when a run ends."""

    rounds: int
    patience: int | None
    """None means never before the last round."""
    validate_every: int
    looks_at_losses: bool = True
    """Whether the losses of held-out rows choose the best round and end a run that diverges. Not
    where the counts of these rows get noise: what is chosen by a loss without noise reveals it."""

    @classmethod
    def of_spec(cls, spec: ExperimentSpec) -> "EarlyStopping":
        """The rule that a spec asks for."""
        stopping = spec.training.stopping
        return cls(
            spec.training.rounds_played,
            stopping.patience,
            stopping.validate_every,
            looks_at_losses=spec.fairness.noise is None,
        )

    def validates(self, number: int, *, last_round: int) -> bool:
        """Whether a round is validated; the last one always is."""
        return is_validated(number, every=self.validate_every, last_round=last_round)

    def observe(self, progress: Progress, loss: float) -> Observation:
        """Record the selection loss of the round just completed.

        The caller keeps the hypotheses if it `improved`, and ends the run if it `diverged`. Where
        losses are not looked at, every round improves: the last one validated is kept.
        """
        if not self.looks_at_losses:
            progress.best_round = progress.round
            return "improved"
        if not math.isfinite(loss):
            return "diverged"
        progress.without_improvement += 1
        if not loss < progress.best_loss:
            return "not-improved"
        progress.best_loss, progress.best_round = loss, progress.round
        progress.without_improvement = 0
        return "improved"

    def stop_reason(self, progress: Progress, *, last_round: int) -> StopReason | None:
        """Why a run ends at this point; None where it goes on.

        `last_round`: the spec's, or an earlier one after which no budget has room.
        """
        if self.patience is not None and progress.without_improvement >= self.patience:
            return "patience"
        if progress.round >= self.rounds:
            return "rounds"
        return "budget" if progress.round >= last_round else None


def release_number(progress: Progress, round_: int) -> int:
    """The release number under which a round is charged: 0, unless it repeats an interrupted
    round."""
    return progress.release if round_ <= progress.release_until else 0
