"""Requests, what their answers mean, and the connection that sends and repeats them."""

import os
import uuid
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from json import loads
from time import monotonic, sleep
from typing import IO, Any, Self, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from fedaudit_client.errors import (
    PROBLEMS,
    ClientError,
    FieldError,
    NotConfiguredError,
    ProblemError,
    UnreachableError,
)
from fedaudit_client.version import __version__

T = TypeVar("T")
Json = dict[str, Any]
Items = Generator[Json, None, None]

# Sending these twice has the effect of sending them once. DELETE is not among them: the second
# answer would be 404.
_REPEATABLE = ("GET", "PUT")
# What a gateway between client and service answers while the service is away.
_GATEWAY = (502, 503, 504)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SHOWN = 80
_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.2, 5.0


# -- requests and answers --------------------------------------------------------------------------


def once(key: str | None) -> dict[str, Any]:
    """What makes a POST repeatable: an idempotency key, generated unless given."""
    return {"headers": {"Idempotency-Key": key or str(uuid.uuid4())}, "repeatable": True}


def stated(**values: Any) -> Json:
    """Those that are not None: parameters of a query, or fields of a body."""
    return {name: value for name, value in values.items() if value is not None}


def path_of(path: str, *ids: str) -> str:
    """A path with `{}` filled in, each id escaped to one segment."""
    return path.format(*(quote(one, safe="") for one in ids))


def check(response: httpx.Response) -> None:
    """Raises ProblemError for a problem document, UnreachableError for any other refusal.

    The body must have been read.
    """
    if response.status_code < 400:
        return
    if _media_type(response) != "application/problem+json":
        raise UnreachableError(
            f"{response.url} answered {response.status_code} without saying why; "
            "is it the address of a fedaudit service?",
            is_temporary=response.status_code in _GATEWAY,
        )
    problem = json_object(response)
    type_ = str(problem.get("type", "about:blank"))
    faults = [one for one in problem.get("errors") or [] if isinstance(one, Mapping)]
    # A date, which this service never sends, counts as no pause.
    pause = response.headers.get("retry-after", "").strip()
    raise PROBLEMS.get(type_.rpartition("/")[2], ProblemError)(
        response.status_code,
        type_,
        str(problem.get("detail") or problem.get("title") or response.reason_phrase),
        [FieldError(str(one.get("pointer", "")), str(one.get("message", ""))) for one in faults],
        retry_after_seconds=float(pause) if pause.isascii() and pause.isdigit() else None,
        request_id=response.headers.get("x-request-id"),
    )


def json_with(*members: str) -> Callable[[httpx.Response], Json]:
    """A parser of answers that are JSON objects. It raises UnreachableError for any other, and for
    one that lacks one of these members."""

    def parse(response: httpx.Response) -> Json:
        value = json_value(response.content, response.url)
        if not isinstance(value, dict) or not value.keys() >= set(members):
            raise foreign(response.url, response.content)
        return value

    return parse


json_object = json_with()


def json_value(data: bytes | str, address: object) -> Any:
    """JSON that came from an address. Raises UnreachableError if it is something else."""
    try:
        return loads(data)
    except ValueError:
        raise foreign(address, data) from None


def foreign(address: object, data: bytes | str) -> UnreachableError:
    """The error for an answer that is none of the service's, and shows how it begins."""
    return UnreachableError(
        f"{address} answered with what no fedaudit service does; is it the address of one? "
        f"It came: {data[:_SHOWN]!r}",
        is_temporary=False,
    )


def text(response: httpx.Response) -> str:
    """The text of an answer."""
    return response.text


def json_or_markdown(response: httpx.Response) -> Json | str:
    """The JSON object of an answer, or its text if the answer is Markdown."""
    return text(response) if _media_type(response) == "text/markdown" else json_object(response)


def nothing(response: httpx.Response) -> None:
    """Read an answer that has no content."""


def _media_type(response: httpx.Response) -> str:
    found: str = response.headers.get("content-type", "").partition(";")[0]
    return found


# -- connections -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Retries:
    """How often a call is tried, and how long it may wait in between.

    Only repeatable requests are sent again: reads, PUTs, and those with an idempotency key; and
    only after failures that may pass: no answer, and 429, 502, 503 and 504.
    """

    attempts: int = 3
    """The first included; 1 repeats nothing."""
    first_pause_seconds: float = 0.2
    """Doubled after each attempt."""
    longest_pause_seconds: float = 10.0
    """If the service asks for a longer pause (Retry-After), its refusal is raised."""

    def of(self, attempt: Callable[[], T]) -> T:
        """The outcome of a call, or the error of its last attempt."""
        again = Retrying(
            sleep=sleep,
            stop=stop_after_attempt(self.attempts),
            wait=self._pause,
            retry=retry_if_exception(self._may_pass),
            reraise=True,
        )
        return again(attempt)

    def _may_pass(self, error: BaseException) -> bool:
        asked = _retry_after(error) or 0.0
        temporary = isinstance(error, ClientError) and error.is_temporary
        return temporary and asked <= self.longest_pause_seconds

    def _pause(self, state: RetryCallState) -> float:
        asked = _retry_after(state.outcome.exception() if state.outcome else None)
        if asked is not None:
            return asked
        doubled = self.first_pause_seconds * 2.0 ** (state.attempt_number - 1)
        return min(doubled, self.longest_pause_seconds)


def _retry_after(error: BaseException | None) -> float | None:
    return error.retry_after_seconds if isinstance(error, ProblemError) else None


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
        named = parts.username is not None
    except ValueError:
        host, named = None, False
    if named:
        # Messages show the address, and httpx would send its password in place of the key.
        raise NotConfiguredError("the address has a name or password in it; take these out")
    if not host:
        raise UnreachableError(
            f"{url!r} is not an address; give one such as http://127.0.0.1:8000", is_temporary=False
        )
    return host


class Patience:
    """Pauses between attempts, up to five seconds or as long as the service asks for."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: how long the service may be away."""
        self._seconds = seconds
        self.answered()
        self._wait = _FIRST_WAIT_SECONDS

    def answered(self, *, news: bool = False) -> None:
        """Note that the service has answered; after `news` pauses start short again."""
        self._heard = monotonic()
        if news:
            self._wait = _FIRST_WAIT_SECONDS

    def pause(self, error: ClientError | None = None) -> None:
        """Wait; raises `error` if it is final, or the service was away for too long."""
        asked = _retry_after(error) or 0.0
        if error and (not error.is_temporary or monotonic() + asked - self._heard > self._seconds):
            raise error
        sleep(max(self._wait, asked))
        self._wait = min(2 * self._wait, _MAX_WAIT_SECONDS)


class Calls:
    """Sends requests to one service with one key. Raises UnreachableError and ProblemError."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        project: str | None = None,
        timeout: float = 30.0,
        retries: Retries | None = None,
        http_transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`api_key`: or a token of the service's identity provider, with `project` where that opens
        several. `timeout`: seconds to connect, to send, and to wait for the next byte. Raises
        NotConfiguredError for a missing address or key, and UnreachableError for an invalid
        address."""
        self.url = _given("FEDAUDIT_URL", url).rstrip("/")
        """The service's address; its pages are below it."""
        key, host = _given("FEDAUDIT_API_KEY", api_key), _host(self.url)
        # The one of the caller's projects that is meant; empty where there is only one.
        named = (os.environ.get("FEDAUDIT_PROJECT", "") if project is None else project).strip()
        if not (key and key.isascii() and key.isprintable()):
            raise NotConfiguredError("the API key is empty or has odd characters; copy it anew")
        if not named.isprintable():
            raise NotConfiguredError("FEDAUDIT_PROJECT: a project's name has no such characters")
        headers: dict[str, Any] = {
            "Authorization": f"Bearer {key}",
            "Accept": "application/json",
            "User-Agent": f"fedaudit-client/{__version__} httpx/{httpx.__version__}",
        }
        if named:
            # The service reads names as UTF-8.
            headers["Fedaudit-Project"] = named.encode()
        self._retries = Retries() if retries is None else retries
        self._http = httpx.Client(
            base_url=f"{self.url}/v1/",
            headers=headers,
            timeout=timeout,
            # A proxy cannot reach a service on this machine.
            trust_env=host not in _LOOPBACK,
            transport=http_transport,
        )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Failures of the network as UnreachableErrors."""
        try:
            yield
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise UnreachableError(f"the service at {self.url} does not answer: {reason}") from None
        except httpx.InvalidURL as error:
            message = f"{self.url} is not an address: {error}"
            raise UnreachableError(message, is_temporary=False) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(
        self,
        method: str,
        path: str,
        parse: Callable[[httpx.Response], T],
        *,
        repeatable: bool = False,
        **options: Any,
    ) -> T:
        """The value that `parse` finds in the answer to one request below `/v1`.

        `options`: as httpx takes them. `repeatable`: may be sent again after a lost answer, as a
        read and a PUT may; it is then repeated if that may help.
        """

        def attempt() -> T:
            with self._translated():
                response = self._http.request(method, path, **options)
            check(response)
            return parse(response)

        if repeatable or method in _REPEATABLE:
            return self._retries.of(attempt)
        return attempt()

    def _got(self, path: str, *ids: str) -> Json:
        """The JSON object at a path, as `path_of` takes it."""
        return self._send("GET", path_of(path, *ids), json_object)

    def _posted(self, path: str, *ids: str, **options: Any) -> Json:
        """The JSON object that answers a POST; `options` as `_send` takes them."""
        return self._send("POST", path_of(path, *ids), json_object, **options)

    @contextmanager
    def _opened(self, method: str, path: str, **options: Any) -> Iterator[Iterator[bytes]]:
        """The bytes of an answer, read while the block runs. Nothing is repeated."""
        with self._translated(), self._http.stream(method, path, **options) as response:
            if response.status_code >= 400:
                response.read()
            check(response)
            yield response.iter_bytes()

    def _read(self, path: str, **options: Any) -> Generator[bytes, None, None]:
        """The bytes of what is at a path, as they arrive; only the start is retried.

        Raises UnreachableError if the connection breaks after that.
        """
        with ExitStack() as stack:
            opened = partial(self._opened, "GET", path, **options)
            yield from self._retries.of(lambda: stack.enter_context(opened()))

    def _save(self, file: IO[bytes], path: str, *ids: str) -> None:
        """Write what is at a path into a file, as it arrives."""
        file.writelines(self._read(path_of(path, *ids)))

    def items(self, path: str, *, limit: int | None = None, **filters: Any) -> Items:
        """The items of any list, page after page: `items("reports", attribute="sex")`.

        The filters are the service's query parameters; `limit` is the size of a page.
        """
        while True:
            asked = stated(limit=limit, **filters)
            page = self._send("GET", path, json_with("items", "next_cursor"), params=asked)
            yield from page["items"]
            if page["next_cursor"] is None:
                return
            filters["cursor"] = page["next_cursor"]

    def _polled(
        self, path: str, *ids: str, until: Collection[str], patience_seconds: float = 0.0
    ) -> Items:
        """What is at a path, until it has such a status.

        Raises UnreachableError, or ProblemError, after `patience_seconds` without the service.
        """
        patience = Patience(patience_seconds)
        while True:
            try:
                found = self._send("GET", path_of(path, *ids), json_with("status"))
            except (UnreachableError, ProblemError) as error:
                patience.pause(error)
                continue
            yield found
            if found["status"] in until:
                return
            patience.answered()
            patience.pause()

    def _awaited(
        self, path: str, *ids: str, until: Collection[str], patience_seconds: float = 0.0
    ) -> Json:
        """The last answer of `_polled`."""
        found = self._polled(path, *ids, until=until, patience_seconds=patience_seconds)
        return deque(found, maxlen=1).pop()
