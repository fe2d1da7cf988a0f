"""A process that computes a share of one cell's clients for the process that started it.

`python -P -m fedaudit.training.ranks.helper FILE`: FILE is the descriptor of its end of a pipe. It
sees what the process that started it sees but for its settings and secrets, and talks to nobody
else: not to the database, nor to a network. It draws no noise. Standard input is tied to its
parent: when that ends, so does this.
"""

import os
import signal
import sys
import threading
from collections import deque
from multiprocessing.connection import Connection
from typing import assert_never

import torch

from fedaudit.reproducible import one_thread
from fedaudit.training.one_by_one.own_clients import OwnClients
from fedaudit.training.ranks.orders import (
    Choose,
    Failed,
    Join,
    Learn,
    Order,
    Ready,
    Score,
    Sent,
    StartFrom,
    Take,
)
from fedaudit.training.ranks.rank_group import RankGroup, Sending

_ON_THEIR_WAY = 2
"""Vectors that a helper is ahead of the first rank."""
_DAY = 86_400.0


def main() -> None:
    """Serve until the other end of the pipe is closed."""
    # Whoever stops the worker lets it finish its rounds, for which it needs this process.
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pipe: Connection[object, object] = Connection(int(sys.argv[1]))
    pipe.send(Ready())
    try:
        with torch.no_grad(), one_thread():
            _Helper(pipe).serve()
    except EOFError:
        return
    except Exception as error:
        pipe.send(Failed(f"{type(error).__name__}: {error}"))
        raise


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


class _Helper:
    def __init__(self, pipe: "Connection[object, object]") -> None:
        self._pipe = pipe
        join = pipe.recv()
        assert isinstance(join, Join)
        self._device = torch.device(join.device)
        self._clients: OwnClients
        self._shape: tuple[int, int]
        # The first rank may be long about something else, and its end is seen otherwise.
        self._group = RankGroup(
            self._device,
            backend=join.backend,
            store=join.store,
            secret=join.secret,
            rank=join.rank,
            size=join.size,
            seconds=_DAY,
        )
        pipe.send(Ready())

    def serve(self) -> None:
        """Does as it is told, until EOFError."""
        while True:
            self._follow(self._pipe.recv())  # type: ignore[arg-type]

    def _follow(self, order: Order) -> None:
        match order:
            case Take():
                self._shape = order.cell.spec.training.hypotheses, order.cell.shape.n
                self._clients = OwnClients(order.cell, self._device)
            case StartFrom():
                self._clients.start_from(self._group.broadcast(torch.empty(self._shape)))
            case Choose():
                self._pipe.send(self._clients.choose(order.clients))
            case Learn():
                self._learn(order)
            case Score():
                found = self._clients.score(
                    order.clients, largest=order.largest, scored=order.scored, tuned=order.tuned
                )
                self._pipe.send(found)
            case _:
                assert_never(order)

    def _learn(self, order: Learn) -> None:
        sending: deque[Sending] = deque()
        for vector in self._clients.learn(order.clients, order.chosen, round_=order.round_):
            sending.append(self._group.send(vector))
            self._pipe.send(Sent())
            if len(sending) > _ON_THEIR_WAY:
                sending.popleft().wait()
        for one in sending:
            one.wait()


if __name__ == "__main__":
    main()
