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
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Floats32, Ints, Ints32
from fedaudit.networks.stacked_network import ClientNetwork
from fedaudit.privacy.records.record_use import RECORD_OBSERVERS, record_spending
from fedaudit.reproducible import fixed_order_sum, one_thread
from fedaudit.training.base.cell import Cell, Splits, length_classes
from fedaudit.training.base.cohort import Block, rounds_ahead
from fedaudit.training.base.planted import PlantedRecords
from fedaudit.training.base.record_steps import (
    PlantedGradients,
    SiloRecords,
    features_and_target,
    local_optimiser,
    server_moves,
)
from fedaudit.training.base.records import RecordTable, record_use_of, training_records
from fedaudit.training.base.scored_rows import RowPlaces, ScoredRows
from fedaudit.training.mechanisms.registry import build_record_protection
from fedaudit.training.stacked.stack_round import (
    Cohort,
    Engine,
    RoundResult,
    Scoring,
    Sent,
    build_draws,
)
from fedaudit.training.stacked.stack_state import StackState
from fedaudit.training.stacked.validation import Figures, flat_figures

_NUMBERS_TOGETHER = 1 << 23
"""Parameters of the clients that are computed at once: an optimiser holds a few times as many."""


class RecordByRecord(Engine):
    """Plays and scores the rounds of one cell; the result does not depend on the number of threads.

    A client whose model is not finite is withheld; that follows from output that noise has already
    protected, and costs nothing.
    """

    def __init__(self, cells: Sequence[Cell], splits: Splits, device: torch.device) -> None:
        """Raises InvalidInputError where no noise is enough for the cell's budgets."""
        super().__init__(cells, splits, device)
        [cell] = cells
        use = record_use_of(cell.spec, cell.federation)
        if use is None:
            raise ValueError(f"{cell.spec.privacy.mechanism} gives records no budgets")
        self.use, self.records = use, training_records(cell.spec, cell.federation)
        self.training, self._held_out = cell.spec.training, cell.validation_rows
        self._features, self._target = features_and_target(
            cell.federation, self.records.place, device
        )
        self._scored_features, self._scored_target = features_and_target(
            cell.federation, self._held_out.place, device
        )
        self._counts = self.records.counts
        self._first = np.cumsum(self._counts) - self._counts
        self._classes = length_classes(self._counts)
        self._network = ClientNetwork(cell.shape, device)
        protection = build_record_protection(cell, self._loss, use, clients=len(self._counts))
        if not isinstance(cell.planted, PlantedRecords | None):
            raise ValueError("updates are planted where clients protect them, or a server does")
        self._planted_records = cell.planted
        self._noise, self._steps = protection.noise_multipliers, protection.steps

    def arrange(self, positions: Sequence[int]) -> None:
        """Prepares for rounds of the only cell."""
        self._moves = server_moves(self._cells[0].spec.training)
        self._source = build_draws(self._cells).of_cell(0)

    def rounds_ahead(self, cells: int) -> int:
        """Rounds worth drawing at once: every client tosses a coin."""
        return rounds_ahead(cells=cells, elements=self._cells[0].federation.clients)

    def draw_noise(self, block: Block) -> None:
        """Nothing: noise is drawn step by step."""

    def play(
        self, theta: Tensor, cohorts: Sequence[Cohort], clips: Floats | None, moments: Tensor | None
    ) -> list[RoundResult]:
        (cohort,) = cohorts
        average = theta
        with one_thread():
            models = self._learned(theta[0, 0], cohort)
            present = torch.isfinite(models).all(-1)
            if present.any():
                # Unweighted: the number of a client's records is not disclosed.
                kept = models[present]
                average = (fixed_order_sum(kept, 0) / len(kept))[None, None]
        zeros = torch.zeros(1, len(models), dtype=torch.int64, device=self._device)
        sent = Sent(zeros, models[None], present[None], radii=None, assigned=zeros)
        found = self._moved(RoundResult(theta, average, present.sum()[None, None], sent), moments)
        if self.use.runs is None:
            return [found]
        # The numbers of uploads and of withheld ones depend on the coins, which are secret.
        return [replace(found, sizes=torch.zeros_like(found.sizes), sent=None)]

    def _learned(self, theta: Tensor, cohort: Cohort) -> Tensor:
        """What the clients of a cohort make of the model [n], as they send it: [clients, n]."""
        places = np.searchsorted(self.records.clients, cohort.clients[0])
        round_ = int(cohort.rounds[0])
        size = self.training.step_size(round_)
        steps = replace(self._steps, optimiser=local_optimiser(self.training.local, size))
        together = max(1, _NUMBERS_TOGETHER // len(theta))
        models = theta.new_empty(len(places), len(theta))
        # A client's model does not depend on the clients beside it, nor on the padding.
        for one in self._classes:
            own = np.flatnonzero(np.isin(places, one.clients))
            for start in range(0, len(own), together):
                part = own[start : start + together]
                silos, planted = cohort.clients[0, part], None
                if self._planted_records is not None:
                    planted = PlantedGradients.among(self._planted_records, silos, rows=one.rows)
                records = SiloRecords(
                    features=self._features,
                    target=self._target,
                    first=self._first[places[part]],
                    inclusion=self._inclusion(places[part], cohort.paid, rows=one.rows),
                    noise_multipliers=self._noise[places[part]],
                    silos=silos,
                    planted=planted,
                )
                models[torch.from_numpy(part)] = steps(
                    theta, records, source=self._source, round_=round_
                )
        return models

    def _inclusion(self, places: Ints, paid: int, *, rows: int) -> Floats:
        """The chance of each record of the clients at `places` in each step of a round: [places,
        rows], 0 beyond a client's own."""
        number = np.arange(rows)
        client, row = np.nonzero(number < self._counts[places, None])
        index = self._first[places[client]] + row
        inclusion = np.zeros((len(places), rows))
        inclusion[client, row] = np.where(paid < self.use.rounds[index], self.use.rates[index], 0.0)
        return inclusion

    def score(self, asked: Scoring, *, per_client: bool = False) -> Figures:
        """The figures of one model, as those of a stack of one."""
        values, predictions, logits = self._tables(asked.theta[0, 0])
        held_out, (chosen,) = self._held_out, asked.clients
        if not self._cells[0].spec.federation.holds_out_rows:
            chosen = np.searchsorted(held_out.clients, chosen)
        rows = np.flatnonzero(np.isin(held_out.client_of, chosen))
        client = np.searchsorted(chosen, held_out.client_of[rows])
        places = RowPlaces(held_out.place[rows], client, len(chosen))
        values, scored = values[rows], held_out.scored[rows]
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
                np.array([self._mean(values, every, places)]),
                np.array([self._mean(values, scored, places)]),
            ),
            per_client=per_client,
        )

    def _mean(self, values: Floats, counted: Bools, places: RowPlaces) -> float:
        """The loss over the counted rows [rows]: of clients, or of all rows alike."""
        if not self._held_out.by_client:
            return float(values[counted].mean())
        # Row after row: a sum of more zeros at once is added up in another order.
        sums = np.bincount(places.client, weights=np.where(counted, values, 0.0))
        return float((sums / np.bincount(places.client, weights=counted)).mean())

    def _tables(self, theta: Tensor) -> tuple[Floats, NDArray[np.generic], Floats32 | None]:
        """Value, prediction and, of two classes, logit of each held-out row, [rows] on the host."""
        values, answers = [], []
        with one_thread(), torch.no_grad():
            self._network.load(theta)
            for start in range(0, len(self._scored_target), self._network.rows_at_once):
                part = slice(start, start + self._network.rows_at_once)
                outputs = self._network.outputs(self._scored_features[part])
                values.append(self._loss.values(outputs, self._scored_target[part]).double())
                answers.append(self._loss.answers(outputs))
        every = torch.cat(answers)
        return (
            torch.cat(values).cpu().numpy(),
            self._loss.predictions(every).cpu().numpy(),
            every.cpu().numpy() if self._loss.classes == 2 else None,
        )


class RecordCharges:
    """Whom the rounds of the cell charge: all groups of records by budget, and without noise the
    clients drawn.

    Of the state `releases` are the rounds that each client took part in, of a lost round all, and
    `budget_uses` the rounds that were paid for, lost ones included, which are composed like the
    others and count towards the rounds for which a record stays.
    """

    def __init__(self, engine: RecordByRecord, state: StackState) -> None:
        """Raises InvalidInputError where none of the records can be used."""
        self._engine, self._state, self._spending = engine, state, None
        runs = engine.use.runs
        if runs is not None:
            rounds = engine.training.rounds
            self._spending = record_spending(engine.use, rounds=rounds, delta=runs[0].delta)
        self.groups = 0 if self._spending is None else len(self._spending.groups)

    @property
    def _paid(self) -> int:
        """Rounds that were paid for."""
        return int(self._state.budget_uses[0].max())

    def cohort(self, block: Block, step: int) -> Cohort:
        """The clients whose coins fell for a round, possibly none."""
        assert block.drawn is not None
        clients = block.cohort[step][block.drawn[step]][None]
        allowed = np.ones(clients.shape, dtype=np.bool_)
        return Cohort(block.rounds[step], clients, allowed, noise=None, paid=self._paid)

    def subjects(self, drawn: Ints) -> Ints32:
        """Whom a round charges that these clients were drawn for."""
        return (drawn if self._spending is None else np.arange(self.groups)).astype(np.int32)

    def releases(self) -> Ints32:
        """What the ledger's subjects were charged: rounds of [groups], or uploads of [clients]."""
        if self._spending is None:
            return np.array(self._state.releases[0])
        return np.full(self.groups, self._paid, dtype=np.int32)

    def count_in(self, cohort: Cohort, subjects: Ints32) -> dict[str, Ints32]:
        """Counts a round in; returns what its subjects [1, 1, subjects] were charged until then,
        in all as `releases` and against each observer, of that shape each."""
        self._state.releases[0, cohort.clients[0]] += 1
        self._state.budget_uses += 1
        counted = {"releases": self.releases()[subjects]}
        if self._spending is not None:
            taken = {"final_model": self._paid, "server": int(self._state.releases[0].max())}
            for observer, count in taken.items():
                counted[observer] = np.full((1, 1, self.groups), count, dtype=np.int32)
        return counted

    def charge(self, subjects: Ints32) -> None:
        """Charges a round that was lost. The outcome of the coins is lost too, so that of groups
        every client is charged."""
        if self._spending is None:
            self._state.releases[0, subjects] += 1
            return
        self._state.budget_uses += 1
        self._state.releases[0, self._engine.records.clients] += 1

    def table(self) -> RecordTable:
        """What every record spent, in repeated rounds too."""
        records, use, spending = self._engine.records, self._engine.use, self._spending
        taken = self._state.releases[0, records.clients].astype(np.int64)
        charged = {"final_model": self._paid, "server": taken[use.client_of]}
        unbounded = np.where(use.left_out, 0.0, np.inf)
        return RecordTable(
            client=records.clients[records.client_of],
            row=records.row,
            budget=use.budgets,
            rate=use.rates,
            left_out=use.left_out,
            spent={
                one: unbounded if spending is None else spending.epsilons(one, charged[one])
                for one in RECORD_OBSERVERS
            },
        )
