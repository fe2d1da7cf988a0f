"""When a call is repeated, and after which pause."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from fedaudit_client.errors import ClientError, ProblemError

T = TypeVar("T")


@dataclass(frozen=True)
class Retries:
    """How often a call is tried, and how long it may be kept waiting.

    Only what may be repeated is: reading, setting something to a value, and what bears an
    idempotency key. Only what may pass is waited for: no answer, and 429, 502, 503 and 504.
    """

    attempts: int = 3
    """All of them, the first included; 1 repeats nothing."""
    first_pause_seconds: float = 0.2
    """Doubled after each attempt."""
    longest_pause_seconds: float = 10.0
    """Where the service asks to be left alone for longer (Retry-After), its refusal is raised."""

    async def of(
        self, attempt: Callable[[], Awaitable[T]], pause: Callable[[float], Awaitable[None]]
    ) -> T:
        """The outcome of a call, or the error of its last attempt."""
        again = AsyncRetrying(
            sleep=pause,
            stop=stop_after_attempt(self.attempts),
            wait=self._pause,
            retry=retry_if_exception(self._is_worth_it),
            reraise=True,
        )
        return await again(attempt)

    def _is_worth_it(self, error: BaseException) -> bool:
        asked = _asked(error)
        return (
            isinstance(error, ClientError)
            and error.is_temporary
            and (asked is None or asked <= self.longest_pause_seconds)
        )

    def _pause(self, state: RetryCallState) -> float:
        asked = _asked(state.outcome.exception() if state.outcome else None)
        if asked is not None:
            return asked
        doubled = self.first_pause_seconds * 2.0 ** (state.attempt_number - 1)
        return min(doubled, self.longest_pause_seconds)


def _asked(error: BaseException | None) -> float | None:
    return error.retry_after_seconds if isinstance(error, ProblemError) else None
