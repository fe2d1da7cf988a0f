"""Record-level personalised privacy (rPDP-FL, CCS 2024), trained round by round.

Clients take part by coins and take private local steps; the server averages their models. Local
steps start from the global model with an optimiser that remembers nothing, so that all that a
client's records leave behind is in the averages. What the server makes of these looks at them
alone, so that the bound on them is one on the models.

The server divides by the number of clients whose coins fell. That keeps the two-stage bound: fix
the coins of all other clients; a record's own client then adds itself to m others or does not. The
round is the mixture (1 - lambda) P0 + lambda P1 with the record and (1 - lambda) P0 + lambda P1'
without, P0 being the same in both. P1 and P1' both divide by m + 1 and differ by the client's own
steps, at a divergence of at most tau rho(alpha). exp((alpha - 1) D_alpha) is jointly convex, so the
divergence of the round is at most

    log(1 - lambda + lambda exp((alpha - 1) tau rho(alpha))) / (alpha - 1),

and so it stays when the other coins are drawn. Nothing here asks P0 to be like P1.

The ledger's subjects are groups of records by budget, all of them in every round: a round in which
no client was drawn, or a group had left, counts like any other. Without noise (the baseline
`privacy-free`) there are no budgets to keep, and the subjects are the clients that took part.

Scores of one model on the held-out rows of `record-personalised`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Floats32, Ints, Ints32
from fedaudit.ledger.rows import Outcome
from fedaudit.networks.stacked_network import ClientNetwork
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.privacy.records.record_use import client_rate, record_spending
from fedaudit.randomness import (
    CounterSource,
    EntropySource,
    Purpose,
    Source,
    sample_without_replacement,
)
from fedaudit.reproducible import fixed_order_sum, one_thread, prepared_device
from fedaudit.training.base.cell import Cell, draws_in_secret, first_hypotheses, length_classes
from fedaudit.training.base.cohort import drawn_clients
from fedaudit.training.base.planted import of_records
from fedaudit.training.base.record_steps import (
    PlantedGradients,
    SiloRecords,
    flat_features,
    flat_target,
    local_optimiser,
    server_moves,
)
from fedaudit.training.base.records import (
    TrainingRecords,
    ValidationRows,
    record_table,
    record_use_of,
    training_records,
)
from fedaudit.training.base.rounds import (
    NEVER,
    Checkpoints,
    EarlyStopping,
    FinalResult,
    PlannedRound,
    PlayedRounds,
    RoundColumns,
    RunEnd,
)
from fedaudit.training.base.scored_rows import GroupCounter, RowPlaces, ScoredRows
from fedaudit.training.mechanisms.registry import build_record_protection
from fedaudit.training.stacked.stack_round import build_loss
from fedaudit.training.stacked.stack_state import CellState, StackState, final_result, first_state
from fedaudit.training.stacked.validation import Figures, flat_figures


class RowValidator:
    """Measures a model on the rows that are held out, a part of them at a time."""

    def __init__(self, cell: Cell, held_out: ValidationRows, device: torch.device) -> None:
        self._held_out = held_out
        self._loss = build_loss(cell)
        self._network = ClientNetwork(cell.shape, device)
        self._classes = length_classes(cell.federation.counts)
        self._counter = GroupCounter([cell.federation], cell.spec.fairness)
        self._features = flat_features(cell.federation, held_out.place, device)
        self._target = flat_target(cell.federation, held_out.place, device)

    def score(
        self, theta: Tensor, *, chosen: Ints | None = None, per_client: bool = False
    ) -> Figures:
        """Figures of the model theta [n], as those of a stack of one.

        `chosen`: places of some of the validation clients, ascending; all by default.
        """
        values, predictions, logits = self._tables(theta)
        held_out = self._held_out
        if chosen is None:
            chosen = np.arange(len(held_out.clients))
        rows = np.flatnonzero(np.isin(held_out.client_of, chosen))
        client = np.searchsorted(chosen, held_out.client_of[rows])
        places = RowPlaces(held_out.place[rows], client, len(chosen))
        values, scored = values[rows], held_out.scored[rows]
        clients = held_out.clients[chosen]
        every = np.ones(len(rows), dtype=np.bool_)
        return flat_figures(
            self._counter,
            ScoredRows(
                predictions[rows],
                None if logits is None else logits[rows],
                values,
                hypotheses=None,
                scored=scored,
            ),
            places,
            (
                np.array([self._mean(values, every, places, clients=clients)]),
                np.array([self._mean(values, scored, places, clients=clients)]),
            ),
            per_client=per_client,
        )

    def _mean(self, values: Floats, counted: Bools, places: RowPlaces, *, clients: Ints) -> float:
        """The loss over the counted rows [rows]: of clients, or of all rows alike."""
        if not self._held_out.by_client:
            return float(values[counted].mean())
        counts = np.bincount(places.client, minlength=places.clients)
        values, first = np.where(counted, values, 0.0), np.cumsum(counts) - counts
        sums = np.zeros(places.clients)
        for one in self._classes:
            own = np.flatnonzero(np.isin(clients, one.clients))
            number = np.arange(one.rows)
            index = np.minimum(first[own, None] + number, len(values) - 1)
            sums[own] = np.where(number < counts[own, None], values[index], 0.0).sum(1)
        return float((sums / np.bincount(places.client, weights=counted)).mean())

    def _tables(self, theta: Tensor) -> tuple[Floats, NDArray[np.generic], Floats32 | None]:
        """Value, prediction and, of two classes, logit of each held-out row, [rows] on the host."""
        values, answers = [], []
        with one_thread(), torch.no_grad():
            self._network.load(theta)
            for start in range(0, len(self._target), self._network.rows_at_once):
                part = slice(start, start + self._network.rows_at_once)
                outputs = self._network.outputs(self._features[part])
                values.append(self._loss.values(outputs, self._target[part]).double())
                answers.append(self._loss.answers(outputs))
        every = torch.cat(answers)
        return (
            torch.cat(values).cpu().numpy(),
            self._loss.predictions(every).cpu().numpy(),
            every.cpu().numpy() if self._loss.classes == 2 else None,
        )


_NUMBERS_TOGETHER = 1 << 23
"""Parameters of the clients that are computed at once: an optimiser holds a few times as many."""


@dataclass(frozen=True)
class PersonalisedPlayed:
    """The result of a round."""

    theta: Tensor
    """float32 [n]: the average of the models that were sent; the one before, where none were."""
    present: Bools
    """[clients drawn]: whose models were averaged. One that is not finite is withheld; that follows
    from output that noise has already protected, and costs nothing."""


class PersonalisedRound:
    """Runs rounds of one cell; the result does not depend on the number of threads."""

    def __init__(
        self, cell: Cell, records: TrainingRecords, plan: RecordPlan, device: torch.device
    ) -> None:
        self._plan = plan
        self._records = records
        self._features = flat_features(cell.federation, records.place, device)
        self._target = flat_target(cell.federation, records.place, device)
        self._counts = records.counts
        self._first = np.cumsum(self._counts) - self._counts
        self._classes = length_classes(self._counts)
        self._training = cell.spec.training
        protection = build_record_protection(
            cell, build_loss(cell), plan, clients=len(self._counts)
        )
        self._planted = of_records(cell.planted)
        self._noise, self._steps = protection.noise_multipliers, protection.steps

    def play(
        self, theta: Tensor, drawn: Ints, *, source: Source, round_: int, paid: int
    ) -> PersonalisedPlayed:
        """The round `round_` from the model theta [n], for the drawn clients of the federation.

        `paid`: rounds that were charged before this one. A record whose rounds are used up takes no
        further part.
        """
        places = np.searchsorted(self._records.clients, drawn)
        if not len(places):
            return PersonalisedPlayed(theta, np.zeros(0, dtype=np.bool_))
        size = self._training.step_size(round_)
        steps = replace(self._steps, optimiser=local_optimiser(self._training.local, size))
        together = max(1, _NUMBERS_TOGETHER // len(theta))
        models = theta.new_empty(len(places), len(theta))
        with one_thread():
            # A client's model does not depend on the clients beside it, nor on the padding.
            for one in self._classes:
                own = np.flatnonzero(np.isin(places, one.clients))
                for start in range(0, len(own), together):
                    part = own[start : start + together]
                    silos = self._silos(places[part], paid, rows=one.rows)
                    models[torch.from_numpy(part)] = steps(
                        theta, silos, source=source, round_=round_
                    )
            present = torch.isfinite(models).all(-1)
            if present.any():
                # Unweighted: the number of a client's records is not disclosed.
                kept = models[present]
                theta = fixed_order_sum(kept, 0) / len(kept)
        return PersonalisedPlayed(theta, present.cpu().numpy())

    def _silos(self, places: Ints, paid: int, *, rows: int) -> SiloRecords:
        """The records of the training clients at these places."""
        silos, planted = self._records.clients[places], None
        if self._planted is not None:
            planted = PlantedGradients.among(self._planted, silos, rows=rows)
        return SiloRecords(
            features=self._features,
            target=self._target,
            first=self._first[places],
            inclusion=self._inclusion(places, paid, rows=rows),
            noise_multipliers=self._noise[places],
            silos=silos,
            planted=planted,
        )

    def _inclusion(self, places: Ints, paid: int, *, rows: int) -> Floats:
        """The chance of each record of the clients at `places` in each step of a round: [places,
        rows], 0 beyond a client's own."""
        number = np.arange(rows)
        client, row = np.nonzero(number < self._counts[places, None])
        index = self._first[places[client]] + row
        inclusion = np.zeros((len(places), rows))
        inclusion[client, row] = np.where(
            paid < self._plan.rounds[index], self._plan.rates[index], 0.0
        )
        return inclusion


class PersonalisedRun:
    """A `Trainer` of one cell whose records have budgets; its methods are documented there."""

    def __init__(
        self, cells: Sequence[Cell], *, device: str = "cpu", checkpoints: Checkpoints | None = None
    ) -> None:
        """Starts the cell, or resumes it from its checkpoint.

        Raises ValueError for several cells, and InvalidInputError where no noise is enough for the
        cell's budgets, or none of its records can be used.
        """
        if len(cells) != 1:
            raise ValueError("an experiment whose records have budgets is trained alone")
        self._cell = cell = cells[0]
        self._spec = spec = cell.spec
        use = record_use_of(spec, cell.federation)
        if use is None:
            raise ValueError(f"{spec.privacy.mechanism} gives records no budgets")
        self._use, self.n = use, cell.shape.n
        self._rate = client_rate(spec.training.cohort)
        self._spending = None
        if use.plan.runs is not None:
            self._spending = record_spending(
                use, rounds=spec.training.rounds, delta=use.plan.runs[0].delta
            )
        self._groups = 0 if self._spending is None else len(self._spending.groups)
        self._records = training_records(spec, cell.federation)
        self._held_out = cell.validation_rows
        self._device = prepared_device(device)
        self._round = PersonalisedRound(cell, self._records, use.plan, self._device)
        self._validator = RowValidator(cell, self._held_out, self._device)
        self._public = CounterSource(spec.seed)
        self._secret = draws_in_secret(cell)
        self._source: Source = EntropySource() if self._secret else self._public
        self._stopping = EarlyStopping.of_specs([spec])
        self._audited = NEVER
        self._drawn: dict[int, Ints] = {}
        self._planned_until = 0
        checkpoint = None if checkpoints is None else checkpoints[0]
        state = first_state(cell) if checkpoint is None else CellState.decode(checkpoint)
        self._state = StackState.of([state])
        """Of it `releases` are the rounds that each client took part in, of a lost round all, and
        `budget_uses` the rounds that were paid for, lost ones included, which are composed like the
        others and count towards the rounds for which a record stays."""
        self._theta = torch.from_numpy(state.hypotheses[0]).to(self._device)
        self._moves = server_moves(spec.training)
        last = int(self._stopping.rounds[0])
        self._ended: RunEnd | None = self._stopping.stop_reason(
            self._state.progress, 0, last_round=last
        )

    @property
    def active(self) -> list[int]:
        return [0] if self._ended is None else []

    @property
    def _played(self) -> int:
        """Rounds done."""
        return int(self._state.progress.round[0])

    @property
    def _paid(self) -> int:
        """Rounds that were paid for."""
        return int(self._state.budget_uses[0].max())

    # -- rounds ---------------------------------------------------------------------------------

    def plan(self, rounds: int) -> dict[int, list[PlannedRound]]:
        """See `Trainer.plan`; client coins are drawn here where clients are the subjects."""
        if self._ended is not None:
            return {}
        last = min(self._played + rounds, self._spec.training.rounds, self._audited)
        self._planned_until = max(self._planned_until, last)
        return {
            0: [
                PlannedRound(number, int(self._release(number)[0]), self._subjects(number))
                for number in range(self._played + 1, last + 1)
            ]
        }

    def _release(self, number: int) -> Ints:
        """The release number of a round: [1]."""
        return self._state.progress.release_numbers(np.array([number]))

    def advance(self, rounds: int) -> dict[int, PlayedRounds]:
        if self._ended is not None:
            return {}
        played: list[RoundColumns] = []
        with torch.no_grad():
            while len(played) < rounds and self._ended is None:
                if self._secret and self._played >= self._planned_until:
                    if played:
                        break
                    raise RuntimeError("rounds with `release` noise must be planned first")
                played.append(self._play())
        return {0: PlayedRounds(tuple(played))}

    def _play(self) -> RoundColumns:
        state = self._state
        number = self._played + 1
        drawn, subjects = self._coins(number), self._subjects(number)
        played = self._round.play(
            self._theta, drawn, source=self._source, round_=number, paid=self._paid
        )
        self._theta = self._moved(played)
        self._drawn.pop(number, None)
        state.hypotheses[0, 0] = self._theta.cpu().numpy()
        state.releases[0, drawn] += 1
        state.budget_uses += 1
        figures = self._validate(number)
        self._observe(number, figures)
        return self._columns(subjects, played, figures)

    def _moved(self, played: PersonalisedPlayed) -> Tensor:
        """The model [n] that the server makes of a round's average."""
        if self._moves is None or self._state.moments is None:
            return played.theta
        theta, moments = self._moves(
            self._theta[None],
            played.theta[None],
            torch.from_numpy(self._state.moments[0]).to(self._device),
            moved=torch.full((1,), bool(played.present.any()), device=self._device),
        )
        self._state.moments[0] = moments.cpu().numpy()
        return theta[0]

    def _coins(self, number: int) -> Ints:
        """The clients that are drawn for a round; a second call gives the same."""
        if number not in self._drawn:
            self._drawn[number] = drawn_clients(
                self._source, round_=number, clients=self._records.clients, rate=self._rate
            )
        return self._drawn[number]

    def _subjects(self, number: int) -> Ints32:
        """The charged subjects of a round: all groups; without noise, the clients drawn."""
        if self._spending is None:
            return self._coins(number).astype(np.int32)
        return np.arange(self._groups, dtype=np.int32)

    def _columns(
        self, subjects: Ints32, played: PersonalisedPlayed, figures: Figures | None
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
        number, nothing = self._played, np.zeros(0)
        return RoundColumns(
            round=np.array([number]),
            release=self._release(number),
            subjects=subjects[np.newaxis],
            outcomes=outcomes[np.newaxis],
            radii=np.full((1, len(subjects)), np.nan),
            releases=self.releases(0)[subjects][np.newaxis],
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
            compositions=self._compositions(),
        )

    # -- what is charged ------------------------------------------------------------------------

    def releases(self, position: int) -> Ints32:
        """What the ledger's subjects were charged: rounds of [groups], or uploads of [clients]."""
        if self._spending is None:
            taken: Ints32 = self._state.releases[0].copy()
            return taken
        return np.full(self._groups, self._paid, dtype=np.int32)

    def _compositions(self) -> Mapping[Observer, Ints32]:
        """What each group was charged against each observer: [1, groups]."""
        if self._spending is None:
            return {}
        counts: dict[Observer, int] = {
            "final_model": self._paid,
            "server": int(self._state.releases[0].max()),
        }
        shape = 1, self._groups
        return {name: np.full(shape, count, dtype=np.int32) for name, count in counts.items()}

    def set_release(self, position: int, release: int, *, until: int) -> None:
        progress = self._state.progress
        progress.release[0], progress.release_until[0] = release, until

    def charge(self, position: int, subjects: Ints32) -> None:
        """See `Trainer.charge`. The outcome of the coins is lost too, so every client is
        charged."""
        if self._spending is None:
            self._state.releases[0, subjects] += 1
            return
        self._state.budget_uses += 1
        self._state.releases[0, self._records.clients] += 1

    # -- validation and the end -----------------------------------------------------------------

    def _validate(self, number: int) -> Figures | None:
        """The figures of a round; None where it is not validated."""
        last = np.minimum(self._stopping.rounds, self._audited)
        if not self._stopping.validates(np.array([number]), last_round=last)[0]:
            return None
        size = self._spec.training.stopping.validation_clients
        chosen, clients = None, len(self._held_out.clients)
        if size is not None and size < clients:
            chosen = sample_without_replacement(
                self._public,
                purpose=Purpose.VALIDATION,
                round_=number,
                population=clients,
                count=size,
            )
        return self._validator.score(self._theta, chosen=chosen)

    def _observe(self, number: int, figures: Figures | None) -> None:
        """Counts the round in, keeps the model with the smallest selection loss, and may end."""
        followed = self._stopping.follow(
            self._state.progress,
            np.array([[number]]),
            np.full((1, 1), np.nan) if figures is None else figures.selection_loss[np.newaxis],
            np.array([[figures is not None]]),
            last_round=np.minimum(self._stopping.rounds, self._audited),
            playing=np.ones(1, dtype=np.bool_),
            audited=np.array([self._audited]),
        )
        if followed.improved[0] >= 0:
            self._state.best_hypotheses[0] = self._state.hypotheses[0]
        self._ended = followed.ends.get(0)

    def checkpoint(self, position: int) -> bytes:
        return self._state.of_cell(0).encode()

    def stop(self, position: int) -> None:
        self._ended = self._ended or "cancelled"

    def end_after(self, position: int, round_: int) -> None:
        self._audited = round_
        if self._ended is None and self._played >= round_:
            self._ended = "audit"

    def result(self, position: int) -> FinalResult:
        state, held_out = self._state.of_cell(0), self._held_out
        best = torch.from_numpy(state.best_hypotheses[0]).to(self._device)
        start = torch.from_numpy(first_hypotheses(self._cell)[0]).to(self._device)
        return final_result(
            self._cell,
            state,
            self._validator.score(best, per_client=True),
            end=self._ended or "running",
            start_loss=float(self._validator.score(start).selection_loss[0]),
            by_client=held_out.by_client,
            records=record_table(
                self._records,
                self._use,
                self._spending,
                rounds=self._paid,
                participations=state.releases[self._records.clients],
            ),
        )
