"""Which service is called, by which key, and how patiently."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from fedaudit_client.errors import NotConfiguredError, UnreachableError
from fedaudit_client.http.retries import Retries
from fedaudit_client.version import __version__

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Connection:
    """A service and how it is called. Raises UnreachableError for what is no address, and
    NotConfiguredError for what is no key."""

    url: str
    api_key: str
    timeout: float
    """Seconds to connect, to send, and to wait for the next byte."""
    retries: Retries

    def __post_init__(self) -> None:
        _host(self.url)
        if not (self.api_key.isascii() and self.api_key.isprintable()):
            raise NotConfiguredError("the API key has characters that no key has; copy it anew")

    @classmethod
    def of(
        cls, url: str | None, api_key: str | None, *, timeout: float, retries: Retries | None
    ) -> Self:
        """What is given, and FEDAUDIT_URL and FEDAUDIT_API_KEY for what is not."""
        return cls(
            _given("FEDAUDIT_URL", url).rstrip("/"),
            _given("FEDAUDIT_API_KEY", api_key),
            timeout,
            Retries() if retries is None else retries,
        )

    @property
    def options(self) -> dict[str, Any]:
        """As httpx takes them."""
        return {
            "base_url": f"{self.url}/v1/",
            "headers": {
                "Authorization": f"Bearer {self.api_key}",
                "Accept": "application/json",
                "User-Agent": f"fedaudit-client/{__version__} httpx/{httpx.__version__}",
            },
            "timeout": self.timeout,
            # A proxy cannot reach a service on this machine.
            "trust_env": _host(self.url) not in _LOOPBACK,
        }

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Failures of the network as UnreachableErrors."""
        try:
            yield
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise UnreachableError(f"the service at {self.url} does not answer: {reason}") from None
        except httpx.InvalidURL as error:
            raise UnreachableError(
                f"{self.url} is no address: {error}", is_temporary=False
            ) from None


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
    except ValueError:
        host = None
    if not host:
        raise UnreachableError(
            f"{url!r} is no address; give one such as http://127.0.0.1:8000", is_temporary=False
        )
    return host
