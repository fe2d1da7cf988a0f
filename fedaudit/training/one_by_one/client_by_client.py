"""Rounds computed one client at a time: for images, whose rows are not padded.

A network of a million parameters leaves no room for copies of all clients' parameters, and on a
processor one client's convolutions are fastest alone. There is one buffer of uploads, and noise is
drawn for a client when it releases its upload, straight into that.

Everything runs on one thread, so that a run does not depend on their number.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.client_network import ClientNetwork
from fedaudit.one_thread import one_thread
from fedaudit.training.base.cell import Cell, cohort_clients
from fedaudit.training.base.cohort import Block, rounds_ahead
from fedaudit.training.base.group_counts import GroupCounter
from fedaudit.training.base.planted import PlantedUpdates, of_updates
from fedaudit.training.base.splits import Splits
from fedaudit.training.mechanisms.base import ClientProtection, TrustedServer
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.methods.method_choice import training_method
from fedaudit.training.one_by_one.client_data import ClientData
from fedaudit.training.one_by_one.client_update import ClientUpdate
from fedaudit.training.one_by_one.client_validation import ClientValidator
from fedaudit.training.stacked.planting import planted_places, show_sum, show_uploads
from fedaudit.training.stacked.round_method import (
    build_draws,
    build_loss,
    build_server,
    personal_steps,
)
from fedaudit.training.stacked.stack_round import Cohort, RoundResult, Sent
from fedaudit.training.stacked.validation import Figures


class ClientByClient:
    """Plays and scores the rounds of one cell; an `Engine`."""

    def __init__(self, cell: Cell, splits: Splits, device: torch.device) -> None:
        loss, federation = build_loss(cell), cell.federation
        self._splits = splits
        self._device = device
        self._network = ClientNetwork(cell.shape, device)
        data = ClientData(federation, device)
        self._update = ClientUpdate(self._network, loss, cell.spec.training.local, data)
        counter = GroupCounter([federation], cell.spec.fairness)
        self._validator = ClientValidator(self._network, loss, data, counter)
        self._protection = build_protection([cell], device)
        self._server = build_server(cell)
        self._draws = build_draws([cell])
        self._weighting = training_method(cell.spec.training).weighting
        self._personal = personal_steps(cell)
        self._cell = cell
        self._planted = of_updates(cell.planted)
        self._k = cell.spec.training.hypotheses

    def arrange(self, positions: Sequence[int]) -> None:
        """Allocates the buffer for uploads: one vector each, or the sums of a trusted server."""
        n, device = self._network.shape.n, self._device
        match self._protection:
            case TrustedServer():
                # As in `block_sums`: in single precision one client could move a sum too far.
                self._sent = torch.zeros(1, self._k, n, dtype=torch.float64, device=device)
            case ClientProtection():
                width = n if self._weighting is None else n + 1
                self._sent = torch.zeros(1, cohort_clients(self._cell), width, device=device)
            case _:
                assert_never(self._protection)

    def rounds_ahead(self, cells: int) -> int:
        """Rounds worth drawing at once: only cohorts are drawn ahead."""
        return rounds_ahead(cells=cells, elements=0)

    def rounds_together(self, cells: int) -> int:
        """One: a round's uploads are overwritten when the next is run."""
        return 1

    def draw_noise(self, block: Block) -> None:
        """Nothing: noise is drawn for a client when it releases its upload."""

    def play(
        self, theta: Tensor, cohorts: Sequence[Cohort], clips: NDArray[np.float64] | None
    ) -> list[RoundResult]:
        """One round from hypotheses theta [1, k, n]; `clips` [1] of a trusted server."""
        (cohort,) = cohorts
        with one_thread():
            match self._protection:
                case ClientProtection() as protection:
                    return [self._bring_together(protection, theta, cohort)]
                case TrustedServer() as server:
                    if clips is None:
                        raise ValueError("a trusted server needs clips")
                    return [self._add_up(server, theta, cohort, clips)]
                case _:
                    assert_never(self._protection)

    def _bring_together(
        self, protection: ClientProtection, theta: Tensor, cohort: Cohort
    ) -> RoundResult:
        """Each client protects its own upload, and the server averages what it receives."""
        clients, allowed = cohort.clients[0].tolist(), cohort.allowed[0].tolist()
        uploads, round_ = self._sent, int(cohort.rounds[0])
        chosen = self._chosen(theta, clients)
        present = torch.zeros(1, len(clients), dtype=torch.bool, device=self._device)
        shape = (1, *protection.radii_shape(len(clients)))
        radii = torch.full(shape, torch.nan, dtype=torch.float64)
        for place, client in enumerate(clients):
            upload = uploads[0, place]
            if allowed[place]:
                start = theta[0, int(chosen[place])]
                self._move(client, start, round_)
                upload.copy_(self._learned(client, start))
                radii[0, place] = protection.protect_in_place(
                    upload, start, source=self._draws.source(), round_=round_, client=client
                )
                present[0, place] = torch.isfinite(upload.sum()) or torch.isfinite(upload).all()
            if not present[0, place]:
                upload.zero_()  # nothing is sent by this client
        if self._planted is not None:
            start = theta[0, chosen][None]
            show_uploads(self._planted, cohort.clients, present, start, uploads)
        clusters = self._server(theta, uploads, present, chosen[None])
        return RoundResult(
            before=theta,
            hypotheses=clusters.hypotheses,
            sizes=clusters.sizes,
            sent=Sent(chosen[None], uploads, present, radii, clusters.assigned),
        )

    def _chosen(self, theta: Tensor, clients: Sequence[int]) -> Tensor:
        """The hypothesis of theta [1, k, n] that each client chooses; the first, where planted."""
        chosen = self._validator.best(theta[0], clients)
        if self._planted is not None:
            own, _ = planted_places(self._planted, np.array(clients, dtype=np.int64))
            chosen[own] = 0
        return chosen

    def _move(self, client: int, start: Tensor, round_: int) -> None:
        """Sets the network to the client's update of the hypothesis `start` [n]."""
        if self._planted is not None and client in self._planted.clients:
            place = np.searchsorted(self._planted.clients, [client])
            planted = torch.from_numpy(self._planted.updates(place)[0])
            self._network.load(start + planted.to(start.device))
            return
        self._network.load(start)
        self._update(client, source=self._draws.source(), round_=round_)

    def _learned(self, client: int, start: Tensor) -> Tensor:
        """What the client makes of its update of `start` [n], which the network holds, to send."""
        updated = self._network.theta
        if self._weighting is None:
            return updated
        updated = updated.clone()
        loss = self._validator.loss(start, client)
        return self._weighting.weigh(start[None, None], updated[None, None], loss[None, None])[0, 0]

    def _add_up(
        self, server: TrustedServer, theta: Tensor, cohort: Cohort, clips: NDArray[np.float64]
    ) -> RoundResult:
        """A trusted server adds up clipped updates, one after the other, and adds noise."""
        clients, round_ = cohort.clients[0][cohort.allowed[0]].tolist(), int(cohort.rounds[0])
        clip, sums = torch.from_numpy(clips).to(self._device), self._sent.zero_()
        chosen = self._chosen(theta, clients).tolist()
        within = taking_part = 0
        shown: dict[int, Tensor] = {}
        for client, hypothesis in zip(clients, chosen, strict=True):
            start = theta[0, hypothesis]
            self._move(client, start, round_)
            update = self._network.theta - start
            clipped, finite = server.clip(update, clip[0])
            if self._planted is not None and hypothesis == 0 and bool(finite):
                shown[client] = update.clone()
            sums[0, hypothesis] += clipped
            taking_part += int(finite)
            if server.clip_moves:
                within += int(finite & server.within(update, clip[0]))
        noise = server.draw(self._draws, cohort.rounds)
        if server.clip_moves:
            clips = server.next_clips(
                clips, within=[within], taking_part=[taking_part], noise=noise.counts
            )
        hypotheses = server.average(theta, sums, noise.sums, clips=clip[:, None])
        if self._planted is not None:
            self._show(self._planted, shown, before=theta, after=hypotheses)
        return RoundResult(
            before=theta,
            hypotheses=hypotheses,
            sizes=torch.zeros(1, self._k, dtype=torch.int64, device=self._device),
            sent=None,
            clips=clips,
        )

    def _show(
        self, planted: PlantedUpdates, shown: dict[int, Tensor], *, before: Tensor, after: Tensor
    ) -> None:
        """Shows the updates [n] behind the sum of the first hypothesis, by client."""
        updates = before.new_zeros(1, len(shown), before.shape[-1])
        for place, update in enumerate(shown.values()):
            updates[0, place] = update
        clients = np.array([list(shown)], dtype=np.int64)
        counted = torch.ones(clients.shape, dtype=torch.bool)
        show_sum(planted, clients, counted, updates, before=before, after=after)

    def score(
        self,
        theta: Tensor,
        clients: NDArray[np.int64],
        positions: Sequence[int],
        sizes: Tensor,
        *,
        per_client: bool = False,
        tuned: bool = True,
    ) -> Figures:
        """Figures of hypotheses theta [1, k, n] on validation clients [1, clients].

        `sizes` [1, k]: uploads in each cluster; `tuned` as in `Measure`.
        """
        personal = self._personal
        if personal is not None and not tuned:
            personal = replace(personal, steps=0)
        tune = None if personal is None else partial(self._update.tune, personal=personal)
        with one_thread():
            return self._validator.score(
                theta[0],
                clients[0],
                sizes[0].argmax().cpu(),
                scored=self._splits.scored_rows(clients[0], positions[0]),
                per_client=per_client,
                tune=tune,
            )
