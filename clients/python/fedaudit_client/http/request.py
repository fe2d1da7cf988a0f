"""A call of the HTTP interface as data: what is sent, and how the answer is read. No network."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

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
