"""Rounds computed one client at a time: for images, whose rows are too wide to pad.

A network of a million parameters leaves no room for copies of all clients' parameters, and on a
processor one client's convolutions are fastest alone (`networks.pooled_convolutions`). A round has
one array of uploads, and noise is drawn for a client when it releases its upload. Everything runs
on one thread, so that a run does not depend on their number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Floats, Ints
from fedaudit.federations.federation import Federation
from fedaudit.networks.stacked_network import ClientNetwork, Loss
from fedaudit.randomness import Purpose, Source
from fedaudit.reproducible import one_thread
from fedaudit.spec.training import Training
from fedaudit.training.base.cell import Cell, Splits
from fedaudit.training.base.cohort import Block, rounds_ahead
from fedaudit.training.base.record_steps import features_and_target, local_optimiser
from fedaudit.training.base.scored_rows import ScoredRows
from fedaudit.training.mechanisms.gaussian import TrustedServer
from fedaudit.training.methods import PersonalSteps, training_method
from fedaudit.training.stacked.clients import whole_data, without_nan
from fedaudit.training.stacked.stack_round import Cohort, Engine, Learned, RoundResult, Scoring
from fedaudit.training.stacked.validation import Figures, Scores, flat_figures, score


class ClientUpdate:
    """Local steps on a client's rows, in the same order as in `batches_of`."""

    def __init__(
        self, network: ClientNetwork, loss: Loss, training: Training, federation: Federation
    ) -> None:
        self._network = network
        self._loss = loss
        self._training = training
        self._local = training.local
        self._federation = federation
        self._slopes = torch.zeros_like(network.theta)
        self._descends_by_rows = training.local.descends_plainly and not loss.root_mean

    def __call__(self, client: int, *, source: Source, round_: int) -> None:
        """Moves the network's parameters; `source` is that of a stack of one."""
        size = self._training.step_size(round_)
        optimiser, theta = local_optimiser(self._local, size), self._network.theta
        state = optimiser.start(theta)
        at_once = self._network.rows_at_once if self._descends_by_rows else 0
        for batch in self._batches(client, source, round_):
            if len(batch) <= at_once:  # No vector of slopes: a fifth of the time of large layers.
                self._add_gradient(batch, onto=theta, scale=-size / len(batch))
                continue
            gradient, factor = self._gradient(batch)
            if self._local.descends_plainly:
                theta.sub_(gradient, alpha=size * factor)
            else:
                moved, state = optimiser.step(theta, gradient * factor, state)
                self._network.load(moved)

    def tune(self, rows: Ints, personal: PersonalSteps) -> None:
        """Makes a client's own model of the network's parameters, from its rows at these places."""
        theta, common = self._network.theta, self._network.theta.clone()
        state = personal.optimiser.start(common)
        for _ in range(personal.steps if len(rows) else 0):
            pull = personal.pull(theta, common)
            gradient, factor = self._gradient(rows)
            if not self._local.descends_plainly:
                moved, state = personal.after(theta, common, gradient * factor, state)
                self._network.load(moved)
                continue
            theta.sub_(gradient, alpha=personal.step_size * factor)
            if pull is not None:
                self._network.load(theta - pull)

    def _gradient(self, batch: Ints) -> tuple[Tensor, float]:
        """The gradient [n] of the sum over the batch, valid until the next; and what it is
        multiplied by to be that of the client's loss."""
        total, gradient = self._slopes.new_zeros(()), self._slopes.zero_()
        step = self._network.rows_at_once
        for start in range(0, len(batch), step):
            total += self._add_gradient(batch[start : start + step], onto=gradient)
        if not self._loss.root_mean:
            return gradient, 1 / len(batch)  # Nothing has to leave the device.
        return gradient, self._loss.client_slope(total / len(batch)).item() / len(batch)

    def _add_gradient(self, rows: Ints, *, onto: Tensor, scale: float = 1.0) -> Tensor:
        given = features_and_target(self._federation, rows, onto.device)
        return self._network.add_gradient(*given, self._loss, onto, scale=scale)

    def _batches(self, client: int, source: Source, round_: int) -> Iterator[Ints]:
        """The places of each batch's rows in the federation."""
        local, own = self._local, self._federation.own(client)
        rows = own.stop - own.start
        if local.batch_size is None or whole_data(local, rows):
            for _ in range(local.whole_steps):
                yield np.arange(own.start, own.stop)
            return
        size = local.batch_size
        batches = -(-rows // size)
        # A client whose rows are used up starts over where every client takes as many steps.
        steps = local.steps or (local.epochs or 1) * batches
        epochs = -(-steps // batches)
        words = source.words(
            purpose=Purpose.BATCHES, round_=round_, counters=client, count=epochs * rows
        )
        orders = words.reshape(epochs, rows).argsort(-1, kind="stable")
        for step in range(steps):
            first = step % batches * size
            yield own.start + orders[step // batches, first : first + size]


class ClientByClient(Engine):
    """Plays and scores the rounds of one cell, one round at a time."""

    def __init__(self, cells: Sequence[Cell], splits: Splits, device: torch.device) -> None:
        cell = cells[0]
        self._network = ClientNetwork(cell.shape, device)
        self._weighting = training_method(cell.spec.training).weighting
        super().__init__(cells, splits, device)
        self._federation = cell.federation
        self._update = ClientUpdate(self._network, self._loss, cell.spec.training, cell.federation)

    def rounds_ahead(self, cells: int) -> int:
        """Rounds worth drawing at once: only cohorts are drawn ahead."""
        return rounds_ahead(cells=cells, elements=0)

    def draw_noise(self, block: Block) -> None:
        """Nothing: noise is drawn for a client when it releases its upload, or for a sum."""

    def play(
        self, theta: Tensor, cohorts: Sequence[Cohort], clips: Floats | None, moments: Tensor | None
    ) -> list[RoundResult]:
        (cohort,) = cohorts
        if isinstance(self._protection, TrustedServer):
            noise = self._protection.draw(self._draws, cohort.rounds, cohort.clients)
            cohort = replace(cohort, noise=noise.vectors, count_noise=noise.counts)
        with one_thread():
            found = self._collect(theta, cohort, self._learned(theta, cohort), clips)
            return [self._moved(found, moments)]

    def _learned(self, theta: Tensor, cohort: Cohort) -> Iterator[Learned]:
        """What each client that may take part makes of the hypothesis it chose of theta [1, k, n],
        valid until the next; what one makes that may not where there is no other."""
        sending, source = np.flatnonzero(cohort.allowed[0]), self._draws.source()
        sending = sending if len(sending) else np.zeros(1, dtype=np.int64)
        clients = cohort.clients[0, sending].tolist()
        chosen = [0] * len(clients)
        if theta.shape[1] > 1:
            sums = torch.stack([values.sum(1) for values, _ in self._tables(theta[0], clients)])
            chosen = without_nan(sums).min(1).indices.tolist()
        for place, client, hypothesis in zip(sending, clients, chosen, strict=True):
            start = theta[:, hypothesis : hypothesis + 1]
            self._network.load(start[0, 0])
            self._update(client, source=source, round_=int(cohort.rounds[0]))
            updated = self._network.theta[None, None]
            if self._weighting is not None:
                updated = updated.clone()
                self._network.load(start[0, 0])
                loss = self._loss.client_loss(self._table(client)[0].mean())[None, None]
                updated = self._weighting.weigh(start, updated, loss.to(theta.device))
            index = torch.tensor([[hypothesis]], device=theta.device)
            yield Learned(index, start, updated, places=np.array([place]))

    def score(self, asked: Scoring, *, per_client: bool = False) -> Figures:
        clients = asked.clients[0]
        places = self._counter.rows(clients)
        scored = self._splits.scored_rows(clients, asked.positions[0])
        own: list[Tensor | None] = [None] * len(clients)
        if scored is not None:
            own = [torch.from_numpy(scored[rows]) for rows in places.by_client]
        with one_thread():
            tables = self._tables(asked.theta[0], clients.tolist())
            found = [
                self._scored(asked, client, *table, own=rows)
                for client, table, rows in zip(clients.tolist(), tables, own, strict=True)
            ]
            answers = torch.cat([of_rows for _, _, of_rows in found])
            chosen = [scores.chosen.flatten() for scores, *_ in found if scores.chosen is not None]
            rows = ScoredRows(
                predictions=self._loss.predictions(answers).numpy(),
                logits=answers.numpy() if self._loss.classes == 2 else None,
                values=torch.cat([of_rows for _, of_rows, _ in found]).numpy(),
                hypotheses=torch.cat(
                    chosen or [torch.zeros(len(answers), dtype=torch.int64)]
                ).numpy(),
                scored=scored,
            )
            losses = (
                torch.cat([scores.selection_loss for scores, *_ in found]).mean(0).numpy(),
                torch.cat([scores.validation_loss for scores, *_ in found]).mean(0).numpy(),
            )
        return flat_figures(self._counter, rows, places, losses, per_client=per_client)

    def _scored(
        self, asked: Scoring, client: int, values: Tensor, answers: Tensor, *, own: Tensor | None
    ) -> tuple[Scores, Tensor, Tensor]:
        """A client's scores, and the value and answer of each of its rows by the row's hypothesis.

        `values` and `answers` as of `_tables`; `own` bool [rows]: which rows are scored.
        """
        values, answers = values[..., None, None], answers[..., None, None]
        scores = score(
            self._loss,
            values,
            count=torch.full((1, 1), float(values.shape[1])),
            scored=None if own is None else own[:, None, None],
            largest=asked.sizes[:1].argmax(-1).cpu(),
        )
        if self._personal is None or own is None:
            return scores, scores.of_chosen(values).flatten(), scores.of_chosen(answers).flatten()
        chosen = 0 if scores.chosen is None else int(scores.chosen[0])
        self._network.load(asked.theta[0, chosen])
        tunes = self._federation.own(client).start + np.flatnonzero(~own.numpy())
        self._update.tune(
            tunes, self._personal if asked.tuned else replace(self._personal, steps=0)
        )
        values, answers = self._table(client)
        loss = self._loss.client_loss(values[own].mean()).reshape(1, 1)
        return replace(scores, selection_loss=loss, validation_loss=loss), values, answers

    def _tables(self, theta: Tensor, clients: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        """For each client, on the host: float64 values [k, rows] of its rows, and answers."""
        found = []
        for hypothesis in theta:
            self._network.load(hypothesis)
            found.append([self._table(client) for client in clients])
        each = (zip(*of_client, strict=True) for of_client in zip(*found, strict=True))
        return [(torch.stack(values), torch.stack(answers)) for values, answers in each]

    def _table(self, client: int) -> tuple[Tensor, Tensor]:
        """Values float64 [rows] and answers [rows] of a client's rows, on the host, by the network
        as it is."""
        own, step = self._federation.own(client), self._network.rows_at_once
        values, answers = [], []
        for start in range(own.start, own.stop, step):
            rows = slice(start, min(start + step, own.stop))
            features, target = features_and_target(self._federation, rows, self._device)
            with torch.no_grad():
                outputs = self._network.outputs(features)
            values.append(self._loss.values(outputs, target).double().cpu())
            answers.append(self._loss.answers(outputs).cpu())
        return torch.cat(values), torch.cat(answers)
