"""Requests to URLs that users name: which addresses are allowed, and connections to checked
addresses only. A name is resolved once, at the connection, and each of its addresses is checked
(`CheckedBackend`)."""

import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from time import monotonic
from typing import Any

import httpcore
import httpx

MAX_URL_CHARACTERS = 2000

_GLOBAL_UNICAST = ip_network("2000::/3")
"""All that is routed on the internet today; what maps or translates to IPv4 is outside of it."""
_WRAPPED = (ip_network("2002::/16"), ip_network("2001::/32"))
"""6to4 and Teredo wrap an IPv4 address that would not be checked."""
_PRIVATE = tuple(
    map(
        ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "fc00::/7", "::1/128"),
    )
)
_SPECIAL = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20"))
)
"""Special, though some versions of Python take them for global: of protocols, of relays that are no
more, of a cloud's own machines, and of examples."""
_METADATA = ip_network("fd00:ec2::/32")
"""Where machines of a cloud read their credentials; the others' lie among link-local addresses."""


class AddressRefusedError(Exception):
    """The service does not call this; the message says why."""


def check_url(url: str, *, allow_private: bool) -> httpx.URL:
    """A URL that may be called, judged without resolving its name. Raises AddressRefusedError,
    whose message follows the field's name."""
    if len(url) > MAX_URL_CHARACTERS:
        raise AddressRefusedError(f"has more than {MAX_URL_CHARACTERS} characters")
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise AddressRefusedError(f"is no URL: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.port == 0:
        raise AddressRefusedError("must begin with https:// or http://, and name a host")
    if parsed.userinfo:
        raise AddressRefusedError("must not hold a user or password; deliveries are signed instead")
    if parsed.fragment or "#" in url:
        raise AddressRefusedError("must not have a fragment, which would never be sent")
    name = parsed.host.rstrip(".").lower()
    if not allow_private and (name == "localhost" or name.endswith(".localhost")):
        raise AddressRefusedError("names this machine; give an address that others can reach")
    for address in _written_out(parsed.host):
        check_address(address, allow_private=allow_private)
    return parsed


def check_address(text: str, *, allow_private: bool) -> None:
    """Raises AddressRefusedError for an address off the public internet; `allow_private` admits
    loopback and private networks."""
    try:
        address = ip_address(text)
    except ValueError:
        raise AddressRefusedError(f"{text!r} is no address") from None
    if _is_open(address) or (allow_private and _is_private(address)):
        return
    raise AddressRefusedError(
        f"{text} is not on the open internet; FEDAUDIT_WEBHOOKS_ALLOW_PRIVATE=true admits private "
        "networks and this machine, and nothing admits link-local and other special addresses"
    )


def _is_open(address: IPv4Address | IPv6Address) -> bool:
    if address.is_multicast or address.is_reserved or not address.is_global:
        return False
    if any(address in network for network in _SPECIAL):
        return False
    if isinstance(address, IPv4Address):
        return True
    return address in _GLOBAL_UNICAST and not any(address in network for network in _WRAPPED)


def _is_private(address: IPv4Address | IPv6Address) -> bool:
    return address not in _METADATA and any(address in network for network in _PRIVATE)


def _written_out(host: str) -> list[str]:
    """The addresses that a host is without any look-up, also in the odd forms that resolvers take
    (2130706433, 0177.0.0.1, 127.1); none for a name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return [str(sockaddr[0]) for *_, sockaddr in found]


Resolve = Callable[[str, int], Sequence[str]]
"""Maps a host and a port to addresses. Raises OSError."""

_MAX_ANSWER_BYTES = 1024
_MAX_ADDRESSES = 8
_CONNECT_SECONDS = 5.0


class UnansweredError(Exception):
    """No response; the message says why."""


def post(
    url: str,
    *,
    headers: dict[str, str],
    body: bytes,
    seconds: float,
    allow_private: bool,
    resolve: Resolve | None = None,
) -> int:
    """Send a POST request once, without redirects or proxy; returns the answer's status. `seconds`
    bounds everything after the name look-up. Raises UnansweredError, AddressRefusedError."""
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
            return answer.status
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
