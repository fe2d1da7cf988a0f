"""Bounds on work that runs at once: loads of data, event streams."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar, copy_context
from threading import Event
from typing import Any, TypeVar

import anyio
import structlog
from starlette.requests import Request

from api.http.problems import ProblemError, unavailable

Answer = TypeVar("Answer")

MAX_WAITING_OF_A_PROJECT = 64
_RETRY_SECONDS = 5
_LOOK_SECONDS = 0.25
"""How often clients that wait are looked for."""

_given_up: ContextVar[Event | None] = ContextVar("given_up", default=None)


class GivenUpError(Exception):
    """The client no longer waits for the answer."""


def stop_if_given_up() -> None:
    """Raises GivenUpError where the client of the work in progress has left. Called between the
    steps of such work, since a thread cannot be ended from outside."""
    event = _given_up.get()
    if event is not None and event.is_set():
        raise GivenUpError


class LoadPool:
    """A few threads; a project has one of them at a time. Used by the event loop alone."""

    def __init__(self, *, threads: int, most_waiting: int = MAX_WAITING_OF_A_PROJECT) -> None:
        self._size = threads
        self._threads: ThreadPoolExecutor | None = None
        self._most_waiting = most_waiting
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._of_project: Counter[str] = Counter()

    async def run(self, project_id: str, work: Callable[[], Answer], *, request: Request) -> Answer:
        """The answer of work in a thread, once the project has its turn. Given up when the client
        leaves: at once while it waits, and else at the next step of the work; the thread stays the
        project's until then. Raises ProblemError where too many requests of the project wait, and
        whatever the work raises."""
        if self._of_project[project_id] > self._most_waiting:
            raise crowded(self._most_waiting)
        self._of_project[project_id] += 1
        leaving = asyncio.create_task(_left(request))
        try:
            return await self._in_turn(project_id, work, leaving)
        finally:
            leaving.cancel()
            self._of_project[project_id] -= 1
            if not self._of_project[project_id]:
                del self._of_project[project_id]

    def close(self) -> None:
        """Drop what waits; work that has begun goes on to its end. The next work opens it again."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    async def _in_turn(
        self, project_id: str, work: Callable[[], Answer], leaving: asyncio.Task[None]
    ) -> Answer:
        await self._take_turn(project_id, leaving)
        given_up, loop = Event(), asyncio.get_running_loop()

        def end_turn(_ended: Future[Answer]) -> None:
            with suppress(RuntimeError):  # the loop was closed under a thread that still worked
                loop.call_soon_threadsafe(self._end_turn, project_id)

        def interruptible() -> Answer:
            _given_up.set(given_up)  # in a context of this work alone
            stop_if_given_up()
            return work()

        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._size, thread_name_prefix="load")
        started = self._threads.submit(copy_context().run, interruptible)
        started.add_done_callback(end_turn)
        answer = asyncio.wrap_future(started)
        try:
            await _before(answer, leaving)
        finally:
            given_up.set()
        return answer.result()

    async def _take_turn(self, project_id: str, leaving: asyncio.Task[None]) -> None:
        turn = self._turns[project_id]
        if self._of_project[project_id] == 1 and not turn.locked():
            # Nobody else is there, so that there is nothing to wait for.
            await turn.acquire()
            return
        waiting = asyncio.create_task(turn.acquire())
        try:
            await _before(waiting, leaving)
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                turn.release()
            raise

    def _end_turn(self, project_id: str) -> None:
        self._turns[project_id].release()
        if project_id not in self._of_project:
            # Nobody of the project waits.
            del self._turns[project_id]


async def _before(wanted: asyncio.Future[Answer], leaving: asyncio.Task[None]) -> None:
    """Waits until something happened. Raises ProblemError where the client left first; then it is
    cancelled."""
    try:
        both: list[asyncio.Future[Any]] = [wanted, leaving]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not wanted.done():
            wanted.cancel()
    if wanted.cancelled() or not wanted.done():
        # Seen in the log alone.
        raise unavailable("the client left before its data were loaded")


async def _left(request: Request) -> None:
    """Ends when the client has closed the connection."""
    await asyncio.sleep(_LOOK_SECONDS)
    while not await request.is_disconnected():
        await asyncio.sleep(_LOOK_SECONDS)


def crowded(most: int) -> ProblemError:
    """The answer where so many requests of a project wait already."""
    detail = (
        f"{most} requests of this project wait for their data to be loaded already; wait for some "
        "of the answers"
    )
    headers = {"Retry-After": str(_RETRY_SECONDS)}
    return ProblemError(429, "rate-limited", detail, headers=headers)


log = structlog.get_logger()

MAX_STREAMS = 200
MAX_STREAMS_OF_A_KEY = 20


class StreamPlaces:
    """Places for event streams; used by the event loop alone."""

    def __init__(
        self, *, most: int = MAX_STREAMS, most_of_a_key: int = MAX_STREAMS_OF_A_KEY
    ) -> None:
        self._most = most
        self._most_of_a_key = most_of_a_key
        self._of_key: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """The streams that are open."""
        return self._of_key.total()

    @asynccontextmanager
    async def place(self, key_id: str) -> AsyncIterator[None]:
        """Hold a place while the block runs. Raises ProblemError where there is none. A reader who
        leaves ends the block and is no failure of it."""
        if self._of_key[key_id] >= self._most_of_a_key:
            raise _full(429, f"this API key has {self._most_of_a_key} event streams open already")
        if self.open >= self._most:
            raise _full(503, f"this process serves {self._most} event streams already")
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


def _full(status: int, detail: str) -> ProblemError:
    return ProblemError(
        status, "too-many-streams", detail, headers={"Retry-After": str(_RETRY_SECONDS)}
    )
