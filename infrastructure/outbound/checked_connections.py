"""Connections to addresses that were checked, within a time that bounds the whole exchange.

The name is resolved once. Every address it has is checked, and the connection goes to one of those
very addresses: a name that has another address a moment later changes nothing. The request's Host
header and the certificate are still the name's.
"""

import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any

import httpcore
import httpx

from infrastructure.outbound.addresses import AddressRefusedError, check_address, check_url
from infrastructure.outbound.retry_after import retry_after

Resolve = Callable[[str, int], Sequence[str]]
"""From a host and a port to addresses. Raises OSError."""

_MAX_ANSWER_BYTES = 1024
_MAX_ADDRESSES = 8
_CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class Answer:
    """What a receiver answered; the body is dropped."""

    status: int
    retry_after_seconds: float | None
    """When it asks to be called again; None where it says nothing that can be read."""


class UnansweredError(Exception):
    """Nobody answered; the message says why."""


def post(
    url: str,
    *,
    headers: dict[str, str],
    body: bytes,
    seconds: float,
    allow_private: bool,
    resolve: Resolve | None = None,
) -> Answer:
    """Send a POST request once.

    No redirect is followed and no proxy used. `seconds` bounds everything behind the look-up of the
    name, which has limits of its own. Raises UnansweredError, AddressRefusedError.
    """
    parsed = check_url(url, allow_private=allow_private)
    backend = CheckedBackend(allow_private=allow_private, seconds=seconds, resolve=resolve)
    target = httpcore.URL(
        scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path
    )
    sent = [(b"Host", parsed.netloc), *((k.encode(), v.encode()) for k, v in headers.items())]
    timeouts = dict.fromkeys(("connect", "read", "write", "pool"), seconds)
    try:
        with (
            httpcore.ConnectionPool(ssl_context=_trusted(parsed), network_backend=backend) as pool,
            pool.stream(
                "POST", target, headers=sent, content=body, extensions={"timeout": timeouts}
            ) as answer,
        ):
            _drop(answer.iter_stream())
            asked = retry_after(answer.headers, now=datetime.now(UTC))
            return Answer(answer.status, asked)
    except httpcore.TimeoutException:
        raise UnansweredError(f"no whole answer within {seconds:g} s") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        raise UnansweredError(f"{type(error).__name__}: {error}") from None


class CheckedBackend(httpcore.NetworkBackend):
    """Opens connections to checked addresses alone, all of them within `seconds` from now on."""

    def __init__(
        self, *, allow_private: bool, seconds: float, resolve: Resolve | None = None
    ) -> None:
        self._allow_private = allow_private
        self._seconds = seconds
        self._resolve = resolve or _resolve
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Raises AddressRefusedError where any address of the host is refused."""
        try:
            found = list(self._resolve(host, port))[:_MAX_ADDRESSES]
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"the name {host} was not resolved: {error}") from None
        if not found:
            raise httpcore.ConnectError(f"the name {host} has no address")
        for address in found:
            # One that is refused among others is how a name would be made to change its mind.
            check_address(address, allow_private=self._allow_private)
        deadline = monotonic() + self._seconds
        failure: Exception | None = None
        for address in found:
            try:
                stream = self._sockets.connect_tcp(
                    address,
                    port,
                    timeout=_left(deadline, _CONNECT_SECONDS),
                    local_address=local_address,
                    socket_options=socket_options,
                )
                return _TimedStream(stream, deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.NetworkStream:
        """Refused."""
        raise AddressRefusedError("a socket of this machine is never called")

    def sleep(self, seconds: float) -> None:
        """Wait."""
        sleep(seconds)


class _TimedStream(httpcore.NetworkStream):
    """A stream with one deadline: a peer that sends a byte now and then does not move it."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        # In small pieces: so little of an answer is wanted that a whole buffer would be too much.
        piece = min(max_bytes, _MAX_ANSWER_BYTES)
        return self._stream.read(piece, _left(self._deadline, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._deadline, timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(self._deadline, timeout)
        stream = self._stream.start_tls(ssl_context, server_hostname, left)
        return _TimedStream(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(deadline: float, timeout: float | None) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout
    return left if timeout is None else min(left, timeout)


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


def _trusted(url: httpx.URL) -> ssl.SSLContext | None:
    """The usual authorities, and those of SSL_CERT_FILE; none are read where none are asked."""
    return httpx.create_ssl_context() if url.scheme == "https" else None


def _drop(pieces: Iterable[bytes]) -> None:
    """Read the beginning of an answer, so that its sender sees it taken; nothing of it is kept."""
    read = 0
    for piece in pieces:
        read += len(piece)
        if read >= _MAX_ANSWER_BYTES:
            return
