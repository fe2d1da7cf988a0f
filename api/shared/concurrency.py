"""Bounds on work that runs at once: loads of data, event streams."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import TypeVar

import anyio
import structlog

from api.http.problems import ProblemError

Answer = TypeVar("Answer")

_MAX_WAITING = 64
_RETRY_SECONDS = 5


class LoadPool:
    """A few threads; a project has one of them at a time. Used by the event loop alone."""

    def __init__(self, *, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="load")
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._of_project: Counter[str] = Counter()

    async def run(self, project_id: str, work: Callable[[], Answer]) -> Answer:
        """The answer of work in a thread, once the project has its turn. It is carried out also
        where the client has left: a request that is repeated with its key finds the result. Raises
        ProblemError where too many requests of the project wait, and whatever the work raises."""
        if self._of_project[project_id] > _MAX_WAITING:
            raise ProblemError(
                "rate-limited",
                f"{_MAX_WAITING} requests of this project wait for their data to be loaded "
                "already; wait for some of the answers",
                retry_seconds=_RETRY_SECONDS,
            )
        self._of_project[project_id] += 1
        try:
            async with self._turns[project_id]:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._threads, copy_context().run, work)
        finally:
            self._of_project[project_id] -= 1
            if not self._of_project[project_id]:
                del self._of_project[project_id], self._turns[project_id]

    def close(self) -> None:
        """Drop what waits; work that has begun goes on to its end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


log = structlog.get_logger()

MAX_STREAMS = 200
MAX_STREAMS_OF_A_KEY = 20


class StreamPlaces:
    """Places for event streams; used by the event loop alone."""

    def __init__(self) -> None:
        self._of_key: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """The streams that are open."""
        return self._of_key.total()

    @asynccontextmanager
    async def place(self, key_id: str) -> AsyncIterator[None]:
        """Hold a place while the block runs. Raises ProblemError where there is none. A reader who
        leaves ends the block and is no failure of it."""
        if self._of_key[key_id] >= MAX_STREAMS_OF_A_KEY:
            detail = f"this API key has {MAX_STREAMS_OF_A_KEY} event streams open already"
            raise ProblemError("too-many-streams", detail, retry_seconds=_RETRY_SECONDS)
        if self.open >= MAX_STREAMS:
            detail = f"this process serves {MAX_STREAMS} event streams already"
            raise ProblemError("too-many-streams", detail, status=503, retry_seconds=_RETRY_SECONDS)
        self._of_key[key_id] += 1
        try:
            yield
        except* anyio.BrokenResourceError:
            # A message that is under way between tasks when the reader leaves raises in its sender.
            log.debug("a reader left an event stream")
        finally:
            self._of_key[key_id] -= 1
            if not self._of_key[key_id]:
                del self._of_key[key_id]
