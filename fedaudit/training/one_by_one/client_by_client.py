"""Rounds computed one client at a time: for images, whose rows are not padded.

A network of a million parameters leaves no room for copies of all clients' parameters, and on a
processor one client's convolutions are fastest alone. There is one buffer of uploads, and noise is
drawn for a client when it releases its upload, straight into that.

Everything runs on one thread, so that a run does not depend on their number.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.reproducible import one_thread
from fedaudit.training.base.cell import Cell, cohort_clients
from fedaudit.training.base.cohort import Block, rounds_ahead
from fedaudit.training.base.group_counts import GroupCounter
from fedaudit.training.base.planted import PlantedUpdates, of_updates
from fedaudit.training.base.splits import Splits
from fedaudit.training.mechanisms.base import ClientProtection, TrustedServer
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.methods.method_choice import training_method
from fedaudit.training.one_by_one.client_figures import client_figures
from fedaudit.training.one_by_one.own_clients import OwnClients
from fedaudit.training.stacked.planting import planted_places, show_sum, show_uploads
from fedaudit.training.stacked.round_method import build_draws, build_server
from fedaudit.training.stacked.stack_round import Cohort, RoundResult, Sent
from fedaudit.training.stacked.validation import Figures


class ClientByClient:
    """Plays and scores the rounds of one cell; an `Engine`."""

    def __init__(self, cell: Cell, splits: Splits, device: torch.device) -> None:
        self._splits = splits
        self._device = device
        self._clients = OwnClients(cell, device)
        self._counter = GroupCounter([cell.federation], cell.spec.fairness)
        self._protection = build_protection([cell], device)
        self._server = build_server(cell)
        self._draws = build_draws([cell])
        self._weighted = training_method(cell.spec.training).weighting is not None
        self._cell = cell
        self._n = cell.shape.n
        self._planted = of_updates(cell.planted)
        self._k = cell.spec.training.hypotheses

    def arrange(self, positions: Sequence[int]) -> None:
        """Allocates the buffer for uploads: one vector each, or the sums of a trusted server."""
        n, device = self._n, self._device
        match self._protection:
            case TrustedServer():
                # As in `block_sums`: in single precision one client could move a sum too far.
                self._sent = torch.zeros(1, self._k, n, dtype=torch.float64, device=device)
            case ClientProtection():
                width = n + 1 if self._weighted else n
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
        self._clients.start_from(theta[0])
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
        picked = self._chosen(clients)
        present = torch.zeros(1, len(clients), dtype=torch.bool, device=self._device)
        shape = (1, *protection.radii_shape(len(clients)))
        radii = torch.full(shape, torch.nan, dtype=torch.float64)
        sending = [place for place, may_send in enumerate(allowed) if may_send]
        learned = self._learned(
            theta, [clients[one] for one in sending], [picked[one] for one in sending], round_
        )
        for place, updated in zip(sending, learned, strict=True):
            upload, client = uploads[0, place], clients[place]
            upload.copy_(updated)
            radii[0, place] = protection.protect_in_place(
                upload,
                theta[0, picked[place]],
                source=self._draws.source(),
                round_=round_,
                client=client,
            )
            present[0, place] = torch.isfinite(upload.sum()) or torch.isfinite(upload).all()
        # Nothing is sent by the others.
        uploads[~present] = 0
        chosen = torch.from_numpy(np.array(picked, dtype=np.int64)).to(self._device)
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

    def _chosen(self, clients: Sequence[int]) -> list[int]:
        """The hypothesis that each client chooses; the first, where planted."""
        chosen = self._clients.choose(clients)
        if self._planted is not None:
            own, _ = planted_places(self._planted, np.array(clients, dtype=np.int64))
            for place in own.tolist():
                chosen[place] = 0
        return chosen

    def _learned(
        self, theta: Tensor, clients: Sequence[int], chosen: Sequence[int], round_: int
    ) -> Iterator[Tensor]:
        """What each client makes of the hypothesis it chose of theta [1, k, n], to send; of planted
        clients what was planted. Good until the next."""
        if self._planted is None:
            yield from self._clients.learn(clients, chosen, round_=round_)
            return
        planted = np.isin(clients, self._planted.clients).tolist()
        others = [place for place, is_planted in enumerate(planted) if not is_planted]
        learned = self._clients.learn(
            [clients[one] for one in others], [chosen[one] for one in others], round_=round_
        )
        for place, is_planted in enumerate(planted):
            if is_planted:
                at = np.searchsorted(self._planted.clients, [clients[place]])
                added = torch.from_numpy(self._planted.updates(at)[0])
                yield theta[0, chosen[place]] + added.to(theta.device)
            else:
                yield next(learned)

    def _add_up(
        self, server: TrustedServer, theta: Tensor, cohort: Cohort, clips: NDArray[np.float64]
    ) -> RoundResult:
        """A trusted server adds up clipped updates, one after the other, and adds noise."""
        clients, round_ = cohort.clients[0][cohort.allowed[0]].tolist(), int(cohort.rounds[0])
        clip, sums = torch.from_numpy(clips).to(self._device), self._sent.zero_()
        chosen = self._chosen(clients)
        within = taking_part = 0
        shown: dict[int, Tensor] = {}
        learned = self._learned(theta, clients, chosen, round_)
        for client, hypothesis, updated in zip(clients, chosen, learned, strict=True):
            update = updated - theta[0, hypothesis]
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
        self._clients.start_from(theta[0])
        places = self._counter.rows(clients[0])
        scored = self._splits.scored_rows(clients[0], positions[0])
        with one_thread():
            found = self._clients.score(
                clients[0].tolist(),
                largest=int(sizes[0].argmax()),
                scored=None if scored is None else [scored[own] for own in places.by_client],
                tuned=tuned,
            )
        return client_figures(
            self._counter, found, places, scored=scored, k=self._k, per_client=per_client
        )
