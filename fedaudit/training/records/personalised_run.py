"""Record-level personalised privacy (rPDP-FL, CCS 2024), trained round by round.

The ledger's subjects are groups of records by budget, all of them in every round: a round in which
nobody was drawn, or a group had left, counts like any other. Without noise (the baseline
`privacy-free`) there are no budgets to keep, and the subjects are the clients that took part.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.privacy.records.record_spending import record_spending
from fedaudit.privacy.records.record_use import client_rate
from fedaudit.randomness import (
    CounterSource,
    EntropySource,
    Purpose,
    Source,
    sample_without_replacement,
)
from fedaudit.training.base.cell import Cell, counts_clients, draws_in_secret
from fedaudit.training.base.client_coins import drawn_clients
from fedaudit.training.base.record_sources import record_use_of, training_records, validation_rows
from fedaudit.training.base.record_table import record_table
from fedaudit.training.base.round_records import (
    FinalResult,
    PlannedRound,
    PlayedRounds,
    RoundColumns,
)
from fedaudit.training.base.row_figures import row_figures
from fedaudit.training.base.stopping import NEVER, EarlyStopping, RunEnd
from fedaudit.training.records.personalised_round import PersonalisedPlayed, PersonalisedRound
from fedaudit.training.records.personalised_state import PersonalisedState, first_personalised_state
from fedaudit.training.records.row_validation import RowValidator
from fedaudit.training.stacked.validation import Figures


class PersonalisedRun:
    """One experiment."""

    def __init__(self, cell: Cell, device: torch.device, checkpoint: bytes | None) -> None:
        spec, federation = cell.spec, cell.federation
        use = record_use_of(spec, federation)
        if use is None:
            raise ValueError(f"{spec.privacy.mechanism} gives records no budgets")
        self._cell, self._spec = cell, spec
        self._rate = client_rate(spec.training.cohort)
        self._use = use
        self._spending = None
        if use.plan.runs is not None:
            self._spending = record_spending(
                use, rounds=spec.training.rounds, delta=use.plan.runs[0].delta
            )
        self._records = training_records(spec, federation)
        self._held_out = validation_rows(spec, federation)
        self._round = PersonalisedRound(cell, self._records, use.plan, device)
        self._validator = RowValidator(cell, self._held_out, device)
        self._public = CounterSource(spec.seed)
        self._secret = draws_in_secret(cell)
        self._source: Source = EntropySource() if self._secret else self._public
        self._stopping = EarlyStopping.of_specs([spec])
        self._audited = NEVER
        self._drawn: dict[int, NDArray[np.int64]] = {}
        self._planned_until = 0
        self.stopped_by: RunEnd | None
        if checkpoint is None:
            self.state = first_personalised_state(cell)
        else:
            self.state = PersonalisedState.decode(checkpoint)
        self._theta = torch.from_numpy(self.state.theta).to(device)
        last = int(self._stopping.rounds[0])
        self.stopped_by = self._stopping.stop_reason(self.state.progress, 0, last_round=last)

    # -- rounds ---------------------------------------------------------------------------------

    def plan(self, rounds: int) -> list[PlannedRound]:
        """See `Trainer.plan`; whose coins fall is drawn then, where it is subjects."""
        first = self.state.round + 1
        last = min(self.state.round + rounds, self._spec.training.rounds, self._audited)
        self._planned_until = max(self._planned_until, last)
        return [
            PlannedRound(number, int(self._release(number)[0]), self._subjects(number))
            for number in range(first, last + 1)
        ]

    def _release(self, number: int) -> NDArray[np.int64]:
        """The release number of a round: [1]."""
        return self.state.progress.release_numbers(np.array([number]))

    def advance(self, rounds: int) -> PlayedRounds:
        """See `Trainer.advance`."""
        played: list[RoundColumns] = []
        with torch.no_grad():
            while len(played) < rounds and self.stopped_by is None:
                if self._secret and self.state.round >= self._planned_until:
                    if played:
                        break
                    raise RuntimeError("rounds with `release` noise must be planned first")
                played.append(self._play())
        return PlayedRounds(tuple(played))

    def _play(self) -> RoundColumns:
        """The next round."""
        state = self.state
        number = state.round + 1
        drawn, subjects = self._coins(number), self._subjects(number)
        played = self._round.play(
            self._theta, drawn, source=self._source, round_=number, paid=state.compositions
        )
        self._theta = played.theta
        self._drawn.pop(number, None)
        state.theta = played.theta.cpu().numpy().copy()
        state.participations[drawn] += 1
        figures = self._validate(number)
        self._observe(number, figures)
        return self._columns(subjects, played, figures)

    def _coins(self, number: int) -> NDArray[np.int64]:
        """The clients that are drawn for a round; drawn once, however often it is asked."""
        if number not in self._drawn:
            self._drawn[number] = drawn_clients(
                self._source, round_=number, clients=self._records.clients, rate=self._rate
            )
        return self._drawn[number]

    def _subjects(self, number: int) -> NDArray[np.int32]:
        """The charged subjects of a round: all groups, or the clients drawn where there is no
        noise."""
        if self._spending is None:
            return self._coins(number).astype(np.int32)
        return np.arange(len(self._spending.groups), dtype=np.int32)

    def _columns(
        self, subjects: NDArray[np.int32], played: PersonalisedPlayed, figures: Figures | None
    ) -> RoundColumns:
        """The round that was played last."""
        outcomes = np.full(len(subjects), Outcome.RELEASED, dtype=np.uint8)
        clusters = np.full(len(subjects), -1, dtype=np.int16)
        # The numbers of uploads and of withheld ones depend on the coins, which are secret.
        sizes: list[int] = []
        if self._spending is None:
            outcomes[~played.present] = Outcome.WITHHELD
            clusters[played.present] = 0
            sizes = [int(played.present.sum())]
        number, nothing = self.state.round, np.zeros(0)
        compositions = self._compositions()
        return RoundColumns(
            round=np.array([number]),
            release=self._release(number),
            subjects=subjects[np.newaxis],
            outcomes=outcomes[np.newaxis],
            radii=np.full((1, len(subjects)), np.nan),
            releases=self.releases()[subjects][np.newaxis],
            chosen=np.full((1, len(subjects)), -1 if self._spending else 0, dtype=np.int16),
            clusters=clusters[np.newaxis],
            cluster_sizes=np.array([sizes], dtype=np.int64),
            separation=np.full(1, np.nan),
            collapsed=np.zeros(1, dtype=np.bool_),
            place=np.array([-1 if figures is None else 0]),
            selection_losses=nothing if figures is None else figures.selection_loss,
            validation_losses=nothing if figures is None else figures.validation_loss,
            accuracies=None if figures is None else figures.accuracy,
            counts={} if figures is None else figures.counts,
            compositions={name: counts[np.newaxis] for name, counts in compositions.items()},
        )

    # -- what is charged ------------------------------------------------------------------------

    def releases(self) -> NDArray[np.int32]:
        """What the ledger's subjects were charged: rounds of [groups], or uploads of [clients]."""
        if self._spending is None:
            return self.state.participations.copy()
        return self._repeat_by_group(self.state.compositions)

    def _compositions(self) -> Mapping[Observer, NDArray[np.int32]]:
        if self._spending is None:
            return {}
        return {
            "final_model": self._repeat_by_group(self.state.compositions),
            "server": self._repeat_by_group(int(self.state.participations.max())),
        }

    def _repeat_by_group(self, count: int) -> NDArray[np.int32]:
        groups = 0 if self._spending is None else len(self._spending.groups)
        return np.full(groups, count, dtype=np.int32)

    def charge(self, subjects: NDArray[np.int32]) -> None:
        """See `Trainer.charge`. The outcome of the coins is lost too, so every client is
        charged."""
        if self._spending is None:
            self.state.participations[subjects] += 1
            return
        self.state.lost += 1
        self.state.participations[self._records.clients] += 1

    # -- validation and the end -----------------------------------------------------------------

    def _validate(self, number: int) -> Figures | None:
        """The figures of a round; None where it is not validated."""
        if not self._validates(number):
            return None
        stopping = self._spec.training.stopping
        chosen, clients = None, len(self._held_out.clients)
        if stopping.validation_clients is not None and stopping.validation_clients < clients:
            chosen = sample_without_replacement(
                self._public,
                purpose=Purpose.VALIDATION,
                round_=number,
                population=clients,
                count=stopping.validation_clients,
            )
        return self._validator.score(
            self._theta, chosen=chosen, per_client=counts_clients(self._spec)
        )

    def _validates(self, number: int) -> bool:
        last = np.minimum(self._stopping.rounds, self._audited)
        return bool(self._stopping.validates(np.array([number]), last_round=last)[0])

    def end_after(self, round_: int) -> None:
        """See `Trainer.end_after`."""
        self._audited = round_
        if self.stopped_by is None and self.state.round >= round_:
            self.stopped_by = "audit"

    def _observe(self, number: int, figures: Figures | None) -> None:
        """Counts the round in, keeps the model with the smallest selection loss, and may end."""
        followed = self._stopping.follow(
            self.state.progress,
            np.array([[number]]),
            np.full((1, 1), np.nan) if figures is None else figures.selection_loss[np.newaxis],
            np.array([[figures is not None]]),
            last_round=np.minimum(self._stopping.rounds, self._audited),
            playing=np.ones(1, dtype=np.bool_),
            audited=np.array([self._audited]),
        )
        if followed.improved[0] >= 0:
            self.state.best_theta = self.state.theta.copy()
        self.stopped_by = followed.ends.get(0)

    def result(self) -> FinalResult:
        """The result of the run, at its best model."""
        state = self.state
        theta = torch.from_numpy(state.best_theta).to(self._theta.device)
        figures = self._validator.score(theta, per_client=True)
        if figures.final is None:
            raise RuntimeError("the last evaluation is made client by client")
        start = torch.from_numpy(first_personalised_state(self._cell).theta).to(self._theta.device)
        return FinalResult(
            stopped_by=self.stopped_by or "running",
            rounds=state.round,
            best_round=int(state.progress.best_round[0]),
            hypotheses=state.best_theta[None].copy(),
            selection_loss=float(figures.selection_loss[0]),
            validation_loss=float(figures.validation_loss[0]),
            accuracy=_first(figures.accuracy),
            fairness=_first_counts(figures),
            single_row_clients=0,
            collapsed_rounds=0,
            start_loss=float(self._validator.score(start).selection_loss[0]),
            **vars(
                row_figures(
                    self._cell,
                    figures.final,
                    self._held_out.place,
                    by_client=self._held_out.by_client,
                )
            ),
            records=record_table(
                self._records,
                self._use,
                self._spending,
                rounds=state.compositions,
                participations=state.participations[self._records.clients],
            ),
        )


def _first(values: NDArray[np.float64] | None) -> float | None:
    return None if values is None else float(values[0])


def _first_counts(figures: Figures) -> dict[str, NDArray[np.int64]]:
    return {name: counts[0] for name, counts in figures.counts.items()}
