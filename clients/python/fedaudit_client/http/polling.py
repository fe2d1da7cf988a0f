"""Asking again and again, for what the service sends no events of."""

from collections.abc import AsyncGenerator, Callable
from time import monotonic
from typing import TypeVar

from fedaudit_client.errors import ProblemError, UnreachableError
from fedaudit_client.http.request import Request
from fedaudit_client.http.wire import Wire

T = TypeVar("T")

_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.2, 5.0


async def polled(
    wire: Wire,
    request: Request[T],
    *,
    has_ended: Callable[[T], bool],
    patience_seconds: float,
) -> AsyncGenerator[T, None]:
    """Every answer, the last of which has ended.

    Waits up to five seconds between two of them, or as long as the service asks for. Raises
    UnreachableError, or ProblemError, after `patience_seconds` without the service.
    """
    heard, wait = monotonic(), _FIRST_WAIT_SECONDS
    while True:
        asked = 0.0
        try:
            found = await wire.send(request)
        except UnreachableError:
            if monotonic() - heard > patience_seconds:
                raise
        except ProblemError as error:
            asked = error.retry_after_seconds or 0.0
            if not error.is_temporary or monotonic() + asked - heard > patience_seconds:
                raise
        else:
            yield found
            if has_ended(found):
                return
            heard = monotonic()
        await wire.pause(max(wait, asked))
        wait = min(2 * wait, _MAX_WAIT_SECONDS)


async def last_of(answers: AsyncGenerator[T, None]) -> T:
    """The last of at least one."""
    found = await anext(answers)
    async for found in answers:  # noqa: B007  # the last one counts
        pass
    return found
