"""Where data are loaded and costs are planned: apart from the threads that serve everything else.

A load may take seconds and hundreds of megabytes. In the threads of the other routes a few dozen of
them would keep lists and the readiness check waiting, whichever project asked for them.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from threading import Event
from typing import Any, TypeVar

from starlette.requests import Request

from api.http.problems import ProblemError

Answer = TypeVar("Answer")

MAX_WAITING_OF_A_PROJECT = 64
_RETRY_SECONDS = 5
_LOOK_SECONDS = 0.25
"""How often it is looked whether a client still waits."""

_given_up: ContextVar[Event | None] = ContextVar("given_up", default=None)


class GivenUpError(Exception):
    """Nobody waits for the answer any more."""


def stop_if_given_up() -> None:
    """Raises GivenUpError where the client of the work in progress has left.

    Called between the steps of such work, since a thread cannot be ended from outside.
    """
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
        """The answer of work in a thread, once the project has its turn.

        Given up when the client leaves: at once while it waits, and else at the next step of the
        work; the thread stays the project's until then. Raises ProblemError where too many requests
        of the project wait, and whatever the work raises.
        """
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

    def _open(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._size, thread_name_prefix="load")
        return self._threads

    async def _in_turn(
        self, project_id: str, work: Callable[[], Answer], leaving: asyncio.Task[None]
    ) -> Answer:
        await self._take_turn(project_id, leaving)
        given_up, loop = Event(), asyncio.get_running_loop()

        def end_turn(_ended: Future[Answer]) -> None:
            with suppress(RuntimeError):  # the loop was closed under a thread that still worked
                loop.call_soon_threadsafe(self._end_turn, project_id)

        started = self._open().submit(copy_context().run, _interruptible, work, given_up)
        started.add_done_callback(end_turn)
        answer = asyncio.wrap_future(started)
        try:
            if not await _before(answer, leaving):
                raise _gone()
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
            if not await _before(waiting, leaving):
                raise _gone()
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                turn.release()
            raise

    def _end_turn(self, project_id: str) -> None:
        self._turns[project_id].release()
        if project_id not in self._of_project:
            # Nobody of the project waits.
            del self._turns[project_id]


def _interruptible(work: Callable[[], Answer], given_up: Event) -> Answer:
    _given_up.set(given_up)  # in a context of this work alone
    stop_if_given_up()
    return work()


async def _before(wanted: asyncio.Future[Answer], leaving: asyncio.Task[None]) -> bool:
    """Whether something happened before the client left; else it is cancelled."""
    try:
        both: list[asyncio.Future[Any]] = [wanted, leaving]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not wanted.done():
            wanted.cancel()
    return wanted.done() and not wanted.cancelled()


async def _left(request: Request) -> None:
    """Ends when the client has closed the connection."""
    await asyncio.sleep(_LOOK_SECONDS)
    while not await request.is_disconnected():
        await asyncio.sleep(_LOOK_SECONDS)


def crowded(most: int) -> ProblemError:
    """The answer where so many requests of a project wait already."""
    return ProblemError(
        429,
        "rate-limited",
        f"{most} requests of this project wait for their data to be loaded already; wait for some "
        "of the answers",
        headers={"Retry-After": str(_RETRY_SECONDS)},
    )


def _gone() -> ProblemError:
    """Nobody reads it; the log does."""
    return ProblemError(503, "unavailable", "the client left before its data were loaded")
