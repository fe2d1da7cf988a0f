"""Early stopping: when training ends, and which of its rounds was the best. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.training import StoppedBy

NEVER = 1 << 62
"""A round that none is beyond."""
StopReason = Literal["patience", "rounds", "budget", "audit"]
"""Why a run ends whose loss is finite."""
RunEnd = Literal["patience", "rounds", "budget", "audit", "diverged", "cancelled", "running"]
"""The state of a run: ended for one of the reasons that a report may name (`StoppedBy`), stopped by
its caller, or not ended."""


def reported_end(end: RunEnd) -> StoppedBy:
    """Why a run ended, for its report. Raises ValueError for a run that did not end by itself."""
    match end:
        case "patience" | "rounds" | "budget" | "audit" | "diverged":
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
        case "patience" | "rounds" | "budget" | "audit" | "cancelled" | "running":
            return False
        case _:
            assert_never(end)


@dataclass(eq=False)
class Progress:
    """How far runs beside one another have come; every array is [runs]."""

    round: NDArray[np.int64]
    """Rounds done."""
    release: NDArray[np.int64]
    release_until: NDArray[np.int64]
    """Rounds up to this one repeat a round that was already charged, under its `release` number."""
    best_loss: NDArray[np.float64]
    best_round: NDArray[np.int64]
    without_improvement: NDArray[np.int64]
    """Consecutive validations without a lower selection loss."""

    @classmethod
    def at_the_start(cls, runs: int) -> "Progress":
        """The progress of so many runs before their first round."""
        none = np.zeros(runs, dtype=np.int64)
        return cls(none, none.copy(), none.copy(), np.full(runs, np.inf), none.copy(), none.copy())

    def of(self, runs: NDArray[np.int64]) -> "Progress":
        """A copy, of some of the runs."""
        return Progress(**{name: values[runs] for name, values in vars(self).items()})

    def put(self, runs: NDArray[np.int64], moved: "Progress") -> None:
        """Takes over the progress of some of the runs."""
        for name, values in vars(moved).items():
            getattr(self, name)[runs] = values

    def release_numbers(self, rounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers under which rounds [..., runs] are charged: 0, unless they repeat interrupted
        ones."""
        return np.where(rounds <= self.release_until, self.release, 0)


@dataclass(frozen=True, eq=False)
class Followed:
    """What became of runs in some rounds; arrays are [runs]."""

    kept: NDArray[np.int64]
    """How many of the rounds each run played, the one it ended in included."""
    improved: NDArray[np.int64]
    """The position of the round that is now the best; -1 where an earlier one still is."""
    ends: Mapping[int, RunEnd]
    """Of runs that ended: why."""


@dataclass(frozen=True, eq=False)
class EarlyStopping:
    """The rule that decides when runs beside one another end; arrays are [runs]."""

    rounds: NDArray[np.int64]
    patience: Sequence[int | None]
    """None means never before the last round."""
    validate_every: int
    looks_at_losses: bool = True
    """Whether the losses of held-out rows choose the best round and end a run that diverges. Not
    where the counts of these rows get noise: what is chosen by a loss without noise reveals it."""

    @classmethod
    def of_specs(cls, specs: Sequence[ExperimentSpec]) -> "EarlyStopping":
        """The rule that specs ask for that agree in what they validate."""
        [every] = {spec.training.stopping.validate_every for spec in specs}
        [without_noise] = {spec.fairness.noise is None for spec in specs}
        return cls(
            np.array([spec.training.rounds_played for spec in specs]),
            [spec.training.stopping.patience for spec in specs],
            every,
            looks_at_losses=without_noise,
        )

    def of(self, runs: Sequence[int]) -> "EarlyStopping":
        """The rule for some of the runs."""
        patience = [self.patience[run] for run in runs]
        return replace(self, rounds=self.rounds[list(runs)], patience=patience)

    def validates(
        self, rounds: NDArray[np.int64], *, last_round: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which rounds [..., runs] are validated; a run's last one always is."""
        validated: NDArray[np.bool_] = (rounds % self.validate_every == 0) | (rounds == last_round)
        return validated

    def follow(
        self,
        progress: Progress,
        rounds: NDArray[np.int64],
        losses: NDArray[np.float64],
        validated: NDArray[np.bool_],
        *,
        last_round: NDArray[np.int64],
        playing: NDArray[np.bool_],
        audited: NDArray[np.int64] | None = None,
    ) -> Followed:
        """Moves `progress` on by some rounds, of each run up to the one that it ends in.

        `rounds` are numbers, `losses` selection losses, which count where they were `validated`:
        [rounds, runs] each. `last_round` and `audited` as in `stop_reason`; `playing`: runs that
        have not ended.
        """
        diverged = validated & ~np.isfinite(losses) & self.looks_at_losses
        seen = validated & ~diverged
        best, waited = self._best_so_far(progress, losses, seen)
        improved = seen & (losses < best[:-1]) if self.looks_at_losses else seen
        over = diverged | (rounds >= np.minimum(self.rounds, last_round))
        if any(patience is not None for patience in self.patience):
            most = [np.inf if patience is None else patience for patience in self.patience]
            over |= waited >= np.array(most)
        kept = np.where(over.any(axis=0), over.argmax(axis=0) + 1, len(rounds)) * playing
        steps, runs = np.arange(len(rounds))[:, np.newaxis], np.arange(len(kept))
        newest = np.where(improved & (steps < kept), steps, -1).max(axis=0)
        moved, better = np.flatnonzero(kept), np.flatnonzero(newest >= 0)
        progress.round[moved] = rounds[kept[moved] - 1, moved]
        progress.without_improvement[moved] = waited[kept[moved] - 1, moved]
        progress.best_round[better] = rounds[newest[better], better]
        if self.looks_at_losses:
            progress.best_loss[better] = losses[newest[better], better]
        ends: dict[int, RunEnd] = {}
        for run in runs[playing & over.any(axis=0)].tolist():
            if diverged[kept[run] - 1, run]:
                ends[run] = "diverged"
            elif why := self.stop_reason(
                progress,
                run,
                last_round=int(last_round[run]),
                audited=NEVER if audited is None else int(audited[run]),
            ):
                ends[run] = why
        return Followed(kept, newest, ends)

    def _best_so_far(
        self, progress: Progress, losses: NDArray[np.float64], seen: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The smallest loss before each of the rounds and after them, [rounds + 1, runs], and how
        many validations there were since the one that had it, [rounds, runs]."""
        before = progress.without_improvement
        if not self.looks_at_losses:
            shape = (len(losses) + 1, len(before))
            return np.broadcast_to(progress.best_loss, shape), np.broadcast_to(before, losses.shape)
        found = np.where(seen, losses, np.inf)
        best = np.minimum.accumulate(np.vstack([progress.best_loss, found]))
        count = seen.cumsum(axis=0)
        since = np.maximum.accumulate(np.where(found < best[:-1], count, -before))
        return best, count - since

    def stop_reason(
        self, progress: Progress, run: int, *, last_round: int, audited: int = NEVER
    ) -> StopReason | None:
        """Why a run ends at this point; None where it goes on.

        `last_round`: the spec's, or an earlier one after which no budget has room or that is
        `audited`, the round in which an audit found its noise too small.
        """
        patience, done = self.patience[run], int(progress.round[run])
        if patience is not None and progress.without_improvement[run] >= patience:
            return "patience"
        if done >= self.rounds[run]:
            return "rounds"
        if done >= audited:
            return "audit"
        return "budget" if done >= last_round else None
