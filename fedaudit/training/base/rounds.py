"""The results of rounds and of a run, and when training ends. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Floats32, Ints, Ints16, Ints32
from fedaudit.fairness.gaps import ClientScores
from fedaudit.fairness.joint_disclosure import PredictedRows
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.training import StoppedBy
from fedaudit.training.base.records import RecordTable
from fedaudit.utility import ScoredFigures

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

    round: Ints
    """Rounds done."""
    release: Ints
    release_until: Ints
    """Rounds up to this one repeat a round that was already charged, under its `release` number."""
    best_loss: Floats
    best_round: Ints
    without_improvement: Ints
    """Consecutive validations without a lower selection loss."""

    def of(self, runs: Ints) -> "Progress":
        """A copy, of some of the runs."""
        return Progress(*(getattr(self, one.name)[runs] for one in fields(Progress)))

    def put(self, runs: Ints, moved: "Progress") -> None:
        """Takes over the progress of some of the runs."""
        for name, values in vars(moved).items():
            getattr(self, name)[runs] = values

    def release_numbers(self, rounds: Ints) -> Ints:
        """The numbers under which rounds [..., runs] are charged: 0, unless they repeat interrupted
        ones."""
        return np.where(rounds <= self.release_until, self.release, 0)


@dataclass(frozen=True, eq=False)
class Followed:
    """What became of runs in some rounds; arrays are [runs]."""

    kept: Ints
    """How many of the rounds each run played, the one it ended in included."""
    improved: Ints
    """The position of the round that is now the best; -1 where an earlier one still is."""
    ends: Mapping[int, RunEnd]
    """Why each run that ended did so."""


@dataclass(frozen=True, eq=False)
class EarlyStopping:
    """The rule that decides when runs beside one another end; arrays are [runs]."""

    rounds: Ints
    patience: Sequence[int | None]
    """None means never before the last round."""
    validate_every: int
    looks_at_losses: bool = True
    """See `Cell.chooses_by_losses`. Otherwise the last validated round is kept."""

    @classmethod
    def of_specs(cls, specs: Sequence[ExperimentSpec], *, looks_at_losses: bool) -> "EarlyStopping":
        """The rule that specs ask for that agree in what they validate."""
        [every] = {spec.training.stopping.validate_every for spec in specs}
        return cls(
            np.array([spec.training.rounds_played for spec in specs]),
            [spec.training.stopping.patience for spec in specs],
            every,
            looks_at_losses=looks_at_losses,
        )

    def of(self, runs: Sequence[int]) -> "EarlyStopping":
        """The rule for some of the runs."""
        patience = [self.patience[run] for run in runs]
        return replace(self, rounds=self.rounds[list(runs)], patience=patience)

    def validates(self, rounds: Ints, *, last_round: Ints) -> Bools:
        """Which rounds [..., runs] are validated; a run's last one always is."""
        validated: Bools = (rounds % self.validate_every == 0) | (rounds == last_round)
        return validated

    def follow(
        self,
        progress: Progress,
        rounds: Ints,
        losses: Floats,
        validated: Bools,
        *,
        last_round: Ints,
        playing: Bools,
        audited: Ints | None = None,
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

    def _best_so_far(self, progress: Progress, losses: Floats, seen: Bools) -> tuple[Floats, Ints]:
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


_AT_PLACES = ("selection_losses", "validation_losses", "accuracies")


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundColumns:
    """Consecutive rounds of one experiment, as wide as each other.

    The first axis of every array is [rounds]; `outcomes` to `clusters` are aligned with `subjects`,
    [rounds, subjects]. Figures of held-out clients are at their own `place`.
    """

    round: Ints
    """Numbers of the rounds, from 1 to T."""
    release: Ints
    """0, unless a run with `release` noise repeated the round after an interruption."""
    subjects: Ints32
    """Indices of the ledger's subjects that were charged or refused, ascending: the clients of the
    cohort; the population as one; groups of records."""
    outcomes: NDArray[np.uint8]
    radii: Floats
    """Radius of each release; NaN where nothing was released or no mechanism protects it. With
    noise for each layer, [rounds, subjects, layers]."""
    releases: Ints32
    """What each subject has released, up to and including the round."""
    chosen: Ints16
    """Hypothesis that the client chose, -1 where it took no part, or subjects are not clients.
    Confidential."""
    clusters: Ints16
    """Cluster of the upload, as the server assigned it; -1 for none, or where subjects are not
    clients."""
    cluster_sizes: Ints
    """Uploads in each cluster, [rounds, k]; [rounds, 0] where it is secret who was drawn."""
    separation: Floats
    """Median over uploads of the distance to the hypothesis of the cluster that the server put them
    into, divided by that hypothesis's distance to the nearest other (after equation 9); NaN for
    one hypothesis, without uploads, or where the distance to the other is 0."""
    collapsed: Bools
    """Whether all uploads fell into one of several clusters."""
    place: Ints
    """Where a round's figures stand in the next columns; -1 in rounds without validation."""
    selection_losses: Floats
    """Mean over validation clients of their smallest loss."""
    validation_losses: Floats
    """Mean over validation clients, each row scored by a hypothesis chosen without it."""
    accuracies: Floats | None
    """Share of validation rows classified correctly, chosen likewise; None for regression."""
    counts: Mapping[str, Ints]
    """Attribute -> [places, groups, 4]: true and false positives, then true and false negatives."""
    compositions: Mapping[Observer, Ints32] = field(default_factory=dict)
    """What each subject has been charged against each observer, up to and including the round.
    Empty where there is only one observer, against whom it is `releases`."""

    def __len__(self) -> int:
        return len(self.round)

    @property
    def validated(self) -> Ints:
        """The positions of the rounds that were validated."""
        return np.flatnonzero(self.place >= 0)

    def part(self, begin: int, end: int) -> "RoundColumns":
        """The rounds from one position up to another."""
        of_rounds: dict[str, Any] = {
            name: values[begin:end]
            for name, values in vars(self).items()
            if isinstance(values, np.ndarray) and name not in _AT_PLACES
        }
        compositions = {name: counts[begin:end] for name, counts in self.compositions.items()}
        return replace(self, **of_rounds, compositions=compositions)

    def pooled(self, rounds: Ints) -> dict[str, Ints]:
        """Attribute -> the counts over all clients of the validated rounds at these positions:
        [len(rounds), groups, 4]."""
        return {name: counts[self.place[rounds]] for name, counts in self.counts.items()}


@dataclass(frozen=True, eq=False)
class PlayedRounds:
    """Consecutive rounds of one experiment: columns, as wide as each other within a span."""

    spans: tuple[RoundColumns, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.spans))

    def __add__(self, more: "PlayedRounds") -> "PlayedRounds":
        return PlayedRounds(self.spans + more.spans)


@dataclass(frozen=True)
class PlannedRound:
    """A round whose noise is about to be drawn; `subjects` will be charged for it."""

    round: int
    release: int
    subjects: Ints32


@dataclass(frozen=True, kw_only=True)
class FinalResult(ScoredFigures):
    """The results of a finished run, at its best hypotheses and on all validation clients."""

    stopped_by: RunEnd
    selection_loss: float
    validation_loss: float
    hypotheses: Floats32
    """[k, n], those with the smallest selection loss."""
    predicted: Mapping[str, PredictedRows] = field(default_factory=dict)
    """Attribute -> the scored rows that `fairness` counts, one by one. Confidential."""
    records: RecordTable | None = None
    """Every record's own figures for `record-personalised`. Confidential."""
    by_client: ClientScores | None = None
    """The same rows by their clients; None for a run that has not been scored."""
