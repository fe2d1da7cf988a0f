"""Rounds computed one client at a time: for images, whose rows are not padded.

A network of a million parameters leaves no room for copies of all clients' parameters, and on a
processor one client's convolutions are fastest alone. There is one buffer of uploads, and noise is
drawn for a client when it releases its upload, straight into that.

Everything runs on one thread, so that a run does not depend on their number.
"""

from collections.abc import Sequence
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
from fedaudit.training.base.splits import Splits
from fedaudit.training.mechanisms.base import ClientProtection, TrustedServer
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.one_by_one.client_data import ClientData
from fedaudit.training.one_by_one.client_update import ClientUpdate
from fedaudit.training.one_by_one.client_validation import ClientValidator
from fedaudit.training.stacked.round_method import build_draws, build_loss, build_server
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
        self._cell = cell
        self._k = cell.spec.training.hypotheses

    def arrange(self, positions: Sequence[int]) -> None:
        """Allocates the buffer for uploads: one vector each, or the sums of a trusted server."""
        n, device = self._network.shape.n, self._device
        match self._protection:
            case TrustedServer():
                # As in `block_sums`: in single precision one client could move a sum too far.
                self._sent = torch.zeros(1, self._k, n, dtype=torch.float64, device=device)
            case ClientProtection():
                self._sent = torch.zeros(1, cohort_clients(self._cell), n, device=device)
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
        chosen = self._validator.best(theta[0], clients)
        present = torch.zeros(1, len(clients), dtype=torch.bool, device=self._device)
        shape = (1, *protection.radii_shape(len(clients)))
        radii = torch.full(shape, torch.nan, dtype=torch.float64)
        for place, client in enumerate(clients):
            upload = uploads[0, place]
            if allowed[place]:
                start = theta[0, int(chosen[place])]
                self._move(client, start, round_)
                upload.copy_(self._network.theta)
                radii[0, place] = protection.protect_in_place(
                    upload, start, source=self._draws.source(), round_=round_, client=client
                )
                present[0, place] = torch.isfinite(upload.sum()) or torch.isfinite(upload).all()
            if not present[0, place]:
                upload.zero_()  # nothing is sent by this client
        clusters = self._server(theta, uploads, present, chosen[None])
        return RoundResult(
            before=theta,
            hypotheses=clusters.hypotheses,
            sizes=clusters.sizes,
            sent=Sent(chosen[None], uploads, present, radii, clusters.assigned),
        )

    def _move(self, client: int, start: Tensor, round_: int) -> None:
        """Sets the network to the client's update of the hypothesis `start` [n]."""
        self._network.load(start)
        self._update(client, source=self._draws.source(), round_=round_)

    def _add_up(
        self, server: TrustedServer, theta: Tensor, cohort: Cohort, clips: NDArray[np.float64]
    ) -> RoundResult:
        """A trusted server adds up clipped updates, one after the other, and adds noise."""
        clients, round_ = cohort.clients[0][cohort.allowed[0]].tolist(), int(cohort.rounds[0])
        clip, sums = torch.from_numpy(clips).to(self._device), self._sent.zero_()
        chosen = self._validator.best(theta[0], clients).tolist()
        within = taking_part = 0
        for client, hypothesis in zip(clients, chosen, strict=True):
            start = theta[0, hypothesis]
            self._move(client, start, round_)
            update = self._network.theta - start
            clipped, finite = server.clip(update, clip[0])
            sums[0, hypothesis] += clipped
            taking_part += int(finite)
            if server.clip_moves:
                within += int(finite & server.within(update, clip[0]))
        noise = server.draw(self._draws, cohort.rounds)
        if server.clip_moves:
            clips = server.next_clips(
                clips, within=[within], taking_part=[taking_part], noise=noise.counts
            )
        return RoundResult(
            before=theta,
            hypotheses=server.average(theta, sums, noise.sums, clips=clip[:, None]),
            sizes=torch.zeros(1, self._k, dtype=torch.int64, device=self._device),
            sent=None,
            clips=clips,
        )

    def score(
        self,
        theta: Tensor,
        clients: NDArray[np.int64],
        positions: Sequence[int],
        sizes: Tensor,
        *,
        per_client: bool = False,
    ) -> Figures:
        """Figures of hypotheses theta [1, k, n] on validation clients [1, clients].

        `sizes` [1, k]: uploads in each cluster.
        """
        scored = self._splits.scored(clients, positions)
        with one_thread():
            return self._validator.score(
                theta[0],
                clients[0],
                sizes[0].argmax().cpu(),
                scored=None if scored is None else scored[0],
                per_client=per_client,
            )
