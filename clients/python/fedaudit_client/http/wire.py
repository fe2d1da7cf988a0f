"""The wires: what sends requests, with retries, blocking and awaited."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from time import monotonic, sleep
from typing import IO, Any, Self, TypeVar
from urllib.parse import urlsplit

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from fedaudit_client.errors import ClientError, NotConfiguredError, ProblemError, UnreachableError
from fedaudit_client.http.request import Request, check
from fedaudit_client.version import __version__

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


_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Connection:
    """A service and how it is called. Raises UnreachableError for what is no address, and
    NotConfiguredError for what is no key."""

    url: str
    api_key: str
    timeout: float
    """Seconds to connect, to send, and to wait for the next byte."""
    retries: Retries

    def __post_init__(self) -> None:
        _host(self.url)
        if not (self.api_key.isascii() and self.api_key.isprintable()):
            raise NotConfiguredError("the API key has characters that no key has; copy it anew")

    @classmethod
    def of(
        cls, url: str | None, api_key: str | None, *, timeout: float, retries: Retries | None
    ) -> Self:
        """What is given, and FEDAUDIT_URL and FEDAUDIT_API_KEY for what is not."""
        return cls(
            _given("FEDAUDIT_URL", url).rstrip("/"),
            _given("FEDAUDIT_API_KEY", api_key),
            timeout,
            Retries() if retries is None else retries,
        )

    @property
    def options(self) -> dict[str, Any]:
        """As httpx takes them."""
        return {
            "base_url": f"{self.url}/v1/",
            "headers": {
                "Authorization": f"Bearer {self.api_key}",
                "Accept": "application/json",
                "User-Agent": f"fedaudit-client/{__version__} httpx/{httpx.__version__}",
            },
            "timeout": self.timeout,
            # A proxy cannot reach a service on this machine.
            "trust_env": _host(self.url) not in _LOOPBACK,
        }

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Failures of the network as UnreachableErrors."""
        try:
            yield
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise UnreachableError(f"the service at {self.url} does not answer: {reason}") from None
        except httpx.InvalidURL as error:
            raise UnreachableError(
                f"{self.url} is no address: {error}", is_temporary=False
            ) from None


def _given(name: str, value: str | None) -> str:
    found = os.environ.get(name, "").strip() if value is None else value
    if value is None and not found:
        raise NotConfiguredError(
            f"{name} is not set; set it to what `fedaudit up` printed when it was ready"
        )
    return found


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.port != 0
        host = parts.hostname if usable else None
    except ValueError:
        host = None
    if not host:
        raise UnreachableError(
            f"{url!r} is no address; give one such as http://127.0.0.1:8000", is_temporary=False
        )
    return host


class Wire(ABC):
    """Sends requests with the key. Raises UnreachableError and ProblemError."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def send(self, request: Request[T]) -> T:
        """What the answer says; repeated where that helps and does no harm."""

        async def attempt() -> T:
            with self.connection.translated():
                response = await self._exchange(request)
            check(response)
            return request.parse(response)

        if not request.may_repeat:
            return await attempt()
        return await self.connection.retries.of(attempt, self.pause)

    @asynccontextmanager
    async def opened(self, request: Request[Any]) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """The bytes of an answer, read while the block runs. Nothing is repeated."""
        with self.connection.translated():
            async with self._streamed(request) as response:
                await self._check(response)
                yield self._chunks(response)

    async def read(self, request: Request[Any]) -> AsyncGenerator[bytes, None]:
        """The bytes of an answer as they come; only its beginning is repeated.

        Raises UnreachableError where the connection breaks after that.
        """
        async with AsyncExitStack() as stack:

            async def attempt() -> AsyncIterator[bytes]:
                return await stack.enter_async_context(self.opened(request))

            async for chunk in await self.connection.retries.of(attempt, self.pause):
                yield chunk

    async def download(self, request: Request[Any], file: IO[bytes]) -> None:
        """Write the bytes of an answer into a file as they come."""
        async with aclosing(self.read(request)) as chunks:
            async for chunk in chunks:
                file.write(chunk)

    async def _check(self, response: httpx.Response) -> None:
        if response.status_code >= 400:
            await self._read_whole(response)
        check(response)

    @abstractmethod
    async def pause(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    @abstractmethod
    async def _exchange(self, request: Request[Any]) -> httpx.Response: ...

    @abstractmethod
    def _streamed(self, request: Request[Any]) -> AbstractAsyncContextManager[httpx.Response]: ...

    @abstractmethod
    async def _read_whole(self, response: httpx.Response) -> None: ...

    @abstractmethod
    def _chunks(self, response: httpx.Response) -> AsyncIterator[bytes]: ...


class BlockingWire(Wire):
    """Over `httpx.Client`; its coroutines are never suspended."""

    def __init__(self, connection: Connection, transport: httpx.BaseTransport | None) -> None:
        super().__init__(connection)
        self._http = httpx.Client(**connection.options, transport=transport)

    async def pause(self, seconds: float) -> None:
        """Let the thread sleep."""
        sleep(seconds)

    async def close(self) -> None:
        """Close the connections."""
        self._http.close()

    async def _exchange(self, request: Request[Any]) -> httpx.Response:
        return self._http.request(request.method, request.path, **request.options)

    @asynccontextmanager
    async def _streamed(self, request: Request[Any]) -> AsyncGenerator[httpx.Response, None]:
        with self._http.stream(request.method, request.path, **request.options) as response:
            yield response

    async def _read_whole(self, response: httpx.Response) -> None:
        response.read()

    async def _chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        for chunk in response.iter_bytes():
            yield chunk


class AwaitingWire(Wire):
    """Over `httpx.AsyncClient`."""

    def __init__(self, connection: Connection, transport: httpx.AsyncBaseTransport | None) -> None:
        super().__init__(connection)
        self._http = httpx.AsyncClient(**connection.options, transport=transport)

    async def pause(self, seconds: float) -> None:
        """Let other tasks run."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _exchange(self, request: Request[Any]) -> httpx.Response:
        return await self._http.request(request.method, request.path, **request.options)

    @asynccontextmanager
    async def _streamed(self, request: Request[Any]) -> AsyncGenerator[httpx.Response, None]:
        async with self._http.stream(request.method, request.path, **request.options) as response:
            yield response

    async def _read_whole(self, response: httpx.Response) -> None:
        await response.aread()

    async def _chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        async for chunk in response.aiter_bytes():
            yield chunk


_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.2, 5.0


async def polled(
    wire: Wire, request: Request[T], *, has_ended: Callable[[T], bool], patience_seconds: float
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
