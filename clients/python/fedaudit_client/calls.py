"""One definition of a call for both clients, the blocking and the awaited one.

A call is a function that makes a request (`@call`), a coroutine over a wire (`@steps`), or an
asynchronous iterator over one (`@stream`). On a `Client` it is a function that returns the value or
an iterator; on an `AsyncClient` it returns an awaitable or an asynchronous iterator. Calls that
need nothing but an id are rows: `asks` and `lists`.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from functools import wraps
from typing import IO, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

import httpx

from fedaudit_client.wire import Request, Wire, content, json_object, path_of

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


def _bound(
    start: Callable[..., Any], client: Calls | None, run: Callable[[Any], Any]
) -> Callable[..., Any]:
    """`start` on a client, and `run` on what it begins where the client blocks."""
    if client is None:
        return start

    @wraps(start)
    def bound(*arguments: Any, **named: Any) -> Any:
        begun = start(client, *arguments, **named)
        return run(begun) if isinstance(client, Blocking) else begun

    return bound


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
        return _bound(self._start, client, settled)


class stream(Generic[P, T]):  # noqa: N801 a decorator
    """A call whose values arrive one by one.

    To leave before the end, close it with `contextlib.closing` (`aclosing`).
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
        return _bound(self._start, client, _one_by_one)


def call(make: Callable[Concatenate[Any, P], Request[T]]) -> steps[P, T]:
    """A call that is one request."""

    @wraps(make)
    async def start(self: Calls, *arguments: P.args, **named: P.kwargs) -> T:
        return await self._wire.send(make(self, *arguments, **named))

    return steps(cast("Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]", start))


def asks(
    route: str, parse: Callable[[httpx.Response], T], about: str, **options: Any
) -> steps[[str], T]:
    """A call whose one argument is the id in its route, as `GET audits/{}`."""
    method, _, path = route.partition(" ")

    async def start(self: Calls, id_: str, /) -> T:
        return await self._wire.send(Request(method, path_of(path, id_), parse, **options))

    start.__doc__ = about
    return steps(start)


def downloads(path: str, about: str) -> steps[[str, IO[bytes]], None]:
    """A call that writes what is at a path with one id into a file, as it arrives."""

    async def start(self: Calls, id_: str, file: IO[bytes], /) -> None:
        await self._wire.download(Request("GET", path_of(path, id_), content), file)

    start.__doc__ = about
    return steps(start)


def lists(path: str, kind: type[T], about: str) -> stream[..., T]:
    """A call that lists what is at a path; its named arguments are the query's parameters."""

    def start(self: Calls, /, **filters: Any) -> AsyncGenerator[T, None]:
        return pages(self._wire, path, filters, kind)

    start.__doc__ = about
    return stream(start)


def settled(coroutine: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine that never has to wait, as on a blocking wire."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    coroutine.close()
    raise RuntimeError("a call of a blocking client was suspended")


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
    """The items of a list, of type `kind`, page after page."""
    asked = dict(filters)
    while True:
        page = await wire.send(Request("GET", path, json_object, params=asked))
        for item in page["items"]:
            yield item
        if page["next_cursor"] is None:
            return
        asked["cursor"] = page["next_cursor"]
