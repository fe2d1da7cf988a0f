"""The forms that calls have: one request, one at a path, a list.

Calls that need nothing but what is in their path are rows: `asks`, `downloads`, `reads` and
`lists`.
"""

import re
from collections.abc import Callable, Generator, Mapping
from functools import wraps
from inspect import Parameter, Signature
from typing import IO, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

import httpx

from fedaudit_client.wire import Json, Request, Wire, content, json_object

P = ParamSpec("P")
T = TypeVar("T")


class Calls:
    """Calls to one service over one wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire


def call(make: Callable[Concatenate[Any, P], Request[T]]) -> Callable[Concatenate[Any, P], T]:
    """A call that is one request."""

    @wraps(make)
    def send(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T:
        answer: T = self._wire.send(make(self, *arguments, **named))
        return answer

    return send


def asks(
    route: str, parse: Callable[[httpx.Response], T], about: str, **options: Any
) -> Callable[[Any, str], T]:
    """A call whose one argument is the id in its route, as `GET audits/{audit_id}`."""
    method, _, path = route.partition(" ")

    def start(self: Calls, path: str) -> T:
        return self._wire.send(Request(method, path, parse, **options))

    return _at_path(path, about, start)


def downloads(path: str, about: str) -> Callable[[Any, str, IO[bytes]], None]:
    """A call that writes what is at a path with one id into a file, as it arrives."""

    def start(self: Calls, path: str, *, file: IO[bytes]) -> None:
        file.writelines(self._wire.read(Request("GET", path, content)))

    file = Parameter("file", Parameter.POSITIONAL_OR_KEYWORD, annotation=IO[bytes])
    return _at_path(path, about, start, file)


def reads(path: str, about: str) -> Callable[..., Generator[bytes, None, None]]:
    """A call whose values are the bytes of what is at a path, as they arrive."""

    def start(self: Calls, path: str) -> Generator[bytes, None, None]:
        return self._wire.read(Request("GET", path, content))

    return _at_path(path, about, start)


def lists(
    path: str, about: str, *, is_filtered: bool = False
) -> Callable[..., Generator[Json, None, None]]:
    """A call that lists what is at a path; `limit` is the size of a page.

    `is_filtered`: whether it takes the other parameters of the query too, by their names.
    """

    def start(self: Calls, path: str, **asked: Any) -> Generator[Json, None, None]:
        return _pages(self._wire, path, {**asked.pop("filters", {}), **asked})

    takes = [Parameter("limit", Parameter.KEYWORD_ONLY, default=None, annotation=int | None)]
    if is_filtered:
        takes.append(Parameter("filters", Parameter.VAR_KEYWORD, annotation=Any))
    return _at_path(path, about, start, *takes)


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


def _pages(wire: Wire, path: str, filters: Mapping[str, Any]) -> Generator[Json, None, None]:
    """The items of a list, page after page."""
    asked = dict(filters)
    while True:
        page = wire.send(Request("GET", path, json_object, params=asked))
        yield from page["items"]
        if page["next_cursor"] is None:
            return
        asked["cursor"] = page["next_cursor"]
