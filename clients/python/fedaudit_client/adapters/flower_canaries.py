"""Canaries for Flower's wrapper with server-side fixed clipping. Needs the extra `flower`."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, Strategy

from fedaudit_client.adapters.canaries import Canaries, Floats
from fedaudit_client.adapters.flower_noise import chain
from fedaudit_client.adapters.plain import Ledger

_PASSES = 2
"""Copies of the round cost no privacy; under replace-one the noise of one epsilon is twice as
large, so that half of it is found only half as well in one pass."""


class CanaryReplies:
    """Replies of canaries, as many at a time as clients answered, which copies of the strategy
    aggregate beside each round: clipped, averaged and noised by Flower's own code, with the state
    that it has in that round.

    In the round itself a canary would have to take the place of a client. So the copies have to do
    what the strategy does; what the strategy alone does to real replies is not tested.
    """

    def __init__(self, strategy: Strategy, ledger: Ledger, audit: Canaries) -> None:
        """Raises ValueError where the server does not see the clip, or cannot be copied."""
        clips = DifferentialPrivacyServerSideFixedClipping
        found = [one for one in chain(strategy) if isinstance(one, clips)]
        if len(found) != 1:
            raise ValueError(
                "canaries need Flower's wrapper with server-side fixed clipping: what clients clip "
                "or noise by themselves is not seen here; leave `audit` out"
            )
        try:
            deepcopy(strategy)
        except TypeError as error:
            raise ValueError(f"canaries need a strategy that can be copied: {error}") from error
        self.planted = ledger.canaries(audit, clip=float(found[0].clipping_norm))
        self._strategy = strategy
        self._arrays: list[Floats] = []

    def begin(self, arrays: ArrayRecord) -> None:
        """Keep what the round starts from."""
        self._arrays = [np.asarray(one, dtype=np.float64) for one in arrays.to_numpy_ndarrays()]

    def send(self, server_round: int, replies: Sequence[Message]) -> None:
        """Before the round's own replies are aggregated."""
        before = deepcopy(self._strategy)
        *_, innermost = chain(before)
        if hasattr(innermost, "train_metrics_aggr_fn"):
            innermost.train_metrics_aggr_fn = lambda *_: MetricRecord()
        start = np.concatenate([one.ravel() for one in self._arrays])

        def release(rows: Floats) -> Floats:
            sent = [
                self._reply(reply, start + row) for reply, row in zip(replies, rows, strict=True)
            ]
            arrays, _ = deepcopy(before).aggregate_train(server_round, sent)
            if arrays is None:
                raise ValueError("the strategy releases nothing of canaries, so nothing is tested")
            whole = [np.asarray(one).ravel() for one in arrays.to_numpy_ndarrays()]
            found: Floats = (np.concatenate(whole) - start) * len(rows)
            return found

        with _quiet():
            self.planted.beside(release, n=len(start), group=len(replies), passes=_PASSES)

    def _reply(self, reply: Message, values: Floats) -> Message:
        """The same reply with other parameters."""
        records: dict[str, Any] = {}
        for name, record in reply.content.items():
            if isinstance(record, ArrayRecord):
                sizes = np.cumsum([one.size for one in self._arrays])[:-1]
                parts = zip(self._arrays, np.split(values, sizes), strict=True)
                fresh = ArrayRecord([part.reshape(one.shape) for one, part in parts])
                records[name] = ArrayRecord(dict(zip(record.keys(), fresh.values(), strict=True)))
            else:
                records[name] = record
        found = copy(reply)
        found.content = RecordDict(records)
        return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Flower logs a line for each reply that it clips."""
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
