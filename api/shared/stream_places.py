"""How many event streams one process keeps open, all together and for one API key."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import structlog

from api.http.problems import ProblemError

log = structlog.get_logger()

MAX_STREAMS = 200
MAX_STREAMS_OF_A_KEY = 20
_RETRY_SECONDS = 5


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
        """Hold a place while the block runs. Raises ProblemError where there is none.

        A reader who leaves ends the block and is no failure of it.
        """
        if self._of_key[key_id] >= self._most_of_a_key:
            raise _full(429, f"this API key has {self._most_of_a_key} event streams open already")
        if self.open >= self._most:
            raise _full(503, f"this process serves {self._most} event streams already")
        self._of_key[key_id] += 1
        try:
            with _leaving_is_no_failure():
                yield
        finally:
            self._of_key[key_id] -= 1
            if not self._of_key[key_id]:
                del self._of_key[key_id]


@contextmanager
def _leaving_is_no_failure() -> Iterator[None]:
    """The framework passes messages on between tasks, and one that is under way when the reader's
    end is closed raises in the task that sends it."""
    try:
        yield
    except* anyio.BrokenResourceError:
        log.debug("a reader left an event stream")


def _full(status: int, detail: str) -> ProblemError:
    return ProblemError(
        status, "too-many-streams", detail, headers={"Retry-After": str(_RETRY_SECONDS)}
    )
