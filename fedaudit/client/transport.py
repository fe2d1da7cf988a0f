"""One HTTP exchange with the service, and what its failures mean."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from json import JSONDecodeError
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from fedaudit.client.errors import NotConfiguredError, ProblemError, UnreachableError
from fedaudit.spec.errors import FieldError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Transport:
    """Sends requests with the key. Raises UnreachableError and ProblemError."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float,
        http_transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Raises UnreachableError for what is no address, NotConfiguredError for what is no key."""
        host = _host(url)
        if not (api_key.isascii() and api_key.isprintable()):
            raise NotConfiguredError("the API key has characters that no key has; copy it anew")
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=f"{self.url}/v1/",
            headers={"Authorization": f"Bearer {api_key}", "Accept": "application/json"},
            timeout=timeout,
            transport=http_transport,
            # A proxy cannot reach a service on this machine.
            trust_env=host not in _LOOPBACK,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The whole answer, if it is no problem."""
        with self._translated():
            response = self._http.request(method, path, **options)
        _check(response)
        return response

    def json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """The JSON object of an answer."""
        return _object(self.request(method, path, **options))

    def json_or_markdown(self, method: str, path: str, **options: Any) -> dict[str, Any] | str:
        """The JSON object of an answer, or its text where the answer is Markdown."""
        answer = self.request(method, path, **options)
        return answer.text if _media_type(answer) == "text/markdown" else _object(answer)

    @contextmanager
    def stream(self, path: str, **options: Any) -> Iterator[httpx.Response]:
        """An answer whose body is read while the block runs."""
        with self._translated(), self._http.stream("GET", path, **options) as response:
            if response.status_code >= 400:
                response.read()
            _check(response)
            yield response

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise UnreachableError(f"the service at {self.url} does not answer: {reason}") from None
        except httpx.InvalidURL as error:
            raise UnreachableError(f"{self.url} is no address: {error}") from None


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.port != 0
        host = parts.hostname if usable else None
    except ValueError:
        host = None
    if not host:
        raise UnreachableError(f"{url!r} is no address; give one such as http://127.0.0.1:8000")
    return host


def path_part(value: str) -> str:
    """A value as one segment of a path, whatever is in it."""
    return quote(value, safe="")


def _check(response: httpx.Response) -> None:
    if response.status_code < 400:
        return
    if _media_type(response) != "application/problem+json":
        raise UnreachableError(
            f"{response.url} answered {response.status_code} without saying why; "
            "is it the address of a fedaudit service?"
        )
    problem = _object(response)
    errors = [
        FieldError(str(error.get("pointer", "")), str(error.get("message", "")))
        for error in problem.get("errors") or []
        if isinstance(error, Mapping)
    ]
    raise ProblemError(
        response.status_code,
        str(problem.get("type", "about:blank")),
        str(problem.get("detail") or problem.get("title") or response.reason_phrase),
        errors,
        retry_after_seconds=_retry_after(response.headers.get("retry-after", "")),
    )


def _retry_after(value: str) -> float | None:
    """The seconds of a Retry-After header; None for a date, which this service never sends."""
    value = value.strip()
    return float(value) if value.isascii() and value.isdigit() else None


def _media_type(response: httpx.Response) -> str:
    found: str = response.headers.get("content-type", "").partition(";")[0]
    return found


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        value = response.json()
    except (JSONDecodeError, UnicodeDecodeError):
        value = None
    if not isinstance(value, dict):
        raise UnreachableError(
            f"{response.url} answered with something other than a JSON object; "
            "is it the address of a fedaudit service?"
        )
    return value
