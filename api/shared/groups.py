"""Work that costs little more for many than for one: what comes while it is done is done next,
together."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from contextvars import Context
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MOST_TOGETHER = 32
"""Whoever comes next, from another process too, waits for all of them."""


class Groups:
    """One group of a key is at work at a time, in a thread. Used by the event loop alone."""

    def __init__(self, *, most_together: int = MOST_TOGETHER) -> None:
        self._most_together = most_together
        self._waiting: defaultdict[Hashable, deque[tuple[Any, asyncio.Future[Any]]]] = defaultdict(
            deque
        )
        self.at_work: dict[Hashable, asyncio.Task[None]] = {}
        """By key."""

    async def run(
        self,
        key: Hashable,
        item: Item,
        work: Callable[[Sequence[Item]], Sequence[Answer | Exception]],
    ) -> Answer:
        """The answer for an item, or its exception raised.

        `work` answers each item of a group in its place. Of one key it is always the same.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[key].append((item, answer))
        if key not in self.at_work:
            # In no request's context: what it logs is not of the first one.
            task = asyncio.create_task(self._work_off(key, work), context=Context())
            self.at_work[key] = task
        return await answer

    def waiting(self, key: Hashable) -> int:
        """How many items of a key are not at work yet."""
        return len(self._waiting.get(key, ()))

    async def _work_off(
        self, key: Hashable, work: Callable[[Sequence[Any]], Sequence[Any]]
    ) -> None:
        waiting = self._waiting[key]
        try:
            while waiting:
                together = [
                    waiting.popleft() for _ in range(min(len(waiting), self._most_together))
                ]
                try:
                    answers = await run_in_threadpool(work, [item for item, _ in together])
                except Exception as error:
                    answers = [error] * len(together)
                for (_, future), answer in zip(together, answers, strict=True):
                    _settle(future, answer)
        finally:
            del self.at_work[key], self._waiting[key]
            for _, future in waiting:
                future.cancel()


def _settle(future: "asyncio.Future[Any]", answer: Any) -> None:
    if future.done():
        return  # whoever asked has left
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
