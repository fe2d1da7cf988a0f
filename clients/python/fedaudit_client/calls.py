"""One definition of a call for both clients, the blocking and the awaited one.

A call is a function that makes a request (`@call`), a coroutine over a wire (`@steps`), or an
asynchronous iterator over one (`@stream`). On a `Client` it is a function that returns the value or
an iterator; on an `AsyncClient` it returns an awaitable or an asynchronous iterator. Calls that
need nothing but what is in their path are rows: `asks`, `downloads`, `reads` and `lists`.
"""

import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import IO, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload
from urllib.parse import quote

import httpx

from fedaudit_client.wire import Request, Wire, content, json_object

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

    _, *takes = signature(start).parameters.values()
    vars(bound)["__signature__"] = Signature(takes)
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
    """A call whose one argument is the id in its route, as `GET audits/{audit_id}`."""
    method, _, path = route.partition(" ")

    def start(self: Calls, path: str) -> Coroutine[Any, Any, T]:
        return self._wire.send(Request(method, path, parse, **options))

    return steps(_at_path(path, about, start))


def downloads(path: str, about: str) -> steps[[str, IO[bytes]], None]:
    """A call that writes what is at a path with one id into a file, as it arrives."""

    def start(self: Calls, path: str, *, file: IO[bytes]) -> Coroutine[Any, Any, None]:
        return self._wire.download(Request("GET", path, content), file)

    file = Parameter("file", Parameter.POSITIONAL_OR_KEYWORD, annotation=IO[bytes])
    return steps(_at_path(path, about, start, file))


def reads(path: str, about: str) -> stream[..., bytes]:
    """A call whose values are the bytes of what is at a path, as they arrive."""

    def start(self: Calls, path: str) -> AsyncGenerator[bytes, None]:
        return self._wire.read(Request("GET", path, content))

    return stream(_at_path(path, about, start))


def lists(path: str, kind: type[T], about: str, *, is_filtered: bool = False) -> stream[..., T]:
    """A call that lists what is at a path; `limit` is the size of a page.

    `is_filtered`: whether it takes the other parameters of the query too, by their names.
    """

    def start(self: Calls, path: str, **asked: Any) -> AsyncGenerator[T, None]:
        return pages(self._wire, path, {**asked.pop("filters", {}), **asked}, kind)

    takes = [Parameter("limit", Parameter.KEYWORD_ONLY, default=None, annotation=int | None)]
    if is_filtered:
        takes.append(Parameter("filters", Parameter.VAR_KEYWORD, annotation=Any))
    return stream(_at_path(path, about, start, *takes))


def _at_path(
    path: str, about: str, start: Callable[..., Any], *others: Parameter
) -> Callable[..., Any]:
    """`start`, as a call that takes what the path names, each escaped to one segment, and others
    by name."""
    names = re.findall(r"{(\w+)}", path)
    of_path = [Parameter(one, Parameter.POSITIONAL_OR_KEYWORD) for one in ("self", *names)]
    takes = Signature([*of_path, *others])

    def at_path(*given: Any, **named: Any) -> Any:
        found = takes.bind(*given, **named).arguments
        ids = {name: quote(str(found.pop(name)), safe="") for name in names}
        return start(found.pop("self"), path.format(**ids), **found)

    at_path.__doc__ = about
    vars(at_path)["__signature__"] = takes
    return at_path


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
