"""Requests, and what their answers are read as."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from json import JSONDecodeError
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

import httpx

from fedaudit_client.errors import PROBLEMS, FieldError, ProblemError, UnreachableError

T = TypeVar("T")

# Repeated, these change no more than sent once. DELETE is left out: the second answer to one that
# worked is 404.
_REPEATABLE = ("GET", "PUT")


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request below `/v1`, and what its answer means."""

    method: str
    path: str
    parse: Callable[[httpx.Response], T]
    """The value of an answer that is no problem. Raises UnreachableError where it has none."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Query parameters; those that are None are left out."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    """The body, as httpx takes it: `json`, `content` or `files`."""
    timeout: httpx.Timeout | None = None
    """In place of the client's own."""
    repeatable: bool | None = None
    """Whether it may be sent again where an answer was lost; None: as its method says."""

    @property
    def may_repeat(self) -> bool:
        """Whether sending it twice does no more than sending it once."""
        return self.method in _REPEATABLE if self.repeatable is None else self.repeatable

    @property
    def options(self) -> dict[str, Any]:
        """Everything but method and path, as httpx takes it."""
        params = {name: value for name, value in self.params.items() if value is not None}
        options = {**self.body, "params": params, "headers": dict(self.headers)}
        return options if self.timeout is None else {**options, "timeout": self.timeout}


def once(key: str | None) -> dict[str, Any]:
    """What makes a POST repeatable: an idempotency key, made here unless given.

    The service answers whatever comes under the same key with what it did the first time.
    """
    return {"headers": {"Idempotency-Key": key or str(uuid.uuid4())}, "repeatable": True}


def path_part(value: str) -> str:
    """A value as one segment of a path, whatever is in it."""
    return quote(value, safe="")


def experiment_path(experiment_id: str) -> str:
    """The path of an experiment below `/v1`."""
    return f"experiments/{path_part(experiment_id)}"


Json = dict[str, Any]

# What stands between client and service answers so while the service is away.
_GATEWAY = (502, 503, 504)


def check(response: httpx.Response) -> None:
    """Raises ProblemError for a problem document, UnreachableError for any other refusal.

    The body must have been read.
    """
    if response.status_code < 400:
        return
    if media_type(response) != "application/problem+json":
        raise UnreachableError(
            f"{response.url} answered {response.status_code} without saying why; "
            "is it the address of a fedaudit service?",
            is_temporary=response.status_code in _GATEWAY,
        )
    problem = json_object(response)
    type_ = str(problem.get("type", "about:blank"))
    raise PROBLEMS.get(type_.rpartition("/")[2], ProblemError)(
        response.status_code,
        type_,
        str(problem.get("detail") or problem.get("title") or response.reason_phrase),
        _field_errors(problem.get("errors")),
        retry_after_seconds=_retry_after(response.headers.get("retry-after", "")),
        request_id=response.headers.get("x-request-id"),
    )


def json_object(response: httpx.Response) -> Json:
    """The JSON object of an answer. Raises UnreachableError where it is none."""
    try:
        value = response.json()
    except (JSONDecodeError, UnicodeDecodeError):
        value = None
    if not isinstance(value, dict):
        raise UnreachableError(
            f"{response.url} answered with something other than a JSON object; "
            "is it the address of a fedaudit service?",
            is_temporary=False,
        )
    return value


def json_as(kind: type[T]) -> Callable[[httpx.Response], T]:
    """As `json_object`, for an answer whose fields `kind` names; they are not checked."""
    return cast("Callable[[httpx.Response], T]", json_object)


def items(response: httpx.Response) -> Sequence[Any]:
    """The `items` of an answer that is a list, as a whole or a page of it."""
    found = json_object(response).get("items")
    if not isinstance(found, list):
        raise UnreachableError(f"{response.url} answered without `items`", is_temporary=False)
    return found


def text(response: httpx.Response) -> str:
    """The text of an answer."""
    return response.text


def json_or_markdown(response: httpx.Response) -> Json | str:
    """The JSON object of an answer, or its text where the answer is Markdown."""
    return text(response) if media_type(response) == "text/markdown" else json_object(response)


def content(response: httpx.Response) -> bytes:
    """The bytes of an answer."""
    return response.content


def nothing(response: httpx.Response) -> None:
    """Of an answer that only says that it was done."""


def media_type(response: httpx.Response) -> str:
    """The media type of an answer, without its parameters."""
    found: str = response.headers.get("content-type", "").partition(";")[0]
    return found


def _field_errors(errors: Any) -> list[FieldError]:
    return [
        FieldError(str(error.get("pointer", "")), str(error.get("message", "")))
        for error in errors or []
        if isinstance(error, Mapping)
    ]


def _retry_after(value: str) -> float | None:
    """The seconds of a Retry-After header; None for a date, which this service never sends."""
    value = value.strip()
    return float(value) if value.isascii() and value.isdigit() else None
