"""How requests reach the service: written once, for clients that block and for those that await.

Everything here is a coroutine. On a wire that blocks none of them is ever suspended, so that
`calls.settled` runs it to its end without an event loop.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from typing import IO, Any, TypeVar

import httpx

from fedaudit_client.http import answers
from fedaudit_client.http.connection import Connection
from fedaudit_client.http.request import Request

T = TypeVar("T")


class Wire(ABC):
    """Sends requests with the key. Raises UnreachableError and ProblemError."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def send(self, request: Request[T]) -> T:
        """What the answer says; repeated where that helps and does no harm."""

        async def attempt() -> T:
            with self.connection.translated():
                response = await self._exchange(request)
            answers.check(response)
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
        answers.check(response)

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
