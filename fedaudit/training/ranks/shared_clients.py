"""Clients computed by this process and its helpers, with the same results as by one process.

A client's numbers depend on nobody else's, its coins are drawn by its own number, and each process
computes on one thread. So where a client is computed makes no difference, and what is added up is
added up here, in the order of the clients.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import thread_time
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.training.base.cell import Cell
from fedaudit.training.methods.method_choice import training_method
from fedaudit.training.one_by_one.client_scores import ClientScores
from fedaudit.training.one_by_one.own_clients import OwnClients
from fedaudit.training.ranks.helpers import Helpers
from fedaudit.training.ranks.orders import Choose, Learn, Score

_AHEAD = 2
"""Vectors that this process holds while it waits for a helper's."""

Found = TypeVar("Found")


class SharedClients:
    """Deals clients out to the ranks, of which this process is the first; a `ClientWork`."""

    def __init__(self, cell: Cell, device: torch.device, helpers: Helpers) -> None:
        self._own = OwnClients(cell, device)
        self._cell, self._device, self._helpers = cell, device, helpers
        weighted = training_method(cell.spec.training).weighting is not None
        self._width = cell.shape.n + 1 if weighted else cell.shape.n
        self._ranks = 1 + len(helpers.devices)
        self._started = False
        self._pace = self._beside = 0.0
        """Of the last round: this process's seconds for a row of local steps, and how many rows'
        time it spent on each client's upload."""

    def start_from(self, theta: Tensor) -> None:
        """See `ClientWork`; the first time, it gives the helpers the data."""
        if not self._started:
            self._helpers.take(self._cell, self._device)
            self._started = True
        self._helpers.start_from(theta)
        self._own.start_from(theta)

    def choose(self, clients: Sequence[int]) -> list[int]:
        """See `ClientWork`."""
        if self._cell.spec.training.hypotheses == 1:
            return [0] * len(clients)
        return self._by_share(
            clients,
            lambda places: Choose([clients[one] for one in places]),
            lambda places: self._own.choose([clients[one] for one in places]),
        )

    def score(
        self,
        clients: Sequence[int],
        *,
        largest: int,
        scored: Sequence[NDArray[np.bool_]] | None,
        tuned: bool,
    ) -> list[ClientScores]:
        """See `ClientWork`."""

        def order(places: Sequence[int]) -> Score:
            rows = None if scored is None else [scored[one] for one in places]
            return Score([clients[one] for one in places], largest, rows, tuned)

        def own(places: Sequence[int]) -> list[ClientScores]:
            asked = order(places)
            return self._own.score(asked.clients, largest=largest, scored=asked.scored, tuned=tuned)

        return self._by_share(clients, order, own)

    def _by_share(
        self,
        clients: Sequence[int],
        order: Callable[[Sequence[int]], Choose | Score],
        own: Callable[[Sequence[int]], list[Found]],
    ) -> list[Found]:
        """Every client's result, in their order; `order` asks a helper for those at some places,
        and `own` computes them here."""
        dealt = self._dealt(self._rows(clients))
        for rank in range(1, self._ranks):
            self._helpers.ask(rank, order(_places(dealt, rank)))
        found = {0: iter(own(_places(dealt, 0)))}
        for rank in range(1, self._ranks):
            found[rank] = iter(self._helpers.answer(rank, list))
        return [next(found[rank]) for rank in dealt]

    def learn(
        self, clients: Sequence[int], chosen: Sequence[int], *, round_: int
    ) -> Iterator[Tensor]:
        """See `ClientWork`."""
        work = self._steps(clients)
        dealt = self._dealt(work, beside=self._beside)
        for rank in range(1, self._ranks):
            places = _places(dealt, rank)
            order = Learn([clients[one] for one in places], [chosen[one] for one in places], round_)
            self._helpers.ask(rank, order)
        places = _places(dealt, 0)
        own = _Timed(
            self._own.learn(
                [clients[one] for one in places], [chosen[one] for one in places], round_=round_
            )
        )
        ahead: deque[Tensor] = deque()
        beside = 0.0
        for rank in dealt:
            if rank:
                self._go_ahead(own, ahead, rank)
                vector = self._helpers.vector(rank, self._width)
            else:
                vector = ahead.popleft() if ahead else next(own)
            began = thread_time()
            yield vector
            beside += thread_time() - began
        if places:
            self._pace = own.seconds / int(work[places].sum())
        if clients and self._pace:
            self._beside = beside / len(clients) / self._pace

    def _go_ahead(self, own: Iterator[Tensor], ahead: deque[Tensor], rank: int) -> None:
        """Computes what comes later for as long as a helper's vector is not there."""
        while not self._helpers.has_answered(rank) and len(ahead) < _AHEAD:
            vector = next(own, None)
            if vector is None:
                return
            ahead.append(vector.clone())

    def _dealt(self, work: NDArray[np.int64], *, beside: float = 0.0) -> list[int]:
        """The rank of each client: that which has the least to do so far.

        `work` [clients]; `beside`: what the first rank has to do for each client, whoever has it.
        """
        to_do = np.zeros(self._ranks)
        dealt = []
        for one in work.tolist():
            to_do[0] += beside
            rank = int(to_do.argmin())
            to_do[rank] += one
            dealt.append(rank)
        return dealt

    def _rows(self, clients: Sequence[int]) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = self._cell.federation.counts[list(clients)]
        return rows

    def _steps(self, clients: Sequence[int]) -> NDArray[np.int64]:
        """The rows that each client's local steps take, up to a factor."""
        rows, local = self._rows(clients), self._cell.spec.training.local
        if local.steps is None or local.batch_size is None:
            return rows
        return np.minimum(rows, local.batch_size)


def _places(dealt: Sequence[int], rank: int) -> list[int]:
    """The places of the clients that a rank has."""
    return [place for place, own in enumerate(dealt) if own == rank]


class _Timed(Iterator[Tensor]):
    """Vectors, and the processor time that they took."""

    def __init__(self, vectors: Iterator[Tensor]) -> None:
        self.seconds = 0.0
        self._vectors = vectors

    def __next__(self) -> Tensor:
        began = thread_time()
        try:
            return next(self._vectors)
        finally:
            self.seconds += thread_time() - began
