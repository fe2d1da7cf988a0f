"""One definition of a call for the client that blocks and for the one that awaits.

A call is written as a function that makes a request (`@call`), as a coroutine over a wire
(`@steps`), or as an asynchronous iterator over one (`@stream`). On a `Client` it is a function
that gives the value or an iterator; on an `AsyncClient` it gives an awaitable or an asynchronous
iterator.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from fedaudit_client.http.request import Request, json_object
from fedaudit_client.http.wire import Wire

P = ParamSpec("P")
T = TypeVar("T")


class Calls:
    """Calls to one service over one wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire


class Blocking(Calls):
    """Calls that return when they are done."""


class Awaiting(Calls):
    """Calls that are awaited."""


class steps(Generic[P, T]):  # noqa: N801 a decorator
    """A call that is a coroutine, of one request or several."""

    def __init__(self, start: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._start = start
        self.__doc__ = start.__doc__

    @overload
    def __get__(self, client: Blocking, owner: type | None = None) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, client: Awaiting, owner: type | None = None
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    def __get__(self, client: Calls | None, owner: type | None = None) -> Callable[..., Any]:
        start = self._start
        if client is None:
            return start

        @wraps(start)
        def bound(*arguments: P.args, **named: P.kwargs) -> Any:
            begun = start(client, *arguments, **named)
            return settled(begun) if isinstance(client, Blocking) else begun

        return bound


def call(make: Callable[Concatenate[Any, P], Request[T]]) -> steps[P, T]:
    """A call that is one request."""

    @wraps(make)
    async def start(self: Calls, *arguments: P.args, **named: P.kwargs) -> T:
        return await self._wire.send(make(self, *arguments, **named))

    return steps(cast("Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]", start))


class stream(Generic[P, T]):  # noqa: N801 a decorator
    """A call whose values come one by one.

    Whoever leaves before the end closes what is still open with `contextlib.closing` (`aclosing`).
    """

    def __init__(self, start: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> None:
        self._start = start
        self.__doc__ = start.__doc__

    @overload
    def __get__(
        self, client: Blocking, owner: type | None = None
    ) -> Callable[P, Generator[T, None, None]]: ...
    @overload
    def __get__(
        self, client: Awaiting, owner: type | None = None
    ) -> Callable[P, AsyncGenerator[T, None]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    def __get__(self, client: Calls | None, owner: type | None = None) -> Callable[..., Any]:
        start = self._start
        if client is None:
            return start

        @wraps(start)
        def bound(*arguments: P.args, **named: P.kwargs) -> Any:
            begun = start(client, *arguments, **named)
            return _one_by_one(begun) if isinstance(client, Blocking) else begun

        return bound


def settled(coroutine: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine that never has to wait, as on a wire that blocks."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    coroutine.close()
    raise RuntimeError("a call of a client that blocks was suspended")


def _one_by_one(values: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    try:
        while True:
            try:
                value = settled(values.asend(None))
            except StopAsyncIteration:
                return
            yield value
    finally:
        settled(values.aclose())


async def pages(
    wire: Wire, path: str, filters: Mapping[str, Any], kind: type[T]
) -> AsyncGenerator[T, None]:
    """The items of a list, page after page; `kind` is what they are."""
    asked = dict(filters)
    while True:
        page = await wire.send(Request("GET", path, json_object, params=asked))
        for item in page["items"]:
            yield item
        if page["next_cursor"] is None:
            return
        asked["cursor"] = page["next_cursor"]
