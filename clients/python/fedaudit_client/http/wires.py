"""The two wires: one blocks its thread, the other awaits in an event loop of asyncio."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from time import sleep
from typing import Any

import httpx

from fedaudit_client.http.connection import Connection
from fedaudit_client.http.request import Request
from fedaudit_client.http.wire import Wire


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
